"""What the pages ask of the published file. Big tables stay there: a page of rows, a search and a count are SQL.

Each question is a file in `sql/`. What a person types is a parameter, never part of the text.
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
from pipelines.store import fleet_file
from pipelines.store.database import connect
from pipelines.store.statements import statements
from pipelines.store.versions import PUBLISHED
from pipelines.store.warehouse import BUILD

sql = statements("pipelines.explore")

ROWS = 25  # on a page
FOUND = 50  # matches to choose from
DAYS = 62  # of a trend

DOWNLOADED = 100_000  # rows of a download at most: it passes through the browser's memory
# The largest views would spill their rows to the disk with the memory that the writer has.
MEMORY_LIMIT = "1GB"
# An export locks the settings of the database that it opens by its path, so only one at a time.
_EXPORTING = Lock()

# What is asked of the file for the menus: the days and the tables there are.
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
        """The name as it is written in SQL; views and current tables need no schema."""
        return self.name if self.schema == "main" else f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Selection:
    """The rows of a table or view that fit a filter, sorted. Without `filtered` or a value to compare with, all rows.

    `columns` are the relation's: name, type and meaning. Raises ValueError for a column or comparison that is unknown.
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
        """Whether there is something to filter by."""
        return self.filtered is not None and (self.comparison in WITHOUT_VALUE or self.value != "")

    def query(self, *, whole: bool = False) -> str:
        """The SQL of all its rows; or else of a page of them, with how many there are in all as the last column."""
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
        """What its SQL takes."""
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
        """A read-only connection to the newest published file; what is asked within the block shares it.

        It is attached to a database in memory of its own: one that is opened by its path is shared by all of a process,
        which would go on seeing the night that another page has open. Raises NothingLandedError before the first
        publish.
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
        """The rows that answer a question of `sql/`."""
        with self.reading() as con:
            columns, found = _fetched(con.execute(sql(question), values))
        if question not in WITHOUT_PUPILS:
            self._note(question, columns, found, values)
        return found

    def row(self, question: str, **values: Any) -> tuple[Any, ...] | None:
        """The first of them, or None."""
        found = self.rows(question, **values)
        return found[0] if found else None

    def listing(self, question: str, page: int = 1, **values: Any) -> Listing:
        """One page, from 1, of the rows that answer a question; its last column is how many there are in all."""
        return self._page(question, sql(question), page, values)

    @cached_property
    def days(self) -> list[date]:
        """The landed days, the newest first."""
        return self._school[1] or []

    @cached_property
    def trouble(self) -> str:
        """Why nothing can be shown, in a sentence; empty if all is well."""
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
        """What can be read, by title; the views first."""
        return {relation.title: relation for relation in (Relation(*row) for row in self.rows("relations"))}

    def select(self, relation: Relation) -> Selection:
        """All rows of a table or view."""
        columns = self.rows("columns", schema_name=relation.schema, table_name=relation.name)
        return Selection(relation, tuple((name, kind, text or "") for name, kind, text in columns))

    def selected(self, selection: Selection, page: int = 1) -> Listing:
        """One page, from 1, of what was selected."""
        query = selection.query()
        return self._page(without_values(query), query, page, selection.parameters)

    def _page(self, what: str, query: str, page: int, values: dict[str, Any]) -> Listing:
        with self.reading() as con:
            columns, found = _fetched(con.execute(query, {**values, "most": ROWS, "skip": (page - 1) * ROWS}))
        self._note(what, columns, found, values)
        return Listing(columns[:-1], [row[:-1] for row in found], found[0][-1] if found else 0)

    def _note(self, what: str, columns: Sequence[str], found: list[tuple[Any, ...]], values: dict[str, Any]) -> None:
        """Write what is about to be shown into the access log."""
        students = access.students_in(columns, found)
        if students is None and access.STUDENT_ID in values:
            students = 1
        access.note(self.warehouse, "explore", students=students, what=what)

    def csv(self, selection: Selection) -> bytes:
        """All that was selected as Rollbook's own CSV, in which no text is a formula to a spreadsheet program."""
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
        super().__init__(common / FLEET)  # where its access log is
        self.published = common / fleet_file.FILE
        self.within = self.warehouse / fleet_file.BUILD

    @cached_property
    def _school(self) -> tuple[str | None, list[date] | None]:
        ((name, days),) = self.rows("fleet_days")
        return name, days


def open_book() -> Book:
    """What the app shows: one school, or all institutions of a registry where none is named."""
    return FleetBook() if is_of_all() else Book()


def find(book: Book, question: str, text: str) -> dict[str, int]:
    """The classes or students that a text finds, as choices: what they are called, and their ids."""
    rows: Sequence[tuple[int, str]] = book.rows(question, text=text.strip(), most=FOUND)
    counted: dict[str, int] = {}
    for key, name in rows:  # two of one name stay apart
        counted[name if name not in counted else f"{name} ({key})"] = key
    return counted


def _fetched(answer: duckdb.DuckDBPyConnection) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The names of the columns, and all rows."""
    return tuple(column[0] for column in answer.description or ()), answer.fetchall()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
