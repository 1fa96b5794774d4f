"""Merging: brings the next file up to the lake. `store.history` merges the single tables."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from datetime import date

from pipelines.landing.manifest import TableCounts
from pipelines.store import ops
from pipelines.store.history import Computed, Delta, History
from pipelines.store.lake import Lake
from pipelines.store.warehouse import Warehouse
from pipelines.sync.landings import Landings
from pipelines.sync.recovery import Base


@dataclass(frozen=True)
class Merged:
    """The result of a merge: rows per table, and the first day whose history changed (None: all was computed)."""

    counts: list[TableCounts]
    since: date | None


class Merger:
    """Merges days of the lake into the next file, and removes discarded ones."""

    def __init__(self, landings: Landings, warehouse: Warehouse) -> None:
        self.landings = landings
        self.warehouse = warehouse

    def merge(
        self,
        base: Base,
        lake: Lake,
        gone: Set[date],
        delta: Delta | None,
        *,
        full_refresh: bool,
        computed: Computed | None = None,
    ) -> Merged:
        """Bring a copy of `base` up to the lake, without the days `gone`.

        A full refresh uses histories that were `computed` elsewhere, if given.
        """
        since = None
        with self.warehouse.writing(base.file) as (con, changed):
            redeclared = bool(changed - {"ops"})
            history = History(con, lake, delta)
            forgotten = gone & history.merged_days().keys()
            counts = history.forget(forgotten)
            if full_refresh or (redeclared and not history.has_expired_days):
                counts = history.rebuild(computed)
            elif redeclared:
                # Expired days cannot be rebuilt from the lake; the days still there are merged again for new columns.
                counts = [*history.refold(), *history.catch_up(history.records)] or counts
            else:
                behind = history.behind()
                since = min(behind) if behind and base.file and not forgotten else None
                counts = history.catch_up(behind) or counts
            ops.record(con, self.landings.raw, full_refresh=full_refresh or bool(changed))
        return Merged(counts, since)
