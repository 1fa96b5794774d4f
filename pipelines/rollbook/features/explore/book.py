"""Reads the published file for one view of the app: all of it, or what a reader sees (`scope`).

Paging, sorting, searching and counting are done in SQL, so big tables stay there. Typed text is a parameter,
never part of the SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import IO, Any

import duckdb
import pyarrow as pa
from starlette.datastructures import QueryParams

from rollbook.errors import ArgumentError, NothingLandedError, SettingError
from rollbook.features.explore.readers import ALL, Readers
from rollbook.features.explore.scope import AVERAGES, By, Night, Nights, Scope, rules
from rollbook.features.morning import morning
from rollbook.features.why.provenance import Provenance, key_of, trace
from rollbook.reading import access
from rollbook.reading.formats import students_in
from rollbook.reading.query import export_own
from rollbook.settings import DISTRICT, for_all, is_of_all, place
from rollbook.store.database import READ, connect, quoted, translate_errors
from rollbook.store.district import DISTRICT_BUILD
from rollbook.store.published import DISTRICT_FILE, PUBLISHED, check_is_there
from rollbook.store.schema import check_format
from rollbook.store.statements import ordering, statements
from rollbook.store.warehouse import BUILD
from rollbook.tables import TABLES
from rollbook.util import files
from rollbook.views import contacted
from rollbook.views.contacted import Contacted

sql = statements("rollbook.features.explore")

# A row of a query, with its columns as attributes.
Row = SimpleNamespace

ROWS = 25  # on a page
PRINTED = 1_000  # rows of a list that is printed whole, wherever in it the page is
MAX_PAGE = 10**12  # DuckDB skips no more rows than an integer of 64 bits can count
# An id has up to 19 digits (2**63 - 1). Of thousands, Python would read no number.
IS_ID = "[0-9]{1,19}"
COUNTED = 100_000  # rows that are counted at most: of a year of a large school there are millions
# With the writer's memory limit, the largest views would spill to disk.
MEMORY_LIMIT = "1GB"
# A trace locks the settings of the database that it opens, which a process shares by path: one at a time.
_LOCKING = Lock()
# What of a trace has text that people wrote.
_DECISIONS = ("approved", "discarded", "put back")
# The night that readers with a scope share.
nights = Nights()
# The values that `Book.once` computed, and their night.
cache: dict[str, tuple[Any, Any]] = {}


@dataclass(frozen=True)
class Relation:
    """A table or view: its name in SQL, what a row is, and its columns: name, type and meaning."""

    title: str
    comment: str
    columns: list[tuple[str, str, str]]


@dataclass(frozen=True)
class Listing:
    """A page of a list, and the query of the whole list. Rows are tuples; `total` counts at most COUNTED rows; `others`
    are the rows before and after the page, which are printed with it.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    total: int
    page: int
    query: str
    values: dict[str, Any]
    others: Sequence[list[tuple[Any, ...]]] = ([], [])

    @property
    def numeric(self) -> set[int]:
        """The indexes of the columns with numbers that are not ids."""
        is_number = {n for row in self.rows for n, value in enumerate(row) if is_figure(value)}
        return {n for n in is_number if not self.columns[n].endswith("_id")}

    @property
    def first(self) -> int:
        """The number of the first row on this page."""
        return (self.page - 1) * ROWS + 1


class NobodyError(Exception):
    """Somebody with this login sees nobody."""


