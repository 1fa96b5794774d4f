"""DuckDB as an engine: in this process, on one machine, larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from pipelines import files
from pipelines.store.database import connect, literal
from pipelines.tables import Column

_WRITTEN = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3"


@contextmanager
def embedded(scratch: Path) -> Iterator[DuckDb]:
    """An engine of its own, without a file; what does not fit into memory goes to `scratch`."""
    with connect(scratch=scratch) as con:
        # It computes over all institutions, on a machine that does nothing else meanwhile: more than a school's writer.
        con.execute(f"SET memory_limit = '{_quarter_of_memory()}MB'")
        con.execute(f"SET threads = {os.cpu_count() or 1}")
        yield DuckDb(con)


class DuckDb:
    """One connection as an `Engine`."""

    name = "duckdb"

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con

    def read(self, name: str, folder: Path, columns: Sequence[Column], folders: Sequence[Column] = ()) -> None:
        """Give the Parquet files of a folder a name."""
        pattern = "/".join((*("*" * len(folders)), "*.parquet"))
        wanted = (*folders, *columns)
        if not any(folder.glob(pattern)):
            nulls = ", ".join(f"CAST(NULL AS {_type(c)}) AS {c.name}" for c in wanted)
            self.define(name, f"SELECT {nulls} WHERE FALSE")
            return
        types = ", ".join(f"'{c.name}': {_type(c)}" for c in folders)
        hive = f"true, hive_types = {{{types}}}" if folders else "false"
        source = f"read_parquet({literal(folder / pattern)}, union_by_name = true, hive_partitioning = {hive})"
        known = {row[0] for row in self._con.execute(f"DESCRIBE FROM {source}").fetchall()}
        # A file of an earlier Rollbook may have another type: such a value is NULL, as in a file that is upgraded.
        typed = (f"TRY_CAST({c.name if c.name in known else 'NULL'} AS {_type(c)}) AS {c.name}" for c in wanted)
        self.define(name, f"SELECT {', '.join(typed)} FROM {source}")

    def define(self, name: str, query: str) -> None:
        """Give the rows of a query a name."""
        if "." in name:
            self._con.execute(f"CREATE SCHEMA IF NOT EXISTS {name.partition('.')[0]}")
        self._con.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")

    def write(self, query: str, folder: Path, folders: Sequence[str] = ()) -> None:
        """Write the rows of a query into a folder."""
        files.folder(folder)
        target = folder if folders else folder / "part-0.parquet"
        by = f", PARTITION_BY ({', '.join(folders)})" if folders else ""
        self._con.execute(f"COPY ({query}) TO {literal(target)} ({_WRITTEN}{by})")

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return the rows of a query."""
        return self._con.execute(query).fetchall()

    def count(self, query: str) -> int:
        """Return how many rows a query has."""
        (row,) = self._con.execute(f"SELECT COUNT(*) FROM ({query}) AS counted").fetchall()
        return int(row[0])

    def hashed(self, columns: Sequence[str]) -> str:
        """DuckDB's own hash tells NULLs apart."""
        return f"HASH({', '.join(columns)})"


def _quarter_of_memory() -> int:
    """In MB; never less than a writer has."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not everywhere
        total = 0
    return max(256, total // 4_000_000)


def _type(column: Column) -> str:
    return "VARCHAR" if column.type == "JSON" else column.type
