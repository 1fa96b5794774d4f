"""The engines that compute over many institutions: DuckDB in this process, or any that speaks Spark Connect.

    spark.py   any Spark Connect address; also starts Sail

An engine reads folders of Parquet files, runs statements over them, and writes folders. Relations are named with a
schema, as `history.students`; their columns have the declared types; JSON is text. Every method raises EngineError when
an external engine fails; DuckDB raises the errors of `store.database`. All run the same statements, in the SQL dialect
that they share (`tests/lint_shared_sql.py` enforces it).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import duckdb

from rollbook.errors import SettingError
from rollbook.settings import DUCKDB, SAIL
from rollbook.store.database import connect, file_literal, literal
from rollbook.tables import Column
from rollbook.util import files, machine

if TYPE_CHECKING:
    from rollbook.fleet.engine.spark import Spark

Engine: TypeAlias = "DuckDb | Spark"


@contextmanager
def of(name: str, scratch: Path) -> Iterator[Engine]:
    """An engine by its name: `duckdb`, `sail`, or a Spark Connect address `sc://host:port`.

    `scratch` is an empty folder for spilling. Raises SettingError if the engine's packages are not installed, and
    EngineError if it does not answer.
    """
    if name == DUCKDB:
        with connect(scratch=scratch) as con:
            # More than the 256 MB of a school's writer: the machine does nothing else meanwhile.
            con.execute(f"SET memory_limit = '{max(256, machine.memory() // 4 // machine.MB)}MB'")
            con.execute(f"SET threads = {os.cpu_count() or 1}")
            yield DuckDb(con)
        return
    try:
        from rollbook.fleet.engine import spark
    except ImportError as error:
        raise SettingError(
            f"The engine {name} needs packages that are not installed: run `pip install 'rollbook[engines]'`"
        ) from error
    with spark.sail(scratch) if name == SAIL else spark.remote(name) as session:
        yield spark.Spark(name, session)


class DuckDb:
    """A DuckDB connection as an `Engine`: in this process, for data larger than memory."""

    name = "duckdb"

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con

    def read(self, name: str, folder: Path, columns: Sequence[Column], folders: Sequence[Column] = ()) -> None:
        """Define a view over the Parquet files of a folder. A column that a file lacks is NULL there.

        `folders` are the Hive partition columns, the outermost first: `institution=ash`.
        """
        wanted = (*folders, *columns)
        pattern = "/".join((*("*" * len(folders)), "*.parquet"))
        if not any(folder.glob(pattern)):
            nulls = ", ".join(f"CAST(NULL AS {_type(c)}) AS {c.name}" for c in wanted)
            self.define(name, f"SELECT {nulls} WHERE FALSE")
            return
        source = (
            f"read_parquet({file_literal(folder, f'/{pattern}')}, union_by_name = true, hive_partitioning = false,"
            " filename = true)"
        )
        known = {row[0] for row in self._con.execute(f"DESCRIBE FROM {source}").fetchall()}
        # A file from before a declaration changed may have another type: its values become NULL.
        found = {c.name: c.name if c.name in known else "NULL" for c in columns}
        # Not by DuckDB's Hive partitioning, which also reads the folders above.
        for above, c in enumerate(reversed(folders), start=2):
            found[c.name] = f"URL_DECODE(STRING_SPLIT(STRING_SPLIT(filename, '/')[-{above}], '=')[2])"
        typed = (f"TRY_CAST({found[c.name]} AS {_type(c)}) AS {c.name}" for c in wanted)
        self.define(name, f"SELECT {', '.join(typed)} FROM {source}")

    def define(self, name: str, query: str) -> None:
        """Define a view."""
        if "." in name:
            self._con.execute(f"CREATE SCHEMA IF NOT EXISTS {name.partition('.')[0]}")
        self._con.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")

    def write(self, query: str, folder: Path, folders: Sequence[str] = ()) -> None:
        """Write the rows of a query as Parquet files into a folder that does not exist yet."""
        files.folder(folder)
        target = folder if folders else folder / "part-0.parquet"
        by = f", PARTITION_BY ({', '.join(folders)})" if folders else ""
        self._con.execute(
            f"COPY ({query}) TO {literal(target)} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3{by})"
        )

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return the rows of a query. They must fit into memory."""
        return self._con.execute(query).fetchall()

    def hashed(self, columns: Sequence[str]) -> str:
        """Hash some columns to one number, in SQL. (NULL, 'a') and ('a', NULL) differ, as in DuckDB's own hash."""
        return f"HASH({', '.join(columns)})"


def _type(column: Column) -> str:
    return "VARCHAR" if column.type == "JSON" else column.type
