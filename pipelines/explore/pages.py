"""The contents and texts of the pages, as fragments of HTML, and their queries. The notebook has the controls.

Queries longer than a few lines are in `sql/`. A list's last column is the number of all its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property, wraps
from pathlib import Path
from threading import Lock
from typing import Any, Concatenate, NamedTuple, ParamSpec
from urllib.parse import urlencode

import duckdb

from pipelines.errors import NothingLandedError, RollbookError
from pipelines.export import Format, students_in
from pipelines.export.query import export
from pipelines.pages import environment
from pipelines.privacy import access
from pipelines.settings import FLEET, for_all, is_of_all, place
from pipelines.store.database import connect
from pipelines.store.published import FLEET_BUILD, FLEET_FILE, PUBLISHED
from pipelines.store.statements import statements
from pipelines.store.warehouse import BUILD
from pipelines.util import files
from pipelines.util.text import cell as text_of
from pipelines.util.text import printable

SCHOOL, CLASS, STUDENT, WATCH, COMPARE, TABLES = (
    "School today", "A class", "A student", "Newly to watch", "Two dates", "Any table",
)  # fmt: skip
DAYS = 62  # of a trend
MOST_CHANGES = 62  # kinds of changes between two dates
INSTITUTIONS = "All institutions"
DRAWN_MOST = 12  # institutions with line charts
PAGES = {"school": SCHOOL, "class": CLASS, "student": STUDENT, "watch": WATCH, "compare": COMPARE, "tables": TABLES}
# What is found by a text: the word for it, the query, what the text may be.
CHOICES = {
    CLASS: ("class", "find_classes", "title, code, course, teacher or id"),
    STUDENT: ("student", "find_students", "name, email, reference or id"),
}
REASONS = ("falling fast", "never logged in", "inactive", "low completion", "low score")

ONE_DAY = "Only one day has been landed so far: from the second one on, this page compares it with the day before."
VERDICTS = {
    "synced": "Last night is complete.",
    "unproven": "Last night could not be proven complete, so nobody was removed from the lists.",
    "held": "Last night is held for approval: these figures are those of the night before.",
    "failed": "Last night failed: these figures are those of the last good night.",
    "missing": "There was no sync last night: these figures are those of the last good night.",
    "discarded": "Last night was discarded: these figures are those of the last good night.",
}


P = ParamSpec("P")


def _one_reading(page: Callable[Concatenate[Book, P], list[str]]) -> Callable[Concatenate[Book, P], list[str]]:
    """Run all queries of a page on one connection: faster, and all from one night."""

    @wraps(page)
    def read(book: Book, /, *args: P.args, **kwargs: P.kwargs) -> list[str]:
        with book.reading():
            return page(book, *args, **kwargs)

    return read


def pages_of(book: Book) -> dict[str, str]:
    """The titles of the pages by their names in an address; a fleet has other pages than a single school."""
    return {"institutions": INSTITUTIONS, "tables": TABLES} if isinstance(book, FleetBook) else PAGES


def page_asked(address: Mapping[str, Any], book: Book) -> str:
    """The page that the address asks for; the first one if it asks for none."""
    there = pages_of(book)
    return there.get(str(address.get("page")), next(iter(there.values())))


def _days(book: Book, what: str, query: str, **values: Any) -> list[Row]:
    """The rows of a query on the last landed days, oldest first. The day is its first column."""
    return sorted(book.rows(what, f"{query} ORDER BY snapshot_date DESC LIMIT {DAYS}", **values))


def title(book: Book) -> list[str]:
    """The style sheet, the institution's name, and the newest day, which most pages show."""
    day = book.days[0]
    style = f"<style>{_render('explore.css')}</style>"
    return [style, heading(book.school, f"as of {day:%A}, {day.day} {day:%B %Y}")]


