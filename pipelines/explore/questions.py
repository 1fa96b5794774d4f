"""The published file as the pages see it: rows of a query, lists page by page, and any table, filtered and sorted.

Paging, searching and counting are done in SQL, so big tables stay there. What a person types is a parameter, never part
of the SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb

from pipelines import files
from pipelines.errors import NothingLandedError, RollbookError
from pipelines.export import Format, students_in
from pipelines.export.formats import export
from pipelines.privacy import access
from pipelines.settings import FLEET, for_all, is_of_all, place
from pipelines.store.database import connect
from pipelines.store.published import fleet_file
from pipelines.store.published.versions import PUBLISHED
from pipelines.store.statements import statements
from pipelines.store.warehouse import BUILD

sql = statements("pipelines.explore")

Row = tuple[Any, ...]

ROWS = 25  # on a page
FOUND = 50  # matches to choose from

DOWNLOADED = 100_000  # rows of a download at most: the browser holds it in memory
# With the writer's memory limit, the largest views would spill to disk.
MEMORY_LIMIT = "1GB"
# An export locks the settings of the database that it opens, which a process shares by path: one at a time.
_EXPORTING = Lock()

COMPARISONS = {
    "contains": "CONTAINS(LOWER(CAST({column} AS VARCHAR)), LOWER($value))",
    "is": "CAST({column} AS VARCHAR) = $value",
    "is not": "CAST({column} AS VARCHAR) IS DISTINCT FROM $value",
    "is at least": "{column} >= TRY_CAST($value AS {type})",
    "is at most": "{column} <= TRY_CAST($value AS {type})",
    "is empty": "{column} IS NULL",
    "is not empty": "{column} IS NOT NULL",
}


@dataclass(frozen=True)
class Relation:
    """A table or view: its schema, its name, what a row is, and its columns: name, type and meaning."""

    schema: str
    name: str
    comment: str
    columns: list[tuple[str, str, str]]

    @property
    def title(self) -> str:
        """The name in SQL; views and current tables need no schema."""
        return self.name if self.schema == "main" else f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Selection:
    """The rows of a table or view that match a filter, sorted; all of them without `filtered` or a value."""

    relation: Relation
    filtered: str | None = None
    comparison: str = "contains"
    value: str = ""
    sorted_by: str | None = None
    descending: bool = False

    def parts(self) -> tuple[str, str, dict[str, str]]:
        """The SQL of its FROM and WHERE, of its ORDER BY, and the parameters."""
        source, values = f"FROM {_quoted(self.relation.schema)}.{_quoted(self.relation.name)}", {}
        condition = COMPARISONS[self.comparison]
        if self.filtered is not None and (self.value != "" or "$value" not in condition):
            types = {name: type_ for name, type_, _ in self.relation.columns}
            source += f" WHERE {condition.format(column=_quoted(self.filtered), type=types[self.filtered])}"
            values = {"value": self.value} if "$value" in condition else {}
        direction = " DESC" if self.descending else ""
        order = f" ORDER BY {_quoted(self.sorted_by)}{direction} NULLS LAST" if self.sorted_by else ""
        return source, order, values


class Listing:
    """A list that is shown in pages of rows. The last column of its query is the number of all rows, `total`.

    `what` is how the access log names it.
    """

    def __init__(self, book: Book, what: str, query: str, **values: Any) -> None:
        self._book, self._what, self._query, self._values = book, what, query, values
        self.columns, self._first = self._read(1)
        self.total: int = self._first[0][-1] if self._first else 0
        self.pages = max(-(-self.total // ROWS), 1)

    def rows(self, page: int) -> list[Row]:
        """The rows of a page, from 1. The first one is only read once."""
        found = self._first if page == 1 else self._read(page)[1]
        return [row[:-1] for row in found]

    def _read(self, page: int) -> tuple[tuple[str, ...], list[Row]]:
        paged = f"{self._query} LIMIT {ROWS} OFFSET {(page - 1) * ROWS}"
        columns, found = self._book.read(self._what, paged, self._values)
        return columns[:-1], found


class Book:
    """The published file of one warehouse, for one open page of the app."""

    made_by = "rollbook sync"
    of_all = False
    _SCHOOL_AND_DAYS = """
        SELECT
            (SELECT ANY_VALUE(school_name) FROM main.institution),
            (SELECT LIST(snapshot_date ORDER BY snapshot_date DESC) FROM spans.days)
    """

    def __init__(self, warehouse: Path | None = None) -> None:
        self.warehouse = warehouse or place().warehouse_path
        self.published = self.warehouse / PUBLISHED
        self.within = self.warehouse / BUILD
        self._open: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only connection to the newest published file; all queries within the block share it.

        The file is attached to a new in-memory database: a process shares a database that is opened by its path, and
        would keep seeing the night that another page has open. Raises NothingLandedError before the first publish.
        """
        if self._open is not None:
            yield self._open
            return
        if not self.published.exists():
            raise NothingLandedError(f"{self.published} does not exist yet: run `{self.made_by}` first")
        with (
            files.aside(self.within) as scratch,
            connect(self.published, scratch=scratch, read_only=True) as con,
        ):
            con.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
            self._open = con
            try:
                yield con
            finally:
                self._open = None

    def rows(self, what: str, query: str, **values: Any) -> list[Row]:
        """The rows of a query. The access log names it `what`; it leaves out queries without a name.

        A query without a name must return no pupils.
        """
        return self.read(what, query, values)[1]

    def read(self, what: str, query: str, values: dict[str, Any]) -> tuple[tuple[str, ...], list[Row]]:
        """The column names, and the rows of a query, as `rows`."""
        with self.reading() as con:
            answer = con.execute(query, values)
            columns, found = tuple(column[0] for column in answer.description or ()), answer.fetchall()
        if what:
            students = students_in(columns, found)
            if students is None and "student_id" in values:
                students = 1
            access.note(self.warehouse, "explore", students=students, what=what)
        return columns, found

    @cached_property
    def days(self) -> list[date]:
        """The landed days, the newest first."""
        return self._school[1] or []

    @cached_property
    def trouble(self) -> str:
        """Why nothing can be shown, in a sentence; empty if there is data."""
        try:
            return "" if self.days else f"{self.published} holds no day yet: run `{self.made_by}` first"
        except RollbookError as error:
            return error.message

    def before(self, day: date) -> date | None:
        """The landed day before a landed day."""
        return next((d for d in self.days if d < day), None)

    @cached_property
    def school(self) -> str:
        """The institution's name."""
        return self._school[0] or "the institution"

    @cached_property
    def _school(self) -> tuple[str | None, list[date] | None]:
        ((name, days),) = self.rows("", self._SCHOOL_AND_DAYS)
        return name, days

    def relations(self) -> dict[str, Relation]:
        """The readable tables and views by title, the views first."""
        found = self.rows("", sql("relations"))
        return {relation.title: relation for relation in (Relation(*row) for row in found)}

    def selected(self, selection: Selection) -> Listing:
        """The rows of a selection, in pages."""
        source, order, values = selection.parts()
        query = f"SELECT *, (SELECT COUNT(*) {source}) AS total {source}{order}"
        return Listing(self, access.without_values(query), query, **values)

    def csv(self, selection: Selection) -> bytes:
        """A whole selection as CSV, with text escaped that a spreadsheet program would run as a formula."""
        source, order, values = selection.parts()
        query = f"SELECT * {source}{order}"

        def note(students: int | None) -> None:
            access.note(self.warehouse, "explore download", students=students, what=access.without_values(query))

        with _EXPORTING, files.aside(self.within) as scratch:
            out = scratch / "selected.csv"
            export(self.published, query, Format.CSV, out, scratch=scratch, values=values, before=note)
            return out.read_bytes()


class FleetBook(Book):
    """The file of all institutions, for one open page of the app."""

    made_by = "rollbook fleet build"
    of_all = True
    _SCHOOL_AND_DAYS = """
        SELECT
            (SELECT CONCAT(COUNT(*), ' institution', CASE WHEN COUNT(*) <> 1 THEN 's' END) FROM main.institutions),
            (SELECT LIST(DISTINCT snapshot_date ORDER BY snapshot_date DESC) FROM spans.days)
    """

    def __init__(self) -> None:
        common = for_all().common_path
        super().__init__(common / FLEET)  # the folder of its access log
        self.published = common / fleet_file.FILE
        self.within = self.warehouse / fleet_file.BUILD


def open_book() -> Book:
    """The file that the app shows: one school's, or that of all institutions if none is named."""
    return FleetBook() if is_of_all() else Book()


def find(book: Book, what: str, text: str) -> dict[str, int]:
    """The classes or students that match a text, as choices: labels and their ids. `what` names a query in `sql/`."""
    return {name: key for key, name in book.rows(what, sql(what), text=text.strip(), most=FOUND)}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
