"""The district's files, where a student was erased."""

from __future__ import annotations

from pathlib import Path

from rollbook.night.listeners import ErasureUnderWay, Listener
from rollbook.store.district import FleetFile


class DistrictFiles(Listener):
    """Removes the district's files, with all their versions, from which a student was erased.

    They are not made again here: they hold all institutions, so this writer would have to read the others' files for
    minutes under its own lock, and an erasure must not wait for another school's damaged file.
    """

    name = "the district's files"

    def __init__(self, folder: Path | None) -> None:
        self.files = [FleetFile(folder, pseudonymous=p) for p in (False, True)] if folder else []
        self._there = [file.path for file in self.files if file.path.exists()]

    @property
    def were_removed(self) -> bool:
        """Whether one that was there is gone, by an erasure or by new codes."""
        return not all(path.exists() for path in self._there)

    def erased(self, erased: ErasureUnderWay) -> None:
        """Remove them; counts the versions."""
        if self.files:
            erased.counts["fleet"] = sum(file.remove() for file in self.files)
