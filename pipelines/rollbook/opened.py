"""What a command opens: an institution's folders, its settings, a clock, and who listens to its nights."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import TypeVar

from rollbook.landing.manifest import Manifest
from rollbook.landing.raw import RawStore
from rollbook.night.landings import Landings
from rollbook.night.listeners import Listener, Listeners
from rollbook.night.place import Inputs, Place, quiet, today_at
from rollbook.night.writing import Writer
from rollbook.settings import Settings
from rollbook.source.fetch import utc_now
from rollbook.source.pagination import Progress
from rollbook.store.lake import Lake
from rollbook.store.warehouse import Warehouse
from rollbook.views.additions import Addition

L = TypeVar("L", bound=Listener)


class Rollbook:
    """One institution, as a command opens it. No stage takes it: each is given what it reads."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Callable[[], datetime] = utc_now,
        additions: tuple[Addition, ...] = (),
        inputs: tuple[Inputs, ...] = (),
    ) -> None:
        self.settings = settings
        self.clock = clock
        root = settings.warehouse_path
        shared_mode: int | None = getattr(settings, "shared_mode", None)  # a feature's, if it is there
        self.place = Place(
            RawStore(root / "raw"),
            Warehouse(
                root,
                settings.file_mode,
                shared_mode=shared_mode,
                district=settings.district_path,
                declared=settings.declared,
            ),
            additions,
            inputs,
        )
        self.listeners = Listeners(root)

    def writer(self, progress: Progress = quiet) -> Writer:
        """The writer, which shows its `progress`."""
        return Writer(self.place, self.settings, self.listeners, self.clock, progress)

    @property
    def raw(self) -> RawStore:
        """What was landed."""
        return self.place.raw

    @property
    def warehouse(self) -> Warehouse:
        """The published files."""
        return self.place.warehouse

    @property
    def lake(self) -> Lake:
        """The daily snapshots."""
        return self.place.lake

    @property
    def landings(self) -> Landings:
        """Which landings count, wait or come next."""
        return self.place.landings

    def today(self) -> date:
        """The date in ROLLBOOK_TIMEZONE."""
        return today_at(self.settings, self.clock())

    def partition(self, day: date | None) -> date:
        """Return the day (default: today). Raises ArgumentError if it cannot be synced."""
        return self.place.partition(day, self.settings, self.clock())

    def first_day(self) -> date:
        """The first day that can be synced."""
        return self.place.first_day(self.settings, self.clock())

    def newest(self) -> Manifest | None:
        """The newest landing that counts; None before the first."""
        return self.place.newest()

    def bound_to(self) -> int | None:
        """The warehouse's institution (G11); None before the first landing that counts."""
        return self.place.bound_to()

    def find(self, kind: type[L]) -> L | None:
        """The listener of a class; None if none was assembled."""
        return self.listeners.find(kind)

    def listener(self, kind: type[L]) -> L:
        """The listener of a class, for commands that are about it."""
        if (found := self.find(kind)) is None:
            raise LookupError(f"{kind.__name__} is not among the listeners in assembly.py")
        return found