@_one_reading
def school(book: Book) -> list[str]:
    """The verdict on the newest night, the key figures and their trend."""
    day = book.days[0]
    night = book.rows(
        "night",
        """
        SELECT CASE WHEN outcome = 'synced' AND NOT proven THEN 'unproven' ELSE outcome END, description
        FROM main.sync_log ORDER BY snapshot_date DESC LIMIT 1
        """,
    )
    trend = _days(
        book,
        "trend",
        """
        SELECT
            snapshot_date, students, students_added, students_removed, average_completion_rate, average_score,
            active_percent
        FROM main.progress_daily
        """,
    )
    now, then = trend[-1], trend[-2] if len(trend) > 1 else (None,) * 7
    watched = book.rows("watch_counts", sql("watch_counts"), day=day, before=book.before(day))
    earlier = watched[1][1] if len(watched) > 1 else None
    _, students, added, removed, completion, score, active = now
    moved = f"{added:,} new or back, {removed:,} gone" if added is not None else "the first landed day"
    ((active_classes,),) = book.rows("active_classes", "SELECT COUNT(*) FROM main.classes WHERE class_status = 1")
    keys = [
        ("students", students, moved),
        ("active classes", active_classes, ""),
        ("students to watch", watched[0][1], since(watched[0][1], earlier, then[0], "students")),
        ("average completion, %", completion, since(completion, then[4], then[0])),
        ("average score", score, since(score, then[5], then[0])),
        ("active within 7 days, %", active, since(active, then[6], then[0])),
    ]
    return [
        *(verdict(VERDICTS.get(outcome, ""), description, outcome == "synced") for outcome, description in night),
        figures(keys),
        lines(
            line("Average completion, %", [(row[0], row[4]) for row in trend]),
            line("Average score", [(row[0], row[5]) for row in trend]),
            line("Active within 7 days, %", [(row[0], row[6]) for row in trend]),
            line("Students", [(row[0], row[1]) for row in trend]),
        ),
        subtitle("Why students are to be watched"),
        table(("reason", "students"), list(zip(REASONS, watched[0][2:], strict=True))),
        note("A student may be counted under several reasons."),
    ]


@_one_reading
def institutions(book: Book, chosen: Sequence[str] = ()) -> list[str]:
    """The trend of all institutions together, or of each chosen one; then a table with a row for each."""
    drawn = chosen[:DRAWN_MOST]
    measures = "SELECT snapshot_date, students, average_completion_rate, average_score FROM main"
    of_one = f"{measures}.institutions_daily WHERE institution = $institution"
    trends = [(name, _days(book, "", of_one, institution=name)) for name in drawn]
    if not chosen:
        trends = [("", _days(book, "fleet_trend", f"{measures}.fleet_daily"))]
    headings = (
        "institution", "school", "records up to", "stands", "students", "active classes", "completion, %",
        "against all", "score",
    )  # fmt: skip
    parts = []
    for name, trend in trends:
        parts += [
            subtitle(name) if name else "",
            lines(
                line("Students", [(row[0], row[1]) for row in trend]),
                line("Average completion, %", [(row[0], row[2]) for row in trend]),
                line("Average score", [(row[0], row[3]) for row in trend]),
            ),
        ]
    rows = linked(book.rows("", sql("institutions"), chosen=list(chosen)), "institutions", "institution")
    more = len(chosen) - len(drawn)
    return [
        *parts,
        note(f"{more:,} more of the chosen institutions are in the table only.") if more else "",
        table(headings, rows),
        note("To explore one institution: rollbook --institution NAME explore"),
    ]


@_one_reading
def one_class(book: Book, class_id: int) -> list[str]:
    """A class: its facts, its trend."""
    found = book.rows(
        "class",
        """
        SELECT
            c.class_title, c.class_code, c.course_name, c.teacher_name, c.class_room,
            CASE c.class_status WHEN 1 THEN 'active' WHEN 0 THEN 'inactive' END,
            c.student_count, s.average_completion_rate, s.average_score,
            a.assignment_count, a.students_with_submissions
        FROM main.classes AS c
        LEFT JOIN main.class_summaries AS s USING (class_id)
        LEFT JOIN main.class_assignment_activity AS a USING (class_id)
        WHERE class_id = $class_id
        """,
        class_id=class_id,
    )
    if not found:
        return [note("This class is not listed.")]
    ((name, code, course, teacher, room, status, students, completion, score, assignments, submitted),) = found
    trend = _days(
        book,
        "class_trend",
        """
        SELECT snapshot_date, student_count, average_completion_rate, average_score
        FROM main.class_daily WHERE class_id = $class_id
        """,
        class_id=class_id,
    )
    facts = (code, course, teacher and f"taught by {teacher}", room and f"room {room}", status)
    return [
        heading(name, ", ".join(fact for fact in facts if fact)),
        figures(
            [
                ("students", students, "according to the class's record"),
                ("average completion, %", completion, ""),
                ("average score", score, ""),
                ("assignments", assignments, f"{cell(submitted)} students have submitted"),
            ]
        ),
        lines(
            line("Average completion, %", [(row[0], row[2]) for row in trend]),
            line("Average score", [(row[0], row[3]) for row in trend]),
            line("Students", [(row[0], row[1]) for row in trend]),
        ),
        subtitle("Students of the class"),
    ]


