"""Answers of a published file, and the text of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from html import unescape
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb

from rollbook.store.database import literal

_asking = Lock()


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    """A DuckDB for all questions: a new DuckDB takes longer than most questions."""
    return duckdb.connect()


@contextmanager
def opened(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a published file, opened again each time, as by an analyst; one file at a time."""
    with _asking, _instance().cursor() as con:
        con.execute(f'ATTACH {literal(file)} AS "{file.stem}" (READ_ONLY)')
        try:
            con.execute(f'USE "{file.stem}"')
            yield con
        finally:
            con.execute("USE memory")
            con.execute(f'DETACH "{file.stem}"')


def writable(file: Path) -> Path:
    """A published file, as somebody has made it writable."""
    file.chmod(0o600)
    return file.resolve()


def rows(file: Path, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of an analyst's query."""
    with opened(file) as con:
        return con.execute(query, list(parameters)).fetchall()


def text(html: str) -> str:
    """The text for a reader: no markup, no styles."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<(style|script)>.*?</\1>|<[^>]+>", " ", html, flags=re.DOTALL)))
