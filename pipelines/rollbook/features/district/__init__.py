"""The institutions of a registry, each with a warehouse of its own.

nights.py      runs over all institutions: processes, alerts, pauses, and the last outcomes, in `district/state/`; how
               all stand, for a monitoring system and as a page (`page.html`)
worker.py      a process that does one institution's night after the other
build.py       builds `district.duckdb`, one file with all institutions; rebuilds and compares their histories
tasks.py       what is done for one institution by itself, here or on another machine
spark.py       runs that as tasks of Spark or Sail
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rollbook.feature import Feature

if TYPE_CHECKING:
    import dagster as dg
    from starlette.routing import Route

    from rollbook.defs.resources import School
    from rollbook.night.listeners import Listener
    from rollbook.opened import Rollbook
    from rollbook.rights.personal import PersonalData
    from rollbook.views.dictionary import Chapter


class District(Feature):
    """Many institutions in one place."""

    name = "district"
    settings = "rollbook.features.district.settings:DistrictSettings"
    needs = ("alerts", "pseudonymous")

    def commands(self) -> None:
        """`rollbook district`."""
        from rollbook.features.district import commands  # noqa: F401 - it adds itself

    def listener(self, opened: Rollbook) -> Listener | None:
        """Keeps how an institution's syncs end, and removes the district's files from which a student was erased."""
        if not opened.settings.institution:
            return None  # a single school loads nothing of it
        from rollbook.features.district.listener import InstitutionsNights

        return InstitutionsNights(opened.place, opened.settings, opened.clock)

    def personal(self, root: Path) -> PersonalData:  # noqa: ARG002 - the same everywhere
        """The district's files are removed, and made again without the student."""
        from rollbook.rights.personal import PersonalData

        return PersonalData(
            labels={
                "district": "versions of district.duckdb and district-pseudonymous.duckdb, removed; `rollbook district"
                " build` makes them again without the student"
            },
            to_do=(
                "Backups of district.duckdb still hold the student: delete them, or let them expire, and note by when."
                " A restored district.duckdb holds the student until the next `rollbook district build`.",
            ),
        )

    def chapters(self) -> Iterable[Chapter]:
        """The district's file."""
        from rollbook.features.district.views import chapter

        return [chapter()]

    def repair(self, opened: Rollbook) -> None:
        """Build the district's files again."""
        if not opened.settings.institution:
            return
        from rollbook.features.district.listener import InstitutionsNights

        if (files := opened.find(InstitutionsNights)) is not None and files.were_removed:
            from rollbook.features.district.commands import build_again

            build_again()

    def definitions(self, school: School) -> dg.Definitions | None:
        """A district's assets, jobs, schedules and sensors; None for a single school."""
        if school.registry() is None:
            return None
        from rollbook.features.district import definitions

        return definitions.definitions(school)

    def routes(self) -> Sequence[Route]:
        """The page about all institutions."""
        from rollbook.features.district.served import ROUTES

        return ROUTES


FEATURE = District()
