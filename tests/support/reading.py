"""What a published file answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb


def rows(file: Path, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """What an analyst would get."""
    with duckdb.connect(file, read_only=True) as con:
        return con.execute(query, list(parameters)).fetchall()
