"""Reading the published file, for the command line: a query in, columns and rows out. Nothing is ever written.

DuckDB's own parser decides what a query may do. Its statement's type alone does not tell: a SELECT may hold a COPY, and
an EXPLAIN ANALYZE runs whatever it explains. So a query is one SELECT whose whole syntax tree only reads. It then runs
on a connection that is read-only, opens no files but the published one and the lake's, and cannot be set otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import duckdb

from pipelines.errors import ArgumentError, NothingLandedError
from pipelines.store.database import MEMORY_LIMIT, literal, translate_errors
from pipelines.store.statements import statements
from pipelines.views.catalog import VIEWS, macros

sql = statements("pipelines.export")

# The kinds of queries in a syntax tree that only read. A CTE may also be a COPY_QUERY_NODE, a DELETE_QUERY_NODE, ...
READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
# The table functions that neither open files, change settings, nor run a text as a query; and all
# `duckdb_...()`; the published macros are added.
READING_FUNCTIONS = {
    *("range", "generate_series", "unnest", "repeat", "json_each", "json_tree", "histogram", "histogram_values")
}

_NAME = re.compile(r"(\w+\.)?\w+")


@dataclass(frozen=True)
class Answer:
    """What a query gave: column names, and rows of Python values in their order. `more` when rows were left out."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: bool = False


def run_query(
    published: Path, query: str, parameters: dict[str, Any] | None = None, *, most: int | None = None
) -> Answer:
    """Run one query on the published file, read-only; of its rows give `most` at most.

    Raises NothingLandedError before the first publish, and ArgumentError for a query that would write or that DuckDB
    refuses.
    """
    with open_published(published) as con:
        statement = lock(con, published, query)
        with refusals():
            result = con.execute(statement, parameters or {})
            columns = tuple(c[0] for c in result.description or ())
            rows = result.fetchall() if most is None else result.fetchmany(most + 1)
    return Answer(columns, rows[:most], most is not None and len(rows) > most)


@contextmanager
def open_published(published: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The published file, read-only. Raises NothingLandedError before the first publish."""
    if not published.exists():
        raise NothingLandedError(f"{published} is not there yet: run `rollbook sync` first")
    with translate_errors(published, published.parent), duckdb.connect(str(published), read_only=True) as con:
        yield con


def lock(
    con: duckdb.DuckDBPyConnection, published: Path, query: str, *, scratch: Path | None = None
) -> duckdb.Statement:
    """Make the published file's connection fit for one query, and for nothing but reading; returns it, parsed.

    From here on no files can be opened but the published one and the lake's, which its views read. What does not fit
    into memory is spilled to `scratch`, a private folder; without one it fails. Raises ArgumentError for a query that
    would do more than read.
    """
    statement = only_reads(con, query)
    lake = f"{published.parent / 'snapshots'}/"
    con.execute(f"SET allowed_directories = [{literal(lake)}]")
    con.execute(f"SET temp_directory = {literal(scratch or '')}")
    if scratch is not None:
        con.execute(f"SET memory_limit = {literal(MEMORY_LIMIT)}")
    con.execute("SET enable_progress_bar = false")  # which would stand in the output of a query that takes seconds
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return statement


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what DuckDB says about a query into an ArgumentError."""
    try:
        yield
    except duckdb.Error as error:
        raise ArgumentError(f"DuckDB refused the query: {error}") from None


def only_reads(con: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    """The one statement that a query is. Raises ArgumentError, in a sentence, for what is not one query that reads."""
    try:
        statements = con.extract_statements(query)
    except duckdb.Error as error:
        raise ArgumentError(f"DuckDB does not understand the query: {error}") from None
    if len(statements) != 1:
        raise ArgumentError(f"Ask one query at a time: this is {len(statements)}")
    kind = _kind(statements[0])
    if kind == "MULTI":
        raise ArgumentError("DuckDB runs this as several statements. Name the values of a PIVOT: ON column IN (...)")
    if kind != "SELECT":
        raise _more_than_reading(kind)
    row = con.execute(sql("syntax_tree"), {"query": statements[0].query}).fetchone()
    nodes, functions = (part or [] for part in row or ([], []))
    if not nodes:  # DuckDB made no tree of it
        raise _more_than_reading("what DuckDB cannot take apart")
    for node in set(nodes) - READING_NODES:
        raise _more_than_reading(node.removesuffix("_QUERY_NODE"))
    for name in set(functions) - READING_FUNCTIONS - {macro.name for macro in macros()}:
        if not name.startswith("duckdb_"):
            raise _more_than_reading(f"the function {name}")
    return statements[0]


def _kind(statement: duckdb.Statement) -> str:
    try:
        return statement.type.name
    except ValueError:  # DuckDB's Python package has no name for it yet
        return "this kind of statement"


def _more_than_reading(what: str) -> ArgumentError:
    return ArgumentError(
        f"This only reads, and {what} could do more: only a sync changes what is published. Ask with SELECT, FROM,"
        " WITH, SUMMARIZE, DESCRIBE or SHOW; for work of your own, ATTACH the file read-only from another database"
    )


def query_of(con: duckdb.DuckDBPyConnection, question: str) -> str:
    """A question as a query: the name of a view or table, or a query as it is.

    Raises ArgumentError for a name of neither, with those it may have meant.
    """
    if not _NAME.fullmatch(question.strip()):
        return question
    name = question.strip().lower()
    known = {f"{schema}.{table}".removeprefix("main.") for schema, table in con.execute(sql("relations")).fetchall()}
    if name.removeprefix("main.") not in known:
        near = get_close_matches(name, known, n=3)
        meant = f"did you mean {' or '.join(near)}?" if near else f"the questions are {', '.join(VIEWS)}"
        raise ArgumentError(f"There is no view or table {question.strip()!r}: {meant}")
    return f"SELECT * FROM {name}"
