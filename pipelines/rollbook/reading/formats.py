"""Reads rows from the published file.

`query.py` runs one read-only query, and writes its rows to CSV, Parquet and Excel files. `oneroster.py` writes the
roster as other systems take it.

Nothing here writes to the warehouse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from rollbook.errors import ArgumentError
from rollbook.store.published import EXPORTS

# Each writer leaves this file in a warehouse, where a dictionary may be, too.
WRITTEN, DICTIONARY = "build/writer.txt", "README.md"


class Format(StrEnum):
    """The export formats."""

    CSV = "csv"
    XLSX = "xlsx"
    PARQUET = "parquet"


def exported(warehouse: Path) -> list[Path]:
    """The files in the export folder, sorted. Their content is not known: people edit, rename and add files there."""
    return sorted(p for p in (warehouse / EXPORTS).rglob("*") if p.is_symlink() or p.is_file())


def check_target(out: Path) -> None:
    """Raise ArgumentError unless a file can be written there. A warehouse's own files cannot be overwritten, nor can a
    link, as a published file is.
    """
    if not out.parent.is_dir():
        raise ArgumentError(f"{out.parent} is not a folder: make it first, or write elsewhere with --out")
    if out.exists() and not out.is_file():
        raise ArgumentError(f"{out} is a {'folder' if out.is_dir() else 'device'}: name a file")
    folder = out.parent.resolve()
    for above in (folder, *folder.parents):
        own = (folder / out.name).relative_to(above).parts[0] not in (EXPORTS, DICTIONARY)
        if out.is_symlink() or (own and (above / WRITTEN).exists()):
            raise ArgumentError(
                f"{out} would be among the warehouse's own files: write to {above / EXPORTS} or elsewhere"
            )


def students_in(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int | None:
    """Count the different students in rows, by the first column `student_id`; None without a usable one.

    Ids are unique within an institution only, so a column `institution` is part of the key.
    """
    named = [name.lower() for name in columns]
    if "student_id" not in named:
        return None
    at, whose = named.index("student_id"), named.index("institution") if "institution" in named else None
    try:
        return len({("" if whose is None else row[whose], row[at]) for row in rows if row[at] is not None})
    except TypeError:  # a list of ids, say
        return None
