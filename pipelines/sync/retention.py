"""What ROLLBOOK_KEEP_DAYS lets go of, and what must not be lost with it."""

from __future__ import annotations

import logging
from datetime import date, timedelta

from pipelines.errors import ThinnedError
from pipelines.landing import held
from pipelines.source.raw import RawStore
from pipelines.store.warehouse import Warehouse

log = logging.getLogger(__name__)


class Retention:
    """The days on disk, and which of them nothing but the history needs to remember."""

    def __init__(self, raw: RawStore, warehouse: Warehouse) -> None:
        self.raw = raw
        self.warehouse = warehouse
        self.lake = warehouse.lake

    def kept_from(self, keep_days: int, today: date) -> date:
        """The first day that keeping this many days up to today asks for; the newest landed day is kept at any age."""
        return min(today - timedelta(days=keep_days - 1), max(self.lake.days(), default=date.max))

    def thinnable(self, keep_days: int, today: date) -> list[date]:
        """The days whose raw bodies and snapshots may go, because the published history stands on them.

        So does that of each kept older file, which may be put back. A day stays on disk for one night after the views
        let go of it, for whoever still has last night's file open; one that waits for approval stays as well.
        """
        there, standing = self.lake.days(), self.warehouse.stand_on_alike()
        before = self.kept_from(keep_days, today) - timedelta(days=1)
        old = sorted(d for d in {*there, *self.raw.days()} if d < before and held(self.raw.manifests(d)) is None)
        return [d for d in old if d not in there or standing.get(d) == there[d].digest]

    def thin(self, days: list[date]) -> None:
        """Let go of these days' raw bodies and snapshots; what they said stays in the history (promise 7).

        That is noted first: `raw/` alone no longer makes the tables, and a rebuild is refused from then on.
        """
        if days:
            self.raw.thin(days, noted=self.warehouse.stands_on())
            self.lake.drop(days)
            log.info("Let go of the raw bodies and snapshots of %d days, %s to %s", len(days), days[0], days[-1])

    def refuse_to_lose(self) -> None:
        """Raises ThinnedError when a rebuild would lose days that the published history holds and `raw/` does not."""
        self.warehouse.mend(thoroughly=True)
        standing = self.warehouse.stands_on() if self.warehouse.is_sound() else {}
        lost = sorted((self.raw.thinned() & standing.keys()) - set(self.raw.days()))
        if lost:
            raise ThinnedError(
                f"The history holds {len(lost)} days ({lost[0]} to {lost[-1]}) whose raw bodies were let go of"
                " (ROLLBOOK_KEEP_DAYS), and a rebuild from raw/ would lose them: it was refused, and nothing was"
                " touched. `rollbook backfill FROM TO` makes the days anew that raw/ still holds; to rebuild all,"
                " restore the others to raw/ from a backup first"
            )
