"""Reading the published file, for the command line: a query in, columns and rows out. Nothing is ever written."""

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
from pipelines.store.database import in_words, literal, sql
from pipelines.store.views import QUESTIONS

# What only reads. A PIVOT is several statements in one; the connection itself could not write by them.
READS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI)

_NAME = re.compile(r"(\w+\.)?\w+")
_EXPLAIN = re.compile(r"\s*EXPLAIN(\s+ANALYZE)?\b(\s*\([^)]*\))?", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """What a query gave: column names, and rows of Python values in their order. `more` when rows were left out."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: bool = False


def ask(published: Path, query: str, parameters: dict[str, Any] | None = None, *, most: int | None = None) -> Answer:
    """Run one query on the published file, read-only; of its rows give `most` at most.

    Raises NothingLandedError before the first publish, and ArgumentError for a query that would write or that DuckDB
    refuses.
    """
    with reading(published) as con:
        only_reads(con, query)
        try:
            result = con.execute(query, parameters or {})
            columns = tuple(c[0] for c in result.description or ())
            rows = result.fetchall() if most is None else result.fetchmany(most + 1)
        except duckdb.Error as error:
            raise ArgumentError(f"DuckDB refused the query: {error}") from None
    return Answer(columns, rows[:most], most is not None and len(rows) > most)


@contextmanager
def open_published(published: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The published file, read-only. Raises NothingLandedError before the first publish."""
    if not published.exists():
        raise NothingLandedError(f"{published} is not there yet: run `rollbook sync` first")
    with in_words(published, published.parent), duckdb.connect(str(published), read_only=True) as con:
        yield con


@contextmanager
def reading(published: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The published file, read-only; of other files only the lake's, which its views read.

    Raises NothingLandedError before the first publish.
    """
    lake = f"{published.parent / 'snapshots'}/"
    with open_published(published) as con:
        con.execute(f"SET allowed_directories = [{literal(lake)}]")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
        yield con


def only_reads(con: duckdb.DuckDBPyConnection, query: str) -> None:
    """Refuse, in a sentence, what is not one query that reads. Raises ArgumentError."""
    try:
        statements = con.extract_statements(query)
    except duckdb.Error as error:
        raise ArgumentError(f"DuckDB does not understand the query: {error}") from None
    if len(statements) != 1:
        raise ArgumentError(f"Ask one query at a time: this is {len(statements)}")
    kind = statements[0].type
    if kind is duckdb.StatementType.EXPLAIN and (inner := _EXPLAIN.sub("", query, count=1)) != query:
        only_reads(con, inner)
    elif kind not in READS:
        raise ArgumentError(
            f"This only reads, and {kind.name} could write or change something: only a sync changes what is published."
            " Ask with SELECT, FROM, WITH, SUMMARIZE, DESCRIBE or SHOW; for work of your own, ATTACH the file"
            " read-only from a database of your own"
        )


def query_of(con: duckdb.DuckDBPyConnection, question: str) -> str:
    """A question as a query: the name of a view or table, or a query as it is.

    Raises ArgumentError for a name that is none, with those it may have meant, and for a query that would write.
    """
    if not _NAME.fullmatch(question.strip()):
        only_reads(con, question)
        return question.strip().rstrip(";")
    name = question.strip().lower()
    known = {f"{schema}.{table}".removeprefix("main.") for schema, table in con.execute(sql("relations")).fetchall()}
    if name.removeprefix("main.") not in known:
        near = get_close_matches(name, known, n=3)
        meant = f"did you mean {' or '.join(near)}?" if near else f"the questions are {', '.join(QUESTIONS)}"
        raise ArgumentError(f"There is no view or table {question.strip()!r}: {meant}")
    return f"SELECT * FROM {name}"
