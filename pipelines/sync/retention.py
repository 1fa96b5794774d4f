"""Expires the days that ROLLBOOK_KEEP_DAYS does not keep, and guards against losing them from the history."""

from __future__ import annotations

import logging
from datetime import date, timedelta

from pipelines.errors import ExpiredError
from pipelines.store.warehouse import Warehouse
from pipelines.sync import messages
from pipelines.sync.landings import Landings

log = logging.getLogger(__name__)


class Retention:
    """Decides which days' raw bodies and snapshots may be deleted, and deletes them."""

    def __init__(self, landings: Landings, warehouse: Warehouse) -> None:
        self.landings = landings
        self.raw = landings.raw
        self.warehouse = warehouse
        self.lake = warehouse.lake

    def kept_from(self, keep_days: int) -> date:
        """The first kept day, counted back from the newest counted day, since this machine's clock may be wrong."""
        newest = max(self.lake.days(), default=None)
        return newest - timedelta(days=keep_days - 1) if newest else date.min

    def expirable(self, keep_days: int | None) -> list[date]:
        """The days whose raw bodies and snapshots may be deleted, in order; none without `keep_days`.

        The published file holds them, and each kept older file too, since it may be restored. A day stays on disk for
        one night after it has left the views, for readers that still have last night's file open. A held day stays.
        """
        if not keep_days or not (there := self.lake.days()):
            return []
        merged = self.warehouse.merged_everywhere()
        before = self.kept_from(keep_days) - timedelta(days=1)
        landed = {*there, *self.raw.days(), *self.raw.discarded_days()}
        old = sorted(d for d in landed if d < before and self.landings.held(d) is None)
        return [d for d in old if d not in there or merged.get(d) == there[d].digest]

    def expire(self, days: list[date]) -> None:
        """Delete these days' raw bodies and snapshots; the history keeps their content (G7).

        The list of expired days is written first: from then on, `raw/` alone cannot rebuild the tables, and a rebuild
        is refused.
        """
        if days:
            self.raw.expire(days, noted=self.warehouse.merged_days())
            self.lake.drop(days)
            log.info("Deleted the raw bodies and snapshots of %d days, %s to %s", len(days), days[0], days[-1])

    def refuse_to_lose(self) -> None:
        """Raise ExpiredError if a rebuild would lose expired days, whether or not a file still holds them."""
        lost = sorted(self.landings.expired_days())
        if lost:
            raise ExpiredError(messages.rebuild_would_lose(lost))