@_one_reading
def student(book: Book, student_id: int) -> list[str]:
    """A student: the facts, the trend, the classes."""
    found = book.rows("student", sql("student"), student_id=student_id)
    if not found:
        return [note("This student is not known.")]
    ((name, email, reference, registered, gone, completion, done, given, score, minutes, active, logged_in),) = found
    trend = _days(
        book,
        "student_trend",
        """
        SELECT snapshot_date, CASE WHEN total_assignments > 0 THEN completion_rate END, average_score
        FROM main.student_daily WHERE student_id = $student_id
        """,
        student_id=student_id,
    )
    classes = book.rows(
        "student_classes",
        """
        SELECT
            class_id, class_title, course_name,
            CASE WHEN is_from_before THEN joined_on || ' or before' ELSE CAST(joined_on AS VARCHAR) END,
            left_on
        FROM main.enrollment_spans
        WHERE student_id = $student_id
        ORDER BY left_on DESC NULLS FIRST, class_title, class_id
        """,
        student_id=student_id,
    )
    facts = (
        reference, email, registered and f"registered {registered}", gone and f"no longer listed since {gone}",
    )  # fmt: skip
    return [
        heading(name, ", ".join(fact for fact in facts if fact)),
        figures(
            [
                ("completion, %", completion, f"{cell(done)} of {cell(given)} assignments"),
                ("average score", score, ""),
                ("last active", active, "never logged in" if logged_in is False else ""),
                ("learning time, minutes", minutes, ""),
            ]
        ),
        lines(
            line("Completion, %", [(row[0], row[1]) for row in trend]),
            line("Average score", [(row[0], row[2]) for row in trend]),
        ),
        subtitle("Classes"),
        table(("class", "course", "joined", "left"), linked(classes, "class", "class_id"))
        if classes
        else note("In no class."),
        subtitle("What changed, day by day"),
    ]


@_one_reading
def compared(book: Book, before: date, day: date) -> list[str]:
    """The institution on two dates, and what changed between them."""
    days = book.rows(
        "compared_days",
        """
        SELECT
            snapshot_date, students, average_completion_rate, average_score, active_percent, low_completion_students,
            never_logged_in_students, total_time_minutes
        FROM main.progress_daily WHERE snapshot_date IN (CAST($day AS DATE), CAST($before AS DATE))
        """,
        day=day,
        before=before,
    )
    found = {row[0]: row[1:] for row in days}
    names = (
        "students", "average completion, %", "average score", "active within 7 days, %", "students with low completion",
        "students who never logged in", "learning time, minutes",
    )  # fmt: skip
    rows = [
        (name, then, now, None if then is None or now is None else round(now - then, 2))
        for name, then, now in zip(names, found[before], found[day], strict=True)
    ]
    changes = book.rows(
        "compared_changes",
        """
        SELECT
            REPLACE(table_name, '_', ' ') AS what,
            COALESCE(REPLACE(column_name, '_', ' '), 'the whole record') AS detail, change, COUNT(*) AS how_often
        FROM changes_between($before, $day)
        GROUP BY ALL ORDER BY how_often DESC, what, detail, change LIMIT $most
        """,
        day=day,
        before=before,
        most=MOST_CHANGES,
    )
    return [
        table(("the institution", str(before), str(day), "difference"), rows),
        subtitle("What changed in between"),
        table(("records", "field", "change", "how often"), changes) if changes else note("Nothing changed."),
        subtitle("Students whose completion or score differs, the largest fall first"),
    ]


def roster(book: Book, class_id: int, text: str) -> Listing:
    """The students of a class, those with the lowest completion first."""
    return Listing(book, "class_roster", sql("class_roster"), class_id=class_id, text=text.strip())


def timeline(book: Book, student_id: int) -> Listing:
    """What changed for a student after the first landed day, in words, the newest first."""
    return Listing(
        book,
        "student_timeline",
        """
        SELECT snapshot_date AS day, description AS "what changed", COUNT(*) OVER () AS total
        FROM main.student_timeline WHERE student_id = $student_id ORDER BY snapshot_date DESC, what, description
        """,
        student_id=student_id,
    )


def history(book: Book, student_id: int) -> Listing:
    """The versions of a student's summary, the newest first."""
    return Listing(
        book,
        "student_history",
        """
        SELECT
            valid_from AS "from", valid_to AS until, total_assignments AS assignments,
            completed_assignments AS completed,
            CASE WHEN total_assignments > 0 THEN completion_rate END AS "completion, %",
            average_score AS score, total_time_minutes AS minutes, COUNT(*) OVER () AS total
        FROM history.student_summaries WHERE student_id = $student_id ORDER BY valid_from DESC
        """,
        student_id=student_id,
    )


