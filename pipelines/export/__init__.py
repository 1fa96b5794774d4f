"""Reads rows from the published file.

    query.py      one read-only query and its result
    formats.py    CSV, Parquet and Excel files

Nothing here writes to the warehouse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from itertools import repeat
from pathlib import Path
from typing import Any

from pipelines.errors import ArgumentError

# The folder for files that are exported without --out.
EXPORTS = "exports"


class Format(StrEnum):
    """The export formats."""

    CSV = "csv"
    XLSX = "xlsx"
    PARQUET = "parquet"


def exported(warehouse: Path) -> list[Path]:
    """The files in the export folder, sorted. What is in them is not known: people edit, rename and add files there."""
    return sorted(p for p in (warehouse / EXPORTS).rglob("*") if p.is_symlink() or p.is_file())


def check_target(out: Path) -> None:
    """Raise ArgumentError unless a file can be written there."""
    if not out.parent.is_dir():
        raise ArgumentError(f"{out.parent} is not a folder: make it first, or write elsewhere with --out")
    if out.is_dir():
        raise ArgumentError(f"{out} is a folder: name a file in it")


class Students:
    """Counts the different students in rows, by the first column named `student_id`.

    Ids are unique within an institution only, so a column `institution` is part of the key.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        named = [name.lower() for name in columns]
        self._at, self._whose = (named.index(n) if n in named else None for n in ("student_id", "institution"))
        self._found: set[tuple[Any, Any]] = set()

    def add(self, column: Callable[[int], Iterable[Any]]) -> None:
        """Add the students of some rows, whose columns are returned by position."""
        if self._at is not None:
            try:
                whose = repeat("") if self._whose is None else column(self._whose)
                self._found.update(zip(column(self._at), whose, strict=False))
            except TypeError:  # a list of ids, say
                self._at = None

    @property
    def count(self) -> int | None:
        """The number of different students; None without a usable column."""
        return None if self._at is None else sum(student is not None for student, _ in self._found)


def students_in(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> int | None:
    """Count the different students in rows; None without a usable column `student_id`."""
    students = Students(columns)
    students.add(lambda at: [row[at] for row in rows])
    return students.count
