"""The engines that compute over many institutions: DuckDB in this process, or any that speaks Spark Connect.

    embedded.py  DuckDB, in this process
    spark.py     any Spark Connect address; also starts Sail

An engine reads folders of Parquet files, runs statements over them, and writes folders. Relations are named with a
schema, as `history.students`; their columns have the declared types; JSON is text. Every method raises EngineError when
an external engine fails; DuckDB raises the errors of `store.database`. All run the same statements, in the SQL dialect
that they share (`tests/lint_shared_sql.py` enforces it).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pipelines.errors import SettingError
from pipelines.fleet.engine.embedded import DuckDb, embedded
from pipelines.settings import DUCKDB, SAIL

if TYPE_CHECKING:
    from pipelines.fleet.engine.spark import Spark

__all__ = ["DUCKDB", "SAIL", "Engine", "of"]

Engine: TypeAlias = "DuckDb | Spark"


@contextmanager
def of(name: str, scratch: Path) -> Iterator[Engine]:
    """An engine by its name: `duckdb`, `sail`, or a Spark Connect address `sc://host:port`.

    `scratch` is an empty folder for spilling. Raises SettingError if the engine's packages are not installed, and
    EngineError if it does not answer.
    """
    if name == DUCKDB:
        with embedded(scratch) as engine:
            yield engine
        return
    try:
        from pipelines.fleet.engine import spark
    except ImportError as error:
        raise SettingError(
            f"The engine {name} needs packages that are not installed: run `pip install 'rollbook[engines]'`"
        ) from error
    with spark.sail(scratch) if name == SAIL else spark.remote(name) as session:
        yield spark.Spark(name, session)
