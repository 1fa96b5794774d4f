"""Reads rows from the published file.

    query.py      one read-only query and its result
    formats.py    CSV, Parquet and Excel files

Nothing here writes to the warehouse.
"""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """The export formats."""

    CSV = "csv"
    XLSX = "xlsx"
    PARQUET = "parquet"
