"""The engines that compute over many institutions: DuckDB in this process, or any that speaks Spark Connect.

    protocol.py  the interface of an engine
    embedded.py  DuckDB, in this process
    spark.py     any Spark Connect address; also starts Sail

All engines run the same statements, in the SQL dialect that they share (`tests/lint_shared_sql.py` enforces it).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.errors import SettingError
from pipelines.fleet.engine.protocol import Engine
from pipelines.setting_types import DUCKDB, SAIL

__all__ = ["DUCKDB", "SAIL", "Engine", "of"]


@contextmanager
def of(name: str, scratch: Path) -> Iterator[Engine]:
    """An engine by its name: `duckdb`, `sail`, or a Spark Connect address `sc://host:port`.

    `scratch` is an empty folder for spilling. Raises SettingError if the engine's packages are not installed, and
    EngineError if it does not answer.
    """
    if name == DUCKDB:
        from pipelines.fleet.engine.embedded import embedded

        with embedded(scratch) as engine:
            yield engine
        return
    try:
        from pipelines.fleet.engine import spark
    except ImportError as error:
        raise SettingError(
            f"The engine {name} needs packages that are not installed: run `pip install 'rollbook[engines]'`"
        ) from error
    address = spark.sail(scratch) if name == SAIL else spark.remote(name)
    with address as session:
        yield spark.Spark(name, session)
