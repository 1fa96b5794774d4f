"""What an engine can do, and all that is known of one outside of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pipelines.tables import Column

# Where an engine reads: a folder, the address of one in an object store, or nowhere.
Place = Path | str | None


class Engine(Protocol):
    """Reads folders of Parquet files, runs statements over them, writes folders.

    A relation has a name in a schema, as `history.students`. Its columns have the types of the declarations; JSON is
    text. Every method raises EngineError when an engine of its own fails; DuckDB, which is in this process, raises what
    `store.database` makes of it.
    """

    name: str

    def read(self, name: str, place: Place, columns: Sequence[Column], folders: Sequence[Column] = ()) -> None:
        """Give the Parquet files of a folder a name. A column that a file lacks is NULL there.

        The folder is on this machine, or in an object store (`s3://bucket/prefix`); None stands for one without files.
        `folders` are the columns whose values are in the names of folders, the outermost first: `institution=ash`.
        """

    def define(self, name: str, query: str) -> None:
        """Give the rows of a query a name."""

    def write(self, query: str, folder: Path, folders: Sequence[str] = ()) -> None:
        """Write the rows of a query as Parquet files into a folder that does not exist yet."""

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return the rows of a query; few, since all are held here."""

    def count(self, query: str) -> int:
        """Return how many rows a query has."""

    def hashed(self, columns: Sequence[str]) -> str:
        """What makes one number of some columns, as SQL. It tells (NULL, 'a') from ('a', NULL)."""
