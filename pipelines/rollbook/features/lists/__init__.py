"""The school's own lists: CSV files in `own/`, such as year groups and tutors, landed with each night; and who was
spoken to, from `contacted.csv`.

folder.py   which files there are, and what is wrong with them
contacts.py who was spoken to, as lists and as the table `contacts`
merge.py    makes `own_<list>`, its history and `students_own` from what was landed
erasure.py  removes erased students from the files
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rollbook.feature import Feature

if TYPE_CHECKING:
    from rollbook.health.finding import Finding
    from rollbook.landing.own import Own
    from rollbook.night.listeners import Listener
    from rollbook.opened import Rollbook
    from rollbook.rights.personal import PersonalData
    from rollbook.tables import Relation
    from rollbook.views.additions import Connection, NextFile
    from rollbook.views.catalog import Macro
    from rollbook.views.dictionary import Chapter


class Lists(Feature):
    """The school's own lists, as tables."""

    name = "lists"

    def inputs(self, root: Path) -> Own | None:
        """The files in `own/`."""
        from rollbook.features.lists.folder import to_land

        return to_land(root)

    def relations(self) -> Iterable[Relation]:
        """Who was spoken to, and the versions."""
        from rollbook.features.lists.contacts import CONTACTS, CONTACTS_EVER

        return CONTACTS, CONTACTS_EVER

    def macros(self, version: str) -> Iterable[Macro]:
        """`contacts_as_of`."""
        from rollbook.features.lists.contacts import contacts_as_of

        return (contacts_as_of(version),)

    def fill(self, con: Connection, file: NextFile) -> None:
        """Make the lists' relations."""
        from rollbook.features.lists.folder import public
        from rollbook.features.lists.merge import bring_up, fill
        from rollbook.night.landings import Landings

        if file.raw is None:
            fill(con, file.version)
        else:
            bring_up(con, file.raw, Landings(file.raw).counted_days())
            fill(con, file.version, public(file.raw.root.parent)[0])

    def listener(self, opened: Rollbook) -> Listener:
        """Removes erased students from the files."""
        from rollbook.features.lists.erasure import Files

        return Files(opened.warehouse.root)

    def lines(self, opened: Rollbook) -> Iterator[Finding]:
        """What is wrong with the files, and which lists have ended."""
        from rollbook.features.lists.folder import findings

        yield from findings(opened.warehouse.root, opened.landings)

    def chapters(self) -> Iterable[Chapter]:
        """How to keep lists, and what becomes of them."""
        from importlib.resources import files

        from rollbook.features.lists.contacts import chapter

        return [chapter(files(__name__).joinpath("dictionary.md").read_text("utf-8").rstrip())]

    def personal(self, root: Path) -> PersonalData:  # noqa: ARG002 - tables with a student's rows are found by column
        """Lines of the files."""
        from rollbook.features.lists.erasure import LABELS, TO_DO
        from rollbook.rights.personal import PersonalData

        return PersonalData(LABELS, TO_DO)


FEATURE = Lists()