class Book:
    """The published file of a warehouse, open for one view: all queries read the same night."""

    made_by = "rollbook sync"
    contacts_wrong = ""  # what to correct in contacted.csv; until then nobody rests
    is_whole = True  # whether it shows the whole school, or a reader's part of it
    _NAME = "SELECT ANY_VALUE(school_name) FROM main.institution"

    def __init__(self, warehouse: Path | None = None, login: str = "") -> None:
        self.warehouse = warehouse or place().warehouse_path
        self.login = login  # of the reader, if there is a sign-in
        self.published = self.warehouse / PUBLISHED
        self.within = self.warehouse / BUILD
        self.students: int | None = 0  # how many different ones were read; None if unknown

    @contextmanager
    def open(self) -> Iterator[None]:
        """Within the block, the newest published file is open. Raises NothingLandedError before the first publish.

        The file is attached to a new in-memory database: a process shares a database that is opened by its path, and
        would keep seeing the night that another view has open.
        """
        check_is_there(self.published)
        with (
            files.aside(self.within) as scratch,
            connect(self.published, scratch=scratch, read_only=True) as self.con,
        ):
            self.con.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
            check_format(self.con, self.published.name)
            ((self._version,),) = self.con.execute("SELECT id FROM spans.version").fetchall()
            if not self.days:
                raise NothingLandedError(f"{self.published} holds no day yet: run `{self.made_by}` first")
            yield

    def read(self, query: str, **values: Any) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """The column names and the rows of a query. A column `student_id` says whom it shows."""
        answer = self.con.execute(query, values)
        columns, rows = tuple(column[0] for column in answer.description or ()), answer.fetchall()
        self.students = max(self.students or 0, students_in(columns, rows) or 0)
        return columns, rows

    def rows(self, query: str, **values: Any) -> list[Row]:
        """The rows of a query, with their columns as attributes."""
        columns, rows = self.read(query, **values)
        return [Row(**dict(zip(columns, row, strict=True))) for row in rows]

    def listing(
        self, params: QueryParams, query: str, order: str = "", *, total: str = "COUNT(*) OVER ()", **values: Any
    ) -> Listing:
        """One page of the rows of a query, as the address asks: `page`, and `sort`, a column, descending with `desc`.

        `order` decides without `sort`, and between equal rows; `total` is the SQL of the number of all rows. Raises
        ArgumentError when there is no such column.
        """
        sort, page = params.get("sort", ""), min(max(number(params, "page") or 1, 1), MAX_PAGE)
        chosen = ordering(quoted(sort), "DESC" if "desc" in params else "ASC") if sort else ""
        order = ", ".join(filter(None, (chosen, order)))
        ordered = f" ORDER BY {order}" if order else ""
        first, whole = (page - 1) * ROWS, f"{query}{ordered}"
        paged = f"SELECT *, {total} AS total FROM ({query}){ordered} LIMIT {ROWS} OFFSET {first}"
        try:
            columns, results = self.read(paged, **values)
        except duckdb.BinderException:
            raise ArgumentError(f"This list cannot be sorted by {sort}: choose one of its columns") from None
        rows, total_rows = [row[:-1] for row in results], results[0][-1] if results else 0
        listing = Listing(columns[:-1], rows, total_rows, page, whole, values)
        if len(rows) < total_rows <= PRINTED:
            every = self.read(whole, **values)[1]
            parts = every[:first], every[first : first + ROWS], every[first + ROWS :]
            return replace(listing, rows=parts[1], others=(parts[0], parts[2]))
        return listing

    def once(self, name: str, make: Callable[[], Any], *of: Any) -> Any:
        """The result of `make`, computed once for each night (and `of`): the slowest queries, without names or texts.

        The night is that of the open file: another may be published meanwhile, and another view may ask for its own.
        """
        night = (self.published, self._version, *of)
        cached = cache.get(name)
        if cached is None or cached[0] != night:
            cached = cache[name] = (night, make())
        return cached[1]

    def note(self, kind: str, what: str, students: int | None) -> None:
        """Write the view's line into the access log; before anything is shown. Raises MachineError, BusyError."""
        access.note(self.warehouse, kind, students=students, what=what, reader=self.login)

    @cached_property
    def days(self) -> list[date]:
        """The landed days, the newest first."""
        return [row.day for row in self.rows("SELECT DISTINCT snapshot_date AS day FROM spans.days ORDER BY 1 DESC")]

    @cached_property
    def school(self) -> str:
        """The institution's name."""
        return self.read(self._NAME)[1][0][0] or "the institution"

    @cached_property
    def relations(self) -> dict[str, Relation]:
        """The readable tables and views by title, the views first."""
        rows = self.once("relations", lambda: self.read(sql("relations"), file=READ)[1])
        return {row[0]: Relation(*row) for row in rows}

    def watching(self, day: date) -> None:
        """Make the relation `watching`: the rows of watch_daily on a day, without names."""

        def made() -> pa.Table:
            return self.con.sql(_watching(day)).to_arrow_table()

        self.con.register("watching", self.once("watching", made, day))

    @cached_property
    def noted(self) -> list[Contacted]:
        """Who was spoken to, by contacted.csv as it is now; nobody by a malformed one: pages say what is wrong."""
        try:
            return contacted.contacts(self.warehouse, self.con)
        except SettingError as error:
            says = error.message.removeprefix(f"{self.warehouse}/")
            if self.login:  # the line may be about somebody else's student
                says = f"{says.partition(':')[0]}. Tell the person who runs Rollbook at your school"
            self.contacts_wrong = says
            return []

    def resting(self, day: date) -> dict[int, Contacted]:
        """Make the relation `resting`: who was spoken to, and rests on a day, until when and noted by whom; returns
        that. On the newest day those rest who do so today.
        """
        resting = contacted.resting(self.noted, today() if day == self.days[0] else day)
        told = [(each.student_id, each.on, each.until, each.by) for each in resting.values()]
        lists = [list(column) for column in zip(*told, strict=True)] or [[], [], [], []]
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE resting AS SELECT UNNEST($1::BIGINT[]) AS student_id,"
            " UNNEST($2::DATE[]) AS on_day, UNNEST($3::DATE[]) AS until, UNNEST($4::VARCHAR[]) AS noted_by",
            lists,
        )
        return resting

    def csv(self, listing: Listing, what: str) -> IO[bytes]:
        """A whole list as an open CSV file, with text escaped that a spreadsheet program would run as a formula."""
        with files.aside(self.within) as scratch:
            students = export_own(self.con, listing.query, listing.values, out := scratch / "list.csv")
            # None for our own lists, which join tables; each of their rows is another student.
            self.note("explore download", what, listing.total if students is None and self.students else students)
            return out.open("rb")  # can be read when the folder is gone

    def trace(self, of: str, key: str, column: str, on: date, *, show: bool) -> Provenance:
        """The answer of `rollbook why` about a row, or about one of its values. Raises ArgumentError."""
        with _LOCKING:
            record = trace(self.warehouse, of, key_of(key), column or None, on, show=show)
        self.students = record.students
        return record