def watch(book: Book, day: date, text: str, *, newly: bool) -> Listing:
    """The students who are newly to watch on a day, or no longer, with the reasons, the most severe first."""
    return Listing(
        book,
        "watch_turns",
        """
        SELECT
            student_id, name AS student, CASE WHEN $newly THEN reason ELSE reason_before END AS why,
            COUNT(*) OVER () AS total
        FROM main.watch_daily
        WHERE snapshot_date = CAST($day AS DATE)
            AND change = CASE WHEN $newly THEN 'newly to watch' ELSE 'no longer to watch' END
            AND ($text = '' OR CONTAINS(LOWER(name), LOWER($text)) OR CONTAINS(LOWER(why), LOWER($text)))
        ORDER BY COALESCE(severity, severity_before) DESC, name, student_id
        """,
        day=day,
        newly=newly,
        text=text.strip(),
    )


def compared_students(book: Book, before: date, day: date, text: str) -> Listing:
    """The students whose completion or score differs between two dates, the largest fall first."""
    return Listing(book, "compared_students", sql("compared_students"), day=day, before=before, text=text.strip())


def listed(listing: Listing, page: int, noun: str) -> list[str]:
    """One page of a list. Where its first column is a student's id, the second one leads to the student's page."""
    rows, first = listing.rows(page), (page - 1) * ROWS + 1
    if not rows:
        return [note(f"No {noun}.")]
    which = note(f"{first:,} to {first + len(rows) - 1:,} of {listing.total:,} {noun}")
    if listing.columns[0] == "student_id" and noun == "students":
        return [which, table(listing.columns[1:], linked(rows, "student", "student_id"))]
    ids = [n for n, name in enumerate(listing.columns) if name.endswith("_id")]
    return [which, table(listing.columns, rows, ids)]


# --- HTML ------------------------------------------------------------------------------------------------------------

# A chart's axis covers at least this many units, so that a change of a tenth does not look dramatic.
LEAST_SPAN = 5.0


class Link(NamedTuple):
    """A cell that leads to another page."""

    text: str
    href: str


def _render(template: str, **values: object) -> str:
    # One line: a notebook would render indented lines as Markdown code.
    return _templates.get_template(template).render(values).replace("\n", "")


def cell(value: object) -> str:
    """A value as text: a dash if unknown, numbers with at most two decimals, ISO dates."""
    if value is None:
        return "\N{EN DASH}"
    if _is_number(value):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")
    return printable(text_of(value))


_templates = environment("pipelines.explore", cell=cell)


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], ids: Sequence[int] = ()) -> str:
    """A table; numbers are right-aligned. `ids` are the indexes of columns without thousands separators."""
    listed = [[str(v) if n in ids and v is not None else v for n, v in enumerate(row)] for row in rows]
    numeric = {
        n for n in range(len(headings)) if {_is_number(row[n]) for row in listed if row[n] is not None} == {True}
    }
    return _render("table.html", headings=headings, rows=listed, numeric=numeric)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def linked(rows: Iterable[Sequence[Any]], page: str, key: str) -> list[list[Any]]:
    """Rows without their first value, an id; their second value becomes a link to the id's page."""
    return [
        [Link(str(text or key_value), f"?{urlencode({'page': page, key: key_value})}"), *rest]
        for key_value, text, *rest in rows
    ]


def figures(listed: Sequence[tuple[str, object, str]]) -> str:
    """Key figures: a name, a value and a note each."""
    return _render("figures.html", figures=listed)


def heading(title: str, below: str) -> str:
    """A title, with a line below it."""
    return _render("words.html", tag="h2", text=title, below=below, kind="heading")


def subtitle(text: str) -> str:
    """The title of a section."""
    return _render("words.html", tag="h3", text=text, below="", kind="subtitle")


def note(text: str) -> str:
    """A remark."""
    return _render("words.html", tag="p", text=text, below="", kind="note")


def verdict(text: str, below: str, good: bool) -> str:
    """The outcome of the newest night: a sentence, and the details below it."""
    return _render("words.html", tag="p", text=text, below=below, kind="verdict" if good else "verdict rb-bad")


def since(now: float | None, then: float | None, day: date | None, unit: str = "points") -> str:
    """A text that compares a figure with an earlier day's."""
    if now is None or then is None or day is None:
        return "nothing earlier to compare with"
    change = now - then
    if abs(change) < 0.005:
        return f"as on {_short(day)}"
    return f"{cell(round(abs(change), 2))} {unit} {'up' if change > 0 else 'down'} since {_short(day)}"


