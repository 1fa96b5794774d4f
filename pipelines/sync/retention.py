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

    def kept_from(self, keep_days: int) -> date:
        """The first day that is kept, counted back from the newest counted day: a clock may be wrong, a day is not."""
        newest = max(self.lake.days(), default=None)
        return newest - timedelta(days=keep_days - 1) if newest else date.min

    def thinnable(self, keep_days: int) -> list[date]:
        """The days whose raw bodies and snapshots may go, because the published history holds them.

        So does that of each kept older file, which may be put back. A day stays on disk for one night after the views
        let go of it, for whoever still has last night's file open; one that waits for approval stays as well.
        """
        there, merged = self.lake.days(), self.warehouse.merged_everywhere()
        if not there:
            return []
        before = self.kept_from(keep_days) - timedelta(days=1)
        landed = {*there, *self.raw.days(), *self.raw.discarded_days()}
        old = sorted(d for d in landed if d < before and held(self.raw.manifests(d)) is None)
        return [d for d in old if d not in there or merged.get(d) == there[d].digest]

    def thin(self, days: list[date]) -> None:
        """Let go of these days' raw bodies and snapshots; what they said stays in the history (promise 7).

        That is noted first: `raw/` alone no longer makes the tables, and a rebuild is refused from then on.
        """
        if days:
            self.raw.thin(days, noted=self.warehouse.merged_days())
            self.lake.drop(days)
            log.info("Let go of the raw bodies and snapshots of %d days, %s to %s", len(days), days[0], days[-1])

    def refuse_to_lose(self) -> None:
        """Raises ThinnedError when a rebuild would lose expired days, whether or not a file here still holds them."""
        lost = sorted(self.raw.thinned() - set(self.raw.days()))
        if lost:
            raise ThinnedError(
                f"The history holds {len(lost)} days ({lost[0]} to {lost[-1]}) whose raw bodies were let go of"
                " (ROLLBOOK_KEEP_DAYS), and a rebuild from raw/ would lose them: it was refused, and nothing was"
                " touched. `rollbook backfill FROM TO` makes the days again that raw/ still holds; to rebuild all,"
                " restore the others to raw/ from a backup first, or accept the loss with `rollbook rebuild"
                " --accept-loss`"
            )