class ScopedBook(Book):
    """What a reader sees of the published file, open for one view. Nothing that is read is kept for the next one."""

    is_whole = False

    def __init__(self, warehouse: Path, login: str, sees: frozenset[str]) -> None:
        super().__init__(warehouse, login)
        self.sees, self.scope = sees, Scope()

    @contextmanager
    def open(self) -> Iterator[None]:
        """As a whole one; the reader's own connection to the night that all readers share."""
        with (
            self.night() as self._night,
            translate_errors(self.published, self.within),
            self._night.reading(self.login, self.sees) as (self.con, self.scope),
        ):
            if not self.days:
                raise NothingLandedError(f"{self.published} holds no day yet: run `{self.made_by}` first")
            yield

    @contextmanager
    def night(self) -> Iterator[Night]:
        """Within the block, the newest night is open. Raises NothingLandedError before the first publish."""
        check_is_there(self.published)
        with nights.newest(self.published, self.within) as night:
            yield night

    def once(self, name: str, make: Callable[[], Any], *of: Any) -> Any:  # noqa: ARG002 - as in the whole one
        """The result of `make`."""
        return make()

    @cached_property
    def noted(self) -> list[Contacted]:
        """Which of the reader's students were spoken to."""
        return [each for each in super().noted if each.student_id in self.scope.students]

    @cached_property
    def relations(self) -> dict[str, Relation]:
        """The relations that are not closed."""
        listed = {name if of == "main" else f"{of}.{name}" for of, name in self._night.listed}
        return {title: each for title, each in super().relations.items() if title in listed}

    def watching(self, day: date) -> None:
        """Make the relation `watching`."""
        self.con.execute(f"CREATE OR REPLACE TEMP VIEW watching AS {_watching(day)}")

    def trace(self, of: str, key: str, column: str, on: date, *, show: bool) -> Provenance:
        """As in the whole one, of a record that the reader sees: without what people wrote of their decisions, and of a
        class without its figures where these are not shown.
        """
        table, ids = TABLES.get(of), key_of(key)
        if table is not None and len(ids) == len(table.key):
            rule = rules()["history", of]
            is_figured = rule is not By.CLASS or ids[0] in self.scope.averaged
            whose = " AND ".join(f"{name} = {value}" for name, value in zip(table.key, ids, strict=True))
            known = self.con.execute(f"SELECT 1 FROM history.{of} WHERE {whose} LIMIT 1").fetchall()
            if not known or rule is By.OPEN or (not is_figured and (show or of in AVERAGES)):
                raise ArgumentError(f"There is no row {of} {key} among what you see")
        record = super().trace(of, key, column, on, show=show)
        return replace(record, lines=[line for line in record.lines if line[0] not in _DECISIONS])


class DistrictBook(Book):
    """The file of all institutions, open for one view."""

    made_by = "rollbook district build"
    _NAME = "SELECT CONCAT(COUNT(*), ' institution', CASE WHEN COUNT(*) <> 1 THEN 's' END) FROM main.institutions"

    def __init__(self) -> None:
        common = for_all().common_path
        super().__init__(common / DISTRICT)  # the folder of its access log
        self.published = common / DISTRICT_FILE
        self.within = self.warehouse / DISTRICT_BUILD


def new_book() -> Book:
    """The file that the app shows: one school's, or that of all institutions if none is named."""
    return DistrictBook() if is_of_all() else Book()


def book_of(readers: Readers, login: str) -> Book:
    """What a reader with a login sees. Raises NobodyError for one who may see nothing, and SettingError."""
    sees, warehouse = readers.sees(login), readers.path.parent
    if not sees:
        raise NobodyError(login)
    return Book(warehouse, login) if ALL in sees else ScopedBook(warehouse, login, sees)


def _watching(day: date) -> str:
    """The query of those to watch on a day, without names."""
    flags = ", ".join(flag for flag, _ in morning.REASONS)
    return (
        f"SELECT student_id, change, severity, severity_before, reason, reason_before, {flags}"
        f" FROM main.watch_daily WHERE snapshot_date = DATE '{day}'"
    )


def today() -> date:
    """The day of the person at this machine."""
    return date.today()  # noqa: DTZ011 - as a person writes it


def is_figure(value: object) -> bool:
    """Whether a value is a number."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def number(params: QueryParams, name: str) -> Any:
    """A whole number from the address, with as many digits as an id may have; None without one."""
    text = params.get(name, "")
    return int(text) if re.fullmatch(IS_ID, text) else None
