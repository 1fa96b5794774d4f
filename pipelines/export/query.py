"""Runs one read-only query on the published file: SQL in, columns and rows out. Nothing is ever written.

A query is checked with DuckDB's own parser. The statement's type alone is not enough: a SELECT may contain a COPY, and
EXPLAIN ANALYZE runs its query. So only one SELECT is allowed, and only if its whole syntax tree is read-only. It runs
on a read-only connection that opens no files but the published one and the lake's, with a locked configuration.
"""

from __future__ import annotations

import json
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
from pipelines.store.published import fleet_file
from pipelines.views.catalog import VIEWS, macros

# The query nodes of a syntax tree that only read. A CTE may also be a COPY_QUERY_NODE, a DELETE_QUERY_NODE, ...
READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
# The table functions that do not open files, change settings or run text as a query. All `duckdb_...()` and the
# published macros are allowed as well.
READING_FUNCTIONS = {
    *("range", "generate_series", "unnest", "repeat", "json_each", "json_tree", "histogram", "histogram_values")
}

# How to create each file.
_MAKING = {
    fleet_file.FILE: "run `rollbook fleet build` first",
    fleet_file.PSEUDONYMOUS: "set ROLLBOOK_PSEUDONYMOUS=1 for an institution, sync it, and run `rollbook fleet build`",
}
_BY_A_SYNC = "run `rollbook sync` first"

_NAME = re.compile(r"(\w+\.)?\w+")


@dataclass(frozen=True)
class Answer:
    """A query's result: column names, and rows of Python values in that order. `more`: there were more rows.

    `is_plain`: a column `student_id` says whom each row shows (see `is_plain_read`).
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: bool = False
    is_plain: bool = False


def run_query(
    published: Path, query: str, parameters: dict[str, Any] | None = None, *, most: int | None = None
) -> Answer:
    """Run one query on the published file, read-only; return at most `most` rows (None: all).

    Raises NothingLandedError before the first publish, and ArgumentError when the query would write or DuckDB refuses
    it.
    """
    with open_published(published) as con:
        statement = lock(con, published, query)
        is_plain = is_plain_read(con, query)
        with refusals():
            result = con.execute(statement, parameters or {})
            columns = tuple(c[0] for c in result.description or ())
            rows = result.fetchall() if most is None else result.fetchmany(most + 1)
    return Answer(columns, rows[:most], most is not None and len(rows) > most, is_plain)


@contextmanager
def open_published(published: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the published file, or the fleet's, read-only. Raises NothingLandedError before there is one."""
    if not published.exists():
        raise NothingLandedError(f"{published} does not exist yet: {_MAKING.get(published.name, _BY_A_SYNC)}")
    with translate_errors(published, published.parent), duckdb.connect(str(published), read_only=True) as con:
        yield con


def lock(
    con: duckdb.DuckDBPyConnection, published: Path, query: str, *, scratch: Path | None = None
) -> duckdb.Statement:
    """Parse the query and restrict the connection to reading; returns the parsed statement.

    After this the connection can open no files but the published one and the lake's, which its views read. What does
    not fit into memory is spilled to `scratch`, a private folder; without one, the query fails. Raises ArgumentError
    when the query would do more than read.
    """
    statement = only_reads(con, query)
    lake = f"{published.parent / 'snapshots'}/"
    con.execute(f"SET allowed_directories = [{literal(lake)}]")
    con.execute(f"SET temp_directory = {literal(scratch or '')}")
    if scratch is not None:
        con.execute(f"SET memory_limit = {literal(MEMORY_LIMIT)}")
    con.execute("SET enable_progress_bar = false")  # it would be printed into the output of a slow query
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return statement


@contextmanager
def refusals() -> Iterator[None]:
    """Turn DuckDB's errors about a query into an ArgumentError."""
    try:
        yield
    except duckdb.Error as error:
        raise ArgumentError(f"DuckDB refused the query: {error}") from None


def only_reads(con: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    """Parse a query. Raises ArgumentError unless it is exactly one statement that only reads."""
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
    row = con.execute(
        """
        SELECT
            LIST(atom ->> '$') FILTER (key = 'type' AND SUFFIX(atom ->> '$', '_NODE')),
            LIST(LOWER(atom ->> '$')) FILTER (key = 'function_name' AND SUFFIX(path, '.function'))
        FROM json_tree(json_serialize_sql($query))
    """,
        {"query": statements[0].query},
    ).fetchone()
    nodes, functions = (part or [] for part in row or ([], []))
    if not nodes:  # DuckDB has no syntax tree for it
        raise _more_than_reading("a statement that DuckDB cannot analyze")
    for node in set(nodes) - READING_NODES:
        raise _more_than_reading(node.removesuffix("_QUERY_NODE"))
    for name in set(functions) - READING_FUNCTIONS - {macro.name for macro in macros()}:
        if not name.startswith("duckdb_"):
            raise _more_than_reading(f"the function {name}")
    return statements[0]


def is_plain_read(con: duckdb.DuckDBPyConnection, query: str) -> bool:
    """Whether a query only picks columns of one table or view, under their own names.

    Only then does its column `student_id` say whom each row shows: an alias, an expression, a subquery or a join may
    put any student beside any number.
    """
    text = con.execute("SELECT CAST(json_serialize_sql($1) AS VARCHAR)", [query]).fetchall()[0][0]
    try:
        tree = json.loads(text)
    except RecursionError:  # a plain read is not that deep
        return False
    if tree["error"] or len(tree["statements"]) != 1:
        return False
    node = tree["statements"][0]["node"]
    if node["type"] != "SELECT_NODE" or node["cte_map"]["map"]:
        return False
    source = node["from_table"]
    return (
        source["type"] == "BASE_TABLE"
        and not source["column_name_alias"]
        and all(_is_own_column(expression) for expression in node["select_list"])
    )


def _is_own_column(expression: dict[str, Any]) -> bool:
    if expression["class"] == "STAR":
        return not (expression["replace_list"] or expression["rename_list"] or expression["expr"])
    return expression["class"] == "COLUMN_REF" and not expression["alias"]


def _kind(statement: duckdb.Statement) -> str:
    try:
        return statement.type.name
    except ValueError:  # DuckDB's Python package does not know it yet
        return "this kind of statement"


def _more_than_reading(construct: str) -> ArgumentError:
    return ArgumentError(
        f"Queries are read-only, and {construct} could do more: only a sync changes what is published. Use SELECT,"
        " FROM, WITH, SUMMARIZE, DESCRIBE or SHOW; for work of your own, ATTACH the file read-only from another"
        " database"
    )


def query_of(con: duckdb.DuckDBPyConnection, question: str) -> str:
    """Turn the name of a view or table into a query; a query is returned as it is.

    Raises ArgumentError when there is no such view or table, and suggests similar names.
    """
    if not _NAME.fullmatch(question.strip()):
        return question
    name = question.strip().lower()
    known = {
        f"{schema}.{table}".removeprefix("main.")
        for schema, table in con.execute("""
        SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal
        UNION ALL
        SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal
    """).fetchall()
    }
    if name.removeprefix("main.") not in known:
        near = get_close_matches(name, known, n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else f"the views are {', '.join(VIEWS)}"
        raise ArgumentError(f"There is no view or table {question.strip()!r}: {advice}")
    return f"SELECT * FROM {name}"
