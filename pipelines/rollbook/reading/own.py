"""The columns of the school's own lists, for those who choose students by them: `year=10`."""

from __future__ import annotations

import duckdb

from rollbook.errors import ArgumentError
from rollbook.store.database import literal, quoted
from rollbook.tables import SETS
from rollbook.util.text import listed

KEY = SETS["students"].key
OWN = "students_own"


def own_columns(con: duckdb.DuckDBPyConnection) -> list[str]:
    """The columns of the school's own lists about students, in an open file; none without lists."""
    try:
        return [column for column in con.sql(f"FROM main.{OWN} LIMIT 0").columns if column != KEY]
    except duckdb.CatalogException:  # a district's file, or one of another version
        return []


def students_where(con: duckdb.DuckDBPyConnection, where: str) -> str:
    """The query for the ids of the students of whom a list says so, such as `year=10`. Raises ArgumentError."""
    column, equals, value = (part.strip() for part in where.partition("="))
    columns = own_columns(con)
    if not equals or not value:
        raise ArgumentError(f"Write --where COLUMN=VALUE, such as year=10{_choose(columns)}")
    if (found := next((c for c in columns if c.casefold() == column.casefold()), None)) is None:
        raise ArgumentError(f"No list of the school's own has a column {column[:40]!r}{_choose(columns)}")
    return f"SELECT {KEY} FROM main.{OWN} WHERE {quoted(found)} = {literal(value)}"


def _choose(columns: list[str]) -> str:
    if not columns:
        return ". There are no lists yet: save one as CSV in own/ and sync"
    return f". The lists have {listed(columns)}"
