"""The views and macros that stand on the tables, and a comment on every one of them and on each of their columns.

A view is one file of `sql/`: its header says what a row is and what each column means, and the query follows. Adding
a view takes that file and its name in `VIEWS`. Views of the lake and the macros come
from the declarations. Tables, and the comments on them, belong to `schema`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import duckdb

from pipelines.store.database import literal, names
from pipelines.store.lake import DayRecord, Lake
from pipelines.store.relations import OBSERVED, SNAPSHOT_DATE
from pipelines.store.statements import statements
from pipelines.tables import TABLES, Column, Table

sql = statements("pipelines.views", "macros")

# In the order in which they are made: a later one may read an earlier one.
VIEWS: tuple[str, ...] = (
    "roster",
    "student_progress",
    "students_to_watch",
    "class_comparison",
    "progress_daily",
    "class_daily",
    "enrollment_changes",
    "courses",
    "teachers",
    "sync_log",
)

_FIRST = re.compile(r"-- (\w+): (.+)")
_COLUMN = re.compile(r"--   (\w+)  +(.+)")


@dataclass(frozen=True)
class View:
    """A view that answers a question: what a row is, what each column means (in order), and the query."""

    name: str
    comment: str
    columns: tuple[tuple[str, str], ...]
    query: str


@dataclass(frozen=True)
class Macro:
    """A table macro: its parameters and what it gives."""

    name: str
    parameters: tuple[str, ...]
    comment: str
    make: str

    @property
    def call(self) -> str:
        """The macro as it is called."""
        return f"{self.name}({', '.join(self.parameters)})"


@cache
def view(name: str) -> View:
    """Read one question's file. Raises ValueError when its header is not as described above."""
    text = files("pipelines.views").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    header = [line for line in text.splitlines() if line.startswith("--")]
    first = _FIRST.fullmatch(header[0]) if header else None
    if first is None or first[1] != name:
        raise ValueError(f"views/sql/{name}.sql does not begin with '-- {name}: what a row is'")
    columns = tuple((m[1], m[2]) for line in header if (m := _COLUMN.fullmatch(line)))
    return View(name, first[2], columns, text)


def views() -> tuple[View, ...]:
    """All questions, in the order in which they are made."""
    return tuple(view(name) for name in VIEWS)


@cache
def macros() -> tuple[Macro, ...]:
    """All table macros."""
    as_of = (
        Macro(
            f"{t.name}_as_of",
            ("day",),
            f"The rows of {t.name} as the last snapshot on or before a day had them, without clock-driven columns.",
            sql("as_of", table=t),
        )
        for t in TABLES.values()
    )
    between = Macro(
        "changes_between",
        ("from_day", "to_day"),
        "The rows of changes after the first day, up to and with the second.",
        sql("changes_between"),
    )
    return (*as_of, between)


def create(con: duckdb.DuckDBPyConnection, lake: Lake, days: Collection[DayRecord]) -> None:
    """Make every view and macro anew, with its comments: the lake may have moved, and its columns may have changed.

    The views of the lake hold these days.
    """
    create_snapshots(con, lake, days)
    create_macros(con)
    create_views(con)


def create_snapshots(con: duckdb.DuckDBPyConnection, lake: Lake, days: Collection[DayRecord]) -> None:
    """The views of the lake. They name its files, by absolute path: they hold the days that stood when published."""
    for table in TABLES.values():
        columns = snapshot_columns(table)
        rows = lake.scan(table, days) if days else _no_rows(columns)
        about = ((c.name, c.comment) for c in columns)
        _view(con, "snapshots", table.name, rows, f"Every landed day: {table.comment}", about)
    rows = f"SELECT {names(OBSERVED.columns)} FROM ({lake.scan_observed(days)})" if days else _no_rows(OBSERVED.columns)
    _view(con, "snapshots", "observed", rows, OBSERVED.comment, ((c.name, c.comment) for c in OBSERVED.columns))


def snapshot_columns(table: Table) -> tuple[Column, ...]:
    """The columns of `snapshots.<table>`."""
    return (*table.columns, SNAPSHOT_DATE)


def _no_rows(columns: tuple[Column, ...]) -> str:
    """What stands for the lake's files before there are any."""
    return f"SELECT {', '.join(f'CAST(NULL AS {c.type}) AS {c.name}' for c in columns)} WHERE FALSE"


def create_macros(con: duckdb.DuckDBPyConnection) -> None:
    """The table macros."""
    for macro in macros():
        con.execute(macro.make)
        con.execute(f"COMMENT ON MACRO TABLE main.{macro.name} IS {literal(macro.comment)}")


def create_views(con: duckdb.DuckDBPyConnection) -> None:
    """The views that answer questions."""
    for q in views():
        _view(con, "main", q.name, q.query, q.comment, q.columns)


def _view(
    con: duckdb.DuckDBPyConnection,
    schema: str,
    name: str,
    query: str,
    comment: str,
    columns: Iterable[tuple[str, str]],
) -> None:
    con.execute(f"CREATE OR REPLACE VIEW {schema}.{name} AS {query}")
    con.execute(f"COMMENT ON VIEW {schema}.{name} IS {literal(comment)}")
    for column, about in columns:
        con.execute(f"COMMENT ON COLUMN {schema}.{name}.{column} IS {literal(about)}")
