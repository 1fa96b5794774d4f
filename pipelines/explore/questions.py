"""The pages' queries on the published file. Paging, searching and counting are done in SQL, so big tables stay there.

Each query is a file in `sql/`. What a person types is a parameter, never part of the SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb

from pipelines import files
from pipelines.errors import NothingLandedError, RollbookError
from pipelines.export import Format
from pipelines.export.formats import export
from pipelines.privacy import access
from pipelines.privacy.queries import without_values
from pipelines.settings import FLEET, for_all, is_of_all, place
from pipelines.store.database import connect
from pipelines.store.published import fleet_file
from pipelines.store.published.versions import PUBLISHED
from pipelines.store.statements import statements
from pipelines.store.warehouse import BUILD

sql = statements("pipelines.explore")

ROWS = 25  # on a page
FOUND = 50  # matches to choose from
DAYS = 62  # of a trend

DOWNLOADED = 100_000  # rows of a download at most: the browser holds it in memory
# With the writer's memory limit, the largest views would spill to disk.
MEMORY_LIMIT = "1GB"
# An export locks the settings of the database that it opens, which a process shares by path: one at a time.
_EXPORTING = Lock()

# Queries for menus and institutions' figures. They return no pupils, so the access log does not note them.
WITHOUT_PUPILS = (
    "days", "fleet_days", "institution_names", "institution_trend", "institutions", "relations", "columns",
)  # fmt: skip

COMPARISONS = ("contains", "is", "is not", "is at least", "is at most", "is empty", "is not empty")
WITHOUT_VALUE = ("is empty", "is not empty")


@dataclass(frozen=True)
class Listing:
    """One page of rows of a longer list, which has `total` rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    total: int

    @property
    def pages(self) -> int:
        """How many pages the list has; one if it is empty."""
        return max(-(-self.total // ROWS), 1)


@dataclass(frozen=True)
class Relation:
    """A table or view: its schema, its name and what a row is."""

    schema: str
    name: str
    comment: str

    @property
    def title(self) -> str:
        """The name in SQL; views and current tables need no schema."""
        return self.name if self.schema == "main" else f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Selection:
    """The rows of a table or view that match a filter, sorted; all rows without `filtered` or a value to compare with.

    `columns` are the relation's: name, type and meaning. Raises ValueError for an unknown column or comparison.
    """

    relation: Relation
    columns: tuple[tuple[str, str, str], ...]
    filtered: str | None = None
    comparison: str = COMPARISONS[0]
    value: str = ""
    sorted_by: str | None = None
    descending: bool = False

    def __post_init__(self) -> None:
        known = {name for name, _, _ in self.columns}
        if not {self.filtered or "", self.sorted_by or ""} <= known | {""} or self.comparison not in COMPARISONS:
            raise ValueError("no such column or comparison")

    def narrowed(
        self, filtered: str | None, comparison: str, value: str, sorted_by: str | None, descending: bool
    ) -> Selection:
        """The same with a filter and an order. Raises ValueError as above."""
        return replace(
            self, filtered=filtered, comparison=comparison, value=value, sorted_by=sorted_by, descending=descending
        )

    @property
    def is_filtered(self) -> bool:
        """Whether there is a filter."""
        return self.filtered is not None and (self.comparison in WITHOUT_VALUE or self.value != "")

    def query(self, *, whole: bool = False) -> str:
        """The SQL for all rows if `whole`, else for a page of rows, with the total count as the last column."""
        return sql(
            "rows",
            relation=f"{_quoted(self.relation.schema)}.{_quoted(self.relation.name)}",
            filtered=_quoted(self.filtered) if self.is_filtered and self.filtered else "",
            comparison=self.comparison,
            kind=next((kind for name, kind, _ in self.columns if name == self.filtered), "VARCHAR"),
            sorted_by=_quoted(self.sorted_by) if self.sorted_by else "",
            descending=self.descending,
            whole=whole,
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of its SQL, but for those of a page."""
        return {"value": self.value} if self.is_filtered and self.comparison not in WITHOUT_VALUE else {}


class Book:
    """The published file of one warehouse, for one open page of the app."""

    made_by = "rollbook sync"
    of_all = False

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

    def rows(self, question: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query in `sql/`."""
        with self.reading() as con:
            columns, found = _fetched(con.execute(sql(question), values))
        if question not in WITHOUT_PUPILS:
            self._note(question, columns, found, values)
        return found

    def row(self, question: str, **values: Any) -> tuple[Any, ...] | None:
        """The first row of a query in `sql/`, or None."""
        found = self.rows(question, **values)
        return found[0] if found else None

    def listing(self, question: str, page: int = 1, **values: Any) -> Listing:
        """One page (from 1) of the rows of a query in `sql/`, whose last column is the total count."""
        return self._page(question, sql(question), page, values)

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
        ((name, days),) = self.rows("days")
        return name, days

    def relations(self) -> dict[str, Relation]:
        """The readable tables and views by title, the views first."""
        return {relation.title: relation for relation in (Relation(*row) for row in self.rows("relations"))}

    def select(self, relation: Relation) -> Selection:
        """All rows of a table or view."""
        columns = self.rows("columns", schema_name=relation.schema, table_name=relation.name)
        return Selection(relation, tuple((name, kind, text or "") for name, kind, text in columns))

    def selected(self, selection: Selection, page: int = 1) -> Listing:
        """One page (from 1) of a selection."""
        query = selection.query()
        return self._page(without_values(query), query, page, selection.parameters)

    def _page(self, what: str, query: str, page: int, values: dict[str, Any]) -> Listing:
        with self.reading() as con:
            columns, found = _fetched(con.execute(query, {**values, "most": ROWS, "skip": (page - 1) * ROWS}))
        self._note(what, columns, found, values)
        return Listing(columns[:-1], [row[:-1] for row in found], found[0][-1] if found else 0)

    def _note(self, what: str, columns: Sequence[str], found: list[tuple[Any, ...]], values: dict[str, Any]) -> None:
        """Note the rows about to be shown in the access log."""
        students = access.students_in(columns, found)
        if students is None and access.STUDENT_ID in values:
            students = 1
        access.note(self.warehouse, "explore", students=students, what=what)

    def csv(self, selection: Selection) -> bytes:
        """A whole selection as CSV, with text escaped that a spreadsheet program would run as a formula."""
        what = without_values(selection.query(whole=True))

        def note(students: int | None) -> None:
            access.note(self.warehouse, "explore download", students=students, what=what)

        with _EXPORTING, files.aside(self.within) as scratch:
            out = scratch / "selected.csv"
            export(
                self.published,
                selection.query(whole=True),
                Format.CSV,
                out,
                scratch=scratch,
                values=selection.parameters,
                before=note,
            )
            return out.read_bytes()


class FleetBook(Book):
    """The file of all institutions, for one open page of the app."""

    made_by = "rollbook fleet build"
    of_all = True

    def __init__(self) -> None:
        common = for_all().common_path
        super().__init__(common / FLEET)  # the folder of its access log
        self.published = common / fleet_file.FILE
        self.within = self.warehouse / fleet_file.BUILD

    @cached_property
    def _school(self) -> tuple[str | None, list[date] | None]:
        ((name, days),) = self.rows("fleet_days")
        return name, days


def open_book() -> Book:
    """The file that the app shows: one school's, or that of all institutions if none is named."""
    return FleetBook() if is_of_all() else Book()


def find(book: Book, question: str, text: str) -> dict[str, int]:
    """The classes or students that match a text, as choices: labels and their ids."""
    rows: Sequence[tuple[int, str]] = book.rows(question, text=text.strip(), most=FOUND)
    choices: dict[str, int] = {}
    for key, name in rows:  # equal names are distinguished by their ids
        choices[name if name not in choices else f"{name} ({key})"] = key
    return choices


def _fetched(answer: duckdb.DuckDBPyConnection) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The column names, and all rows."""
    return tuple(column[0] for column in answer.description or ()), answer.fetchall()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
