"""Histories that were computed elsewhere: for many lakes at once, by an engine larger than this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pipelines.store.database import literal
from pipelines.store.relations import SPAN, VALID
from pipelines.tables import Column, Table


@dataclass(frozen=True)
class Computed:
    """One institution's histories: the folder of its Parquet files by table, and the days they were computed from.

    Table names are such as `spans.students` or `history.students`; a table without a folder has no rows. `days` has the
    digest of each day's content.
    """

    folders: Mapping[str, Path]
    days: Mapping[date, str]

    def runs(self, table: Table) -> str:
        """The runs of a table, as SQL."""
        return self._rows(f"spans.{table.name}", (*table.versioned, *SPAN))

    def versions(self, table: Table) -> str:
        """The versions of a table, as SQL."""
        return self._rows(f"history.{table.name}", (*table.versioned, *VALID))

    def _rows(self, name: str, columns: Sequence[Column]) -> str:
        folder = self.folders.get(name)
        if folder is None:
            return f"SELECT {', '.join(f'CAST(NULL AS {c.type}) AS {c.name}' for c in columns)} WHERE FALSE"
        typed = ", ".join(f"CAST({c.name} AS {c.type}) AS {c.name}" for c in columns)
        return f"SELECT {typed} FROM read_parquet({literal(folder / '*.parquet')}, hive_partitioning = false)"
