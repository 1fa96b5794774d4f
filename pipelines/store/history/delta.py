"""A day's delta: found when the day is compared with the published file, and reused when it is merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pipelines.store.lake import DayRecord
from pipelines.tables import Table


@dataclass(frozen=True)
class Delta:
    """The records that state something else on a day than their runs say: per table a Parquet file of ids.

    It is valid only for merging a `day` with this `digest` into a history of the days `merged` (day to digest).
    `digest` is None until the day is committed.
    """

    day: date
    merged: Mapping[date, str]
    folder: Path
    digest: str | None = None

    def path(self, table: Table) -> Path:
        """Return the file of one table, which has the column `id`."""
        return self.folder / f"{table.name}.parquet"

    def is_of(self, days: Sequence[DayRecord], merged: Mapping[date, str]) -> bool:
        """Whether it is the delta of merging these days into a history of the days `merged`."""
        return [(d.snapshot_date, d.digest) for d in days] == [(self.day, self.digest)] and self.merged == merged
