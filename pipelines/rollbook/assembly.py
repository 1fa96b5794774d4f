"""Opens an institution with the features that are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from rollbook.errors import RollbookError
from rollbook.feature import present
from rollbook.health.finding import Finding, Level
from rollbook.night.listeners import Listener, Listeners
from rollbook.opened import Rollbook
from rollbook.reading import access
from rollbook.rights.erasure import Erasure
from rollbook.rights.leftovers import leftovers
from rollbook.rights.personal import PersonalData
from rollbook.settings import Settings
from rollbook.source.fetch import utc_now
from rollbook.store.database import machine_errors
from rollbook.util.text import listed
from rollbook.views import catalog
from rollbook.views.dictionary import Chapter


def assemble(settings: Settings, *, clock: Callable[[], datetime] = utc_now) -> Rollbook:
    """One institution's Rollbook, with its listeners in the order in which they learn of something. Raises SettingError
    if ROLLBOOK_UNTRACKED names a column that a view or macro reads from history.
    """
    catalog.check_untracked(settings.declared)
    rollbook = Rollbook(settings, clock=clock, additions=present(), inputs=present())
    place = rollbook.place
    own = [listener for each in present() if (listener := each.listener(rollbook)) is not None]
    # The erasure comes after all others that hold something: it writes the certificate.
    rights = AccessLog(settings), Erasure(place, clock, personal(place.warehouse.root), names())
    rollbook.listeners = Listeners(place.warehouse.root, (*own, *rights))
    return rollbook


class AccessLog(Listener):
    """Deletes old lines of the access log, which would else stay for good once nobody reads any more."""

    name = "the access log"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def began(self, at: datetime) -> None:
        """Delete them."""
        access.keep_up(self.settings.warehouse_path, self.settings.access_log_days, at)


def personal(root: Path) -> list[PersonalData]:
    """What the features hold of people in the warehouse at `root`."""
    return [data for each in present() if (data := each.personal(root)) is not None]


def chapters() -> list[Chapter]:
    """The features' chapters of the data dictionary."""
    return [chapter for each in present() for chapter in each.chapters()]


def lines(opened: Rollbook) -> Iterator[Finding]:
    """The features' lines for `rollbook status` and `rollbook doctor`. An error in one becomes its line."""
    for each in present():
        try:
            with machine_errors(opened.warehouse.root):
                yield from each.lines(opened)
        except RollbookError as error:
            yield Finding(each.name, Level.FAILED, error.message)
    if left := leftovers(opened.warehouse.root, opened.warehouse.district, names()):
        says = f"{listed([str(path) for path in left])} are of a feature that is not installed: delete them"
        yield Finding("left over", Level.WARNING, says)


def names() -> list[str]:
    """The names of the features that are there."""
    return [each.name for each in present()]
