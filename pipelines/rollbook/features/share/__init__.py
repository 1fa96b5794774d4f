"""`rollbook share`: the published file, and the pseudonymous one, for programs on other machines.

register.py   who may open it
served.py     the file with byte ranges, from the server of `rollbook explore`
commands.py   `rollbook share`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rollbook.feature import Feature

if TYPE_CHECKING:
    from starlette.routing import Route

    from rollbook.health.finding import Finding
    from rollbook.opened import Rollbook
    from rollbook.rights.personal import PersonalData
    from rollbook.views.dictionary import Chapter


class SharedFile(Feature):
    """The file over https."""

    name = "share"

    def commands(self) -> None:
        """`rollbook share`."""
        from rollbook.features.share import commands  # noqa: F401 - it adds itself

    def lines(self, opened: Rollbook) -> Iterable[Finding]:
        """How many readers there are, and whether they get their file."""
        from rollbook.features.share.register import Register, hindrances
        from rollbook.health.finding import Finding, Level
        from rollbook.util.text import count_of

        if readers := Register(opened.warehouse.root).read():
            found = hindrances(opened.settings, readers)
            says = f"{count_of(len(readers), 'reader')} on other machines (`rollbook share list`)"
            yield Finding("share", Level.WARNING if found else Level.OK, "; ".join((says, *found)))

    def personal(self, root: Path) -> PersonalData:  # noqa: ARG002 - the same everywhere
        """The versions that were open are closed when an erasure begins."""
        from rollbook.rights.personal import PersonalData

        return PersonalData(
            to_do=(
                "Programs on other machines (`rollbook share list`), if there are any, read nothing of the old file any"
                " more. What they copied from it still has the student: ask their owners to read it again.",
            )
        )

    def explored(self) -> Sequence[Route]:
        """The file, for those who have a token."""
        from starlette.routing import Route

        from rollbook.features.share.served import Share
        from rollbook.settings import is_of_all, place

        return () if is_of_all() else [Route("/file/{name:path}", Share(place().warehouse_path).answer)]

    def chapters(self) -> Iterable[Chapter]:
        """How to attach the file."""
        from importlib.resources import files

        from rollbook.views.dictionary import Chapter

        return [Chapter(files(__package__).joinpath("dictionary.md").read_text(encoding="utf-8"))]


FEATURE = SharedFile()
