"""`rollbook export`: a view, a table or a query as a file; and the roster for other systems.

oneroster.py   OneRoster 1.2, CSV: all of it, or what changed since a day
commands.py    the command
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rollbook.feature import Feature

if TYPE_CHECKING:
    from rollbook.rights.personal import PersonalData


class Export(Feature):
    """Files for Excel and other systems."""

    name = "export"

    def commands(self) -> None:
        """`rollbook export`."""
        from rollbook.features.export import commands  # noqa: F401 - it adds itself

    def personal(self, root: Path) -> PersonalData:  # noqa: ARG002 - the same everywhere
        """Files that people wrote elsewhere are theirs to find."""
        from rollbook.rights.personal import PersonalData

        return PersonalData(
            to_do=(
                "Copies taken elsewhere are yours to find: files written with `rollbook export --out` (also a hidden"
                " .rollbook-*.partial, where one was killed), exports that somebody moved or sent, Parquet and CSV that"
                " others took from snapshots/, other databases that read the published file.",
            )
        )


FEATURE = Export()
