"""The rollups of a fleet, computed by an engine from the institutions' Parquet files, into one folder per rollup."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.fleet.engine import Engine
from pipelines.store import parts
from pipelines.store.database import literal
from pipelines.tables import Column
from pipelines.views import fleet as views
from pipelines.views.catalog import View


def compute(engine: Engine, given: Path, into: Path) -> None:
    """Compute every rollup. `given` has a folder for each table, with a file for each institution that has rows.

    Raises EngineError.
    """
    for relation, shared in zip(views.tables(), parts.shared(), strict=True):
        engine.read(f"{relation.schema}.{relation.name}", given / parts.title(shared), relation.columns)
    compute_from_tables(engine, into)


def compute_from_tables(engine: Engine, into: Path) -> None:
    """Compute every rollup from tables already defined in the engine. Raises EngineError."""
    for rollup in views.rollups():  # a later one reads an earlier one
        folder = into / rollup.name
        engine.write(rollup.query, folder)
        engine.read(f"main.{rollup.name}", folder, columns(rollup))


def columns(rollup: View) -> tuple[Column, ...]:
    """A rollup's columns with their types, the same for every engine."""
    types: Mapping[tuple[str, str], Any] = views.types()  # includes DECIMAL
    return tuple(Column(name, types[rollup.name, name], comment) for name, comment in rollup.columns)


def computed(rollup: View, folder: Path) -> str:
    """A query for DuckDB that reads a computed rollup."""
    typed = ", ".join(f"CAST({c.name} AS {c.type}) AS {c.name}" for c in columns(rollup))
    return f"SELECT {typed} FROM read_parquet({literal(folder / rollup.name / '*.parquet')}) ORDER BY ALL"