def lines(*drawn: str) -> str:
    """Several line charts side by side, or stacked if there is no room."""
    return f'<div class="rb-lines">{"".join(drawn)}</div>'


def line(title: str, points: Sequence[tuple[date, float | None]]) -> str:
    """A line chart of one value over landed days. Days without a value have no point."""
    known = [(day, value) for day, value in points if value is not None]
    if len({day for day, _ in known}) < 2:
        return _render("line.html", title=title, points=(), labels=(), text="Too few days for a line so far.")
    (first, begin), (last, end) = known[0], known[-1]
    values = [value for _, value in known]
    spare = max(LEAST_SPAN - (max(values) - min(values)), 0) / 2
    across = _scale(first.toordinal(), last.toordinal(), 0, 100)
    up = _scale(min(values) - spare, max(values) + spare, 100, 0)
    labels = (
        (14, 8 + up(begin) * 0.98 + 4, _figure(begin), "end", -6),
        (86, 8 + up(end) * 0.98 + 4, _figure(end), "start", 6),
        (14, 124, _short(first), "middle", 0),
        (86, 124, _short(last), "middle", 0),
    )
    text = f"{title}: {_figure(begin)} on {first}, {_figure(end)} on {last}"
    drawn = [(across(day.toordinal()), up(value)) for day, value in known]
    return _render("line.html", title=title, points=drawn, labels=labels, text=text)


def _short(day: date) -> str:
    return f"{day.day} {day:%b}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if isinstance(value, int) else f"{value:.1f}"


def _scale(low: float, high: float, start: float, stop: float) -> Callable[[float], float]:
    return lambda value: start + (value - low) / (high - low) * (stop - start)


# --- reading the published file ---------------------------------------------------------------------------------------

# Paging, searching and counting are done in SQL, so big tables stay there. What a person types is a parameter, never
# part of the SQL.
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
    "contains": 'CONTAINS(LOWER(CAST("{column}" AS VARCHAR)), LOWER($value))',
    "is": 'CAST("{column}" AS VARCHAR) = $value',
    "is not": 'CAST("{column}" AS VARCHAR) IS DISTINCT FROM $value',
    "is at least": '"{column}" >= TRY_CAST($value AS {type})',
    "is at most": '"{column}" <= TRY_CAST($value AS {type})',
    "is empty": '"{column}" IS NULL',
    "is not empty": '"{column}" IS NOT NULL',
}


@dataclass(frozen=True)
class Relation:
    """A table or view: its name in SQL, what a row is, and its columns: name, type and meaning."""

    title: str
    comment: str
    columns: list[tuple[str, str, str]]


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
        source, values = f"FROM {self.relation.title}", {}
        condition = COMPARISONS[self.comparison]
        if self.filtered is not None and (self.value != "" or "$value" not in condition):
            types = {name: type_ for name, type_, _ in self.relation.columns}
            source += f" WHERE {condition.format(column=self.filtered, type=types[self.filtered])}"
            values = {"value": self.value} if "$value" in condition else {}
        direction = " DESC" if self.descending else ""
        order = f' ORDER BY "{self.sorted_by}"{direction} NULLS LAST' if self.sorted_by else ""
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
    _NAME = "SELECT ANY_VALUE(school_name) FROM main.institution"

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
        return [day for (day,) in self.rows("", "SELECT DISTINCT snapshot_date FROM spans.days ORDER BY 1 DESC")]

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
        return self.rows("", self._NAME)[0][0] or "the institution"

    def relations(self) -> dict[str, Relation]:
        """The readable tables and views by title, the views first."""
        return {row[0]: Relation(*row) for row in self.rows("", sql("relations"))}

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
    _NAME = "SELECT CONCAT(COUNT(*), ' institution', CASE WHEN COUNT(*) <> 1 THEN 's' END) FROM main.institutions"

    def __init__(self) -> None:
        common = for_all().common_path
        super().__init__(common / FLEET)  # the folder of its access log
        self.published = common / FLEET_FILE
        self.within = self.warehouse / FLEET_BUILD


def open_book() -> Book:
    """The file that the app shows: one school's, or that of all institutions if none is named."""
    return FleetBook() if is_of_all() else Book()


def find(book: Book, what: str, text: str) -> dict[str, int]:
    """The classes or students that match a text, as choices: labels and their ids. `what` names a query in `sql/`."""
    return {name: key for key, name in book.rows(what, sql(what), text=text.strip(), most=FOUND)}
