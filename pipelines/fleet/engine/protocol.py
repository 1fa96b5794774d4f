"""The interface of an engine, the only part of it that code outside of this folder uses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pipelines.tables import Column


class Engine(Protocol):
    """Reads folders of Parquet files, runs statements over them, writes folders.

    Relations are named with a schema, as `history.students`. Their columns have the declared types; JSON is text. Every
    method raises EngineError when an external engine fails; DuckDB, in this process, raises the errors of
    `store.database`.
    """

    name: str

    def read(self, name: str, folder: Path, columns: Sequence[Column], folders: Sequence[Column] = ()) -> None:
        """Define a view over the Parquet files of a folder. A column that a file lacks is NULL there.

        `folders` are the Hive partition columns, the outermost first: `institution=ash`.
        """

    def define(self, name: str, query: str) -> None:
        """Define a view."""

    def write(self, query: str, folder: Path, folders: Sequence[str] = ()) -> None:
        """Write the rows of a query as Parquet files into a folder that does not exist yet."""

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return the rows of a query. They must fit into memory."""

    def hashed(self, columns: Sequence[str]) -> str:
        """A SQL expression that hashes some columns to one number. (NULL, 'a') and ('a', NULL) differ."""
