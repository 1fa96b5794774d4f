"""The pseudonymous file: the published file without names, and the random code of each student.

pseudonymous.py   makes it each night, and keeps the codes
contents.py       what it has of each table and view
commands.py       `rollbook codes`
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rollbook.feature import Feature

if TYPE_CHECKING:
    from rollbook.health.finding import Finding
    from rollbook.night.listeners import Listener
    from rollbook.opened import Rollbook
    from rollbook.rights.personal import PersonalData


class PseudonymousFile(Feature):
    """`rollbook-pseudonymous.duckdb`, for readers who need no names."""

    name = "pseudonymous"
    settings = "rollbook.features.pseudonymous.settings:PseudonymousSettings"

    def commands(self) -> None:
        """`rollbook codes`."""
        from rollbook.features.pseudonymous import commands  # noqa: F401 - it adds itself

    def listener(self, opened: Rollbook) -> Listener:
        """Makes the file."""
        from rollbook.features.pseudonymous.pseudonymous import Pseudonymous
        from rollbook.features.pseudonymous.settings import PseudonymousSettings

        return Pseudonymous(opened.warehouse, wanted=PseudonymousSettings.of(opened.settings).pseudonymous)

    def lines(self, opened: Rollbook) -> Iterator[Finding]:
        """Whether the file matches the published one."""
        from rollbook.features.pseudonymous.pseudonymous import Pseudonymous
        from rollbook.health.finding import Finding, Level

        if (file := opened.find(Pseudonymous)) is not None and (says := file.differs()) is not None:
            yield Finding(
                "codes", Level.WARNING if says else Level.OK, says or f"{file.name} matches the published file"
            )

    def personal(self, root: Path) -> PersonalData:
        """The codes."""
        from rollbook.features.pseudonymous.pseudonymous import code_of
        from rollbook.rights.personal import PersonalData

        return PersonalData(
            labels={"codes": "codes of the pseudonymous file, deleted"},
            sections=lambda student: [code_of(root, student)],
        )


FEATURE = PseudonymousFile()
