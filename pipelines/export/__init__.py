"""Reads rows from the published file.

    query.py      one read-only query and its result
    formats.py    CSV, Parquet and Excel files

Nothing here writes to the warehouse.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

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
