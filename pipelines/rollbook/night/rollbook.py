"""One institution's warehouse: its places, its clock and its listeners."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from rollbook.errors import RollbookError
from rollbook.landing.manifest import Manifest
from rollbook.landing.raw import RawStore
from rollbook.night import policy
from rollbook.night.erasures import Erasures
from rollbook.night.landings import Composer, Landings
from rollbook.night.listeners import Listener
from rollbook.night.recovery import Recovery
from rollbook.source.fetch import utc_now
from rollbook.source.pagination import Progress
from rollbook.store.database import machine_errors
from rollbook.store.warehouse import Warehouse

if TYPE_CHECKING:  # a night is given its settings and does not read any
    from rollbook.settings import Settings

log = logging.getLogger(__name__)

L = TypeVar("L", bound=Listener)


class Rollbook:
    """One institution's warehouse: places, settings and a clock. It holds nothing of a night that is under way.

    Everything that writes needs `writer` or `fetching` (`writing`).
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Callable[[], datetime] = utc_now,
        progress: Progress | None = None,
        warehouse: Warehouse | None = None,
        raw: RawStore | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.progress: Progress = progress or (lambda *_: None)
        self.warehouse = warehouse or Warehouse(
            settings.warehouse_path, settings.file_mode, shared_mode=settings.shared_mode, fleet=settings.fleet_path
        )
        self.raw = raw or RawStore(settings.warehouse_path / "raw")
        self.lake = self.warehouse.lake
        self.landings = Landings(self.raw)
        self.composer = Composer(self.raw, self.warehouse)
        self.recovery = Recovery(self.landings, self.warehouse, self.composer)
        self.erasures = Erasures(self.raw, self.warehouse, self.clock, lambda *done: self.progress(*done))
        self.listeners: tuple[Listener, ...] = ()

    def tell(self, what: Callable[[Listener], None]) -> None:
        """Tell all listeners something; a failure is a warning in the log."""
        for listener in self.listeners:
            try:
                with machine_errors(self.warehouse.root):
                    what(listener)
            except Exception as error:  # noqa: BLE001 - the night is worth more than any listener
                # Other messages may hold values.
                why = error.message if isinstance(error, RollbookError) else type(error).__name__
                log.warning(
                    "%s could not be brought up to date: %s. It stays as it was, and the next night tries again; see"
                    " `rollbook status`",
                    listener.name,
                    why,
                )

    def check_listeners(self) -> None:
        """Raise LostError if a listener found that something is lost here."""
        for listener in self.listeners:
            listener.check()

    def today(self) -> date:
        """The date in ROLLBOOK_TIMEZONE."""
        return self.clock().astimezone(self.settings.zone).date()

    def partition(self, day: date) -> date:
        """Return the day. Raises ArgumentError if it cannot be synced (`policy.partition`)."""
        return policy.partition(day, self.first_day(), self.today(), self.settings.timezone)

    def first_day(self) -> date:
        """The first day that can be synced: as set, else the first landed day, or yesterday before any landing: the
        first sync may have begun before midnight.
        """
        landed, today = self.raw.all_days(), self.today()
        return self.settings.first_date or min((*landed, today if landed else today - timedelta(days=1)))

    def newest(self) -> Manifest | None:
        """The newest landing that counts; None before the first."""
        return self.landings.newest()

    def bound_to(self) -> int | None:
        """The warehouse's institution, from the first counted landing (G11); None before that landing."""
        school_id = self.raw.school_id()
        return self.warehouse.bound_to() if school_id is None else school_id

    def find(self, kind: type[L]) -> L | None:
        """The listener of a class; None if none was assembled."""
        return next((each for each in self.listeners if isinstance(each, kind)), None)

    def listener(self, kind: type[L]) -> L:
        """The listener of a class, for commands that are about it."""
        if (found := self.find(kind)) is None:
            raise LookupError(f"{kind.__name__} is not among the listeners in assembly.py")
        return found

    def clear(self) -> None:
        """Remove everything landed and derived. For made-up institutions: a real one's raw/ has no other copy."""
        for folder in (self.raw.root, self.lake.root, self.warehouse.versions.folder, self.warehouse.build / "stage"):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.warehouse.published_file, self.warehouse.next):
            file.unlink(missing_ok=True)
        self.warehouse.pseudonymous.clear()
        self.warehouse.prepare()
