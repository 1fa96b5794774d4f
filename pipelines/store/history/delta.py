"""What a day changes: found when it is compared with what is published, and used again when it is merged."""

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

    It holds for a day with this content, merged next after these days. `digest` is None until the day is committed.
    """

    day: date
    merged: Mapping[date, str]
    folder: Path
    digest: str | None = None

    def path(self, table: Table) -> Path:
        """Return the file of one table: a column `id`."""
        return self.folder / f"{table.name}.parquet"

    def is_of(self, days: Sequence[DayRecord], merged: Mapping[date, str]) -> bool:
        """Whether it says what merging these days would find, in a history of the days `merged`."""
        return [(d.snapshot_date, d.digest) for d in days] == [(self.day, self.digest)] and self.merged == merged
