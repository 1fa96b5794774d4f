"""What listens to the nights of a district's institutions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime

from rollbook.errors import ArgumentError, RollbookError
from rollbook.features.district.nights import record
from rollbook.features.district.worker import failed_night, outcome_of
from rollbook.night.listeners import ErasureUnderWay, Listener
from rollbook.night.place import Place
from rollbook.settings import Settings
from rollbook.store.district import DistrictFile


class InstitutionsNights(Listener):
    """Keeps how a sync of one institution alone ended, and removes the district's files from which a student was
    erased, with all their versions.

    The files are not made again here: they hold all institutions, so this writer would have to read the others' files
    for minutes under its own lock, and an erasure must not wait for another school's damaged file.
    """

    name = "the district's files"

    def __init__(self, place: Place, settings: Settings, clock: Callable[[], datetime]) -> None:
        self.place = place
        self.settings = settings
        self.clock = clock
        self.folder = place.warehouse.district
        self.files = [DistrictFile(self.folder, pseudonymous=p) for p in (False, True)] if self.folder else []
        self._there = [file.path for file in self.files if file.path.exists()]

    @property
    def were_removed(self) -> bool:
        """Whether one that was there is gone, by an erasure or by new codes."""
        return not all(path.exists() for path in self._there)

    def erased(self, erased: ErasureUnderWay) -> None:
        """Remove them; counts the versions."""
        if self.files:
            erased.counts["district"] = sum(file.remove() for file in self.files)

    def sync_ended(self, day: date, error: Exception | None) -> None:
        """Count the sync among the institution's nights."""
        if self.folder is None or not (error is None or isinstance(error, RollbookError)):
            return
        if isinstance(error, ArgumentError):  # the person was told, and no night was
            return
        counted = self.place.landings.counted(day) if error is None else []
        if error is not None:
            outcome = failed_night(error, self.clock(), day)
        elif counted:
            outcome = outcome_of(counted[-1])
        else:
            return
        with suppress(OSError):
            record(self.folder, self.settings.institution, outcome)
