"""Builds a warehouse's Rollbook with everything that listens to its nights: the one module that knows both sides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from rollbook.night.listeners import ErasureUnderWay, Listener, Listeners
from rollbook.opened import Rollbook
from rollbook.outputs.mirror.mirror import Mirror
from rollbook.outputs.notify.alerts import Alerts
from rollbook.outputs.report import MorningPage
from rollbook.privacy import access
from rollbook.privacy.erasure import Erasure
from rollbook.privacy.pseudonymous import Pseudonymous
from rollbook.settings import Settings
from rollbook.source.fetch import utc_now
from rollbook.store.fleet import FleetFile
from rollbook.store.warehouse import Warehouse
from rollbook.views import catalog


def assemble(settings: Settings, *, clock: Callable[[], datetime] = utc_now) -> Rollbook:
    """One institution's Rollbook, with its listeners in the order in which they learn of something. Raises SettingError
    if ROLLBOOK_UNTRACKED names a column that a view or macro reads from history.
    """
    catalog.check_untracked()
    rollbook = Rollbook(settings, clock=clock)
    place = rollbook.place
    rollbook.listeners = Listeners(
        place.warehouse.root,
        (
            Pseudonymous(place.warehouse, wanted=settings.pseudonymous),
            MorningPage(place, settings, lambda: [each.remark() for each in rollbook.listeners]),
            AccessLog(settings),
            FleetFiles(place.warehouse),
            Erasure(place, clock),  # after all others that hold something: it writes the certificate
            Mirror(settings, place.bound_to),  # it copies what the others have written
            Alerts(place, settings, clock),
        ),
    )
    return rollbook


class AccessLog(Listener):
    """Deletes old lines of the access log, which would else stay for good once nobody reads any more."""

    name = "the access log"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def began(self, at: datetime) -> None:
        """Delete them."""
        access.keep_up(self.settings.warehouse_path, self.settings.access_log_days, at)


class FleetFiles(Listener):
    """Removes the fleet's files, with all their versions, from which a student was erased.

    They are not made again here: they hold all institutions, so this writer would have to read the others' files for
    minutes under its own lock, and an erasure must not wait for another school's damaged file.
    """

    name = "the fleet's files"

    def __init__(self, warehouse: Warehouse) -> None:
        self.fleet = warehouse.fleet

    def erased(self, erased: ErasureUnderWay) -> None:
        """Remove them; counts the versions."""
        if self.fleet is not None:
            erased.counts["fleet"] = sum(FleetFile(self.fleet, pseudonymous=p).remove() for p in (False, True))
