"""The morning page's data, queried from one open database through the analysts' views.

`charts` lays it out as charts, `page` renders the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import duckdb

from pipelines.store.statements import statements

# A month of trend, and lists that fit on a page.
DAYS = 31
CLASSES_TO_WATCH = 10
CLASSES_LISTED = 25
CLASSES_COMPARED = 6
NAMED = 400
# Lower bounds of the severity groups; each group ends where the one before begins.
SEVERITIES = (4, 3, 2, 1)
# With fewer students, a class's average says more about single students than about the class.
LEAST_STUDENTS = 5

REASONS = (
    ("is_falling", "falling fast"),
    ("is_never_logged_in", "never logged in"),
    ("is_inactive", "inactive"),
    ("is_low_completion", "low completion"),
    ("is_low_score", "low score"),
)

sql = statements("pipelines.report")

T = TypeVar("T")


class Watched(NamedTuple):
    """A class: its students, those to watch, and those newly to watch since last night, as counts."""

    class_id: int
    class_title: str
    students: int
    watched: int
    new: int


class Compared(NamedTuple):
    """A class against the average class of its course, in points of completion."""

    class_title: str
    course_name: str
    students: int
    completion: float
    score: float | None
    points: float


class Day(NamedTuple):
    """The institution on one landed day; percentages and scores from 0 to 100, None if unknown."""

    day: date
    students: int
    completion: float | None
    score: float | None
    active: float | None


class Night(NamedTuple):
    """One night: synced, unproven, held, failed, missing or discarded; what happened, in words; and its counts."""

    day: date
    outcome: str
    text: str
    seconds: float | None
    students: int | None = None
    classes: int | None = None


class Turned(NamedTuple):
    """How many students are newly and no longer to watch since a landed day, and the new ones by reason."""

    since: date
    newly: int
    no_longer: int
    by_reason: tuple[tuple[str, int], ...]


class Named(NamedTuple):
    """A student to watch, by name; `is_new` since last night."""

    name: str
    is_new: bool
    reason: str


class NamedClass(NamedTuple):
    """A class's students to watch, by name: new ones first, then by severity."""

    class_title: str
    new: int
    students: tuple[Named, ...]


@dataclass(frozen=True)
class Morning:
    """All data of the page. `turned` is None on the first night; `named` is empty unless names were requested.

    `by_severity` has, for each group in SEVERITIES with students: its bound, the students to watch, the new ones.
    """

    school: str
    day: date
    students: int
    active_classes: int
    changes: tuple[str, ...]
    to_watch: int
    several_reasons: int
    turned: Turned | None
    by_reason: tuple[tuple[str, int], ...]
    by_severity: tuple[tuple[int, int, int], ...]
    watched: tuple[Watched, ...]
    watched_classes: int
    ahead: tuple[Compared, ...]
    behind: tuple[Compared, ...]
    trend: tuple[Day, ...]
    nights: tuple[Night, ...]
    named: tuple[NamedClass, ...] = ()

    def before(self, days: int) -> Day | None:
        """The trend's day `days` days before the newest, give or take a day; None if none of these was landed."""
        target = self.day - timedelta(days=days)
        near = [d for d in self.trend if abs(d.day - target) <= timedelta(days=1) and d.day < self.day]
        return min(near, key=lambda d: abs(d.day - target), default=None)


def load_morning(con: duckdb.DuckDBPyConnection, *, names: bool = False) -> Morning:
    """Query the page's data; students' names only if `names`."""
    # A temporary table, because several queries use it. Names and texts cost most, so only if requested.
    day = _one(con, "SELECT MAX(snapshot_date) FROM spans.days")
    flags = ", ".join(flag for flag, _ in REASONS)
    con.execute(f"""
        CREATE OR REPLACE TEMP TABLE to_watch AS
        SELECT student_id, change, severity, reason_count, {"name, reason," if names else ""} {flags}
        FROM main.watch_daily WHERE snapshot_date = DATE '{day}'
    """)
    to_watch, several, *by_reason = _counted(con, "change IS DISTINCT FROM 'no longer to watch'")
    severities = con.execute(f"""
        SELECT
            LEAST(CAST(FLOOR(severity) AS INTEGER), {SEVERITIES[0]}) AS at_least,
            COUNT(*), COUNT(*) FILTER (change = 'newly to watch')
        FROM to_watch WHERE severity IS NOT NULL
        GROUP BY at_least ORDER BY at_least DESC
    """)
    by_severity = tuple(severities.fetchall())
    watched = _all(
        con,
        Watched,
        """
        SELECT
            e.class_id, ANY_VALUE(COALESCE(c.class_title, e.class_title)), COUNT(*),
            COUNT(w.student_id) AS watched, COUNT(*) FILTER (w.change = 'newly to watch') AS new
        FROM main.student_classes AS e
        LEFT JOIN to_watch AS w ON w.student_id = e.student_id AND w.severity IS NOT NULL
        LEFT JOIN main.classes AS c USING (class_id)
        GROUP BY e.class_id
        HAVING COUNT(w.student_id) > 0
        ORDER BY watched DESC, new DESC, e.class_id
        """,
    )
    compared = _all(
        con,
        Compared,
        f"""
        SELECT
            class_title, COALESCE(course_name, ''), student_count, average_completion_rate, average_score,
            completion_vs_course
        FROM main.class_comparison
        WHERE completion_vs_course IS NOT NULL AND classes_in_course > 1 AND student_count >= {LEAST_STUDENTS}
        ORDER BY completion_vs_course DESC, class_id
        """,
    )
    trend = _all(
        con,
        Day,
        f"""
        SELECT snapshot_date, students, average_completion_rate, average_score, active_percent
        FROM main.progress_daily WHERE snapshot_date > DATE '{day - timedelta(days=DAYS)}' ORDER BY snapshot_date
        """,
    )
    nights = _all(
        con,
        Night,
        f"""
        SELECT
            snapshot_date, CASE WHEN outcome = 'synced' AND NOT proven THEN 'unproven' ELSE outcome END,
            said, seconds, students, classes
        FROM main.sync_log ORDER BY snapshot_date DESC LIMIT {DAYS}
        """,
    )
    return Morning(
        school=_one(con, "SELECT ANY_VALUE(school_name) FROM main.institution") or "",
        day=day,
        students=_one(con, "SELECT COUNT(*) FROM main.students"),
        active_classes=_one(con, "SELECT COUNT(*) FROM main.classes WHERE class_status = 1"),
        changes=tuple(_changes(con, day)),
        to_watch=to_watch,
        several_reasons=several,
        turned=_turned(con, day),
        by_reason=_reasons(by_reason),
        by_severity=by_severity,
        watched=tuple(watched[:CLASSES_LISTED]),
        watched_classes=len(watched),
        ahead=tuple(c for c in compared[:CLASSES_COMPARED] if c.points > 0),
        behind=tuple(c for c in reversed(compared[-CLASSES_COMPARED:]) if c.points < 0),
        trend=tuple(trend),
        nights=tuple(reversed(nights)),
        named=_named(con) if names else (),
    )


def _counted(con: duckdb.DuckDBPyConnection, which: str) -> tuple[int, ...]:
    """Counts of the students that match `which`: all, those with several reasons, and those with each reason."""
    sums = ", ".join(f"COUNT(*) FILTER ({flag})" for flag, _ in REASONS)
    query = f"SELECT COUNT(*), COUNT(*) FILTER (reason_count > 1), {sums} FROM to_watch WHERE {which}"
    return con.execute(query).fetchall()[0]


def _reasons(counts: Iterable[int]) -> tuple[tuple[str, int], ...]:
    return tuple((reason, n) for (_, reason), n in zip(REASONS, counts, strict=True))


def _turned(con: duckdb.DuckDBPyConnection, day: date) -> Turned | None:
    since = _one(con, f"SELECT MAX(snapshot_date) FROM spans.days WHERE snapshot_date < DATE '{day}'")
    if since is None:
        return None
    newly, _, *by_reason = _counted(con, "change = 'newly to watch'")
    no_longer = _one(con, "SELECT COUNT(*) FROM to_watch WHERE change = 'no longer to watch'")
    return Turned(since, newly, no_longer, _reasons(by_reason))


def _named(con: duckdb.DuckDBPyConnection) -> tuple[NamedClass, ...]:
    rows = con.execute(sql("named", most=str(NAMED))).fetchall()
    by_class = groupby(rows, key=lambda row: (row[0], row[1]))
    found = [(title, tuple(Named(*row[2:]) for row in of_class)) for (_, title), of_class in by_class]
    return tuple(NamedClass(title, sum(n.is_new for n in students), students) for title, students in found)


def _changes(con: duckdb.DuckDBPyConnection, day: date) -> list[str]:
    """What the newest day changed, as short sentences; none on the very first day."""
    if _one(con, "SELECT COUNT(*) FROM spans.days") < 2:
        return []
    counted = con.execute(sql("changes"), {"day": day}).fetchone()
    phrases = (
        ("student is new or back", "students are new or back"),
        ("student is no longer listed", "students are no longer listed"),
        ("student joined a class", "students joined a class"),
        ("student left a class", "students left a class"),
        ("student completed assignments", "students completed assignments"),
        ("student's score rose", "students' scores rose"),
        ("student's score fell", "students' scores fell"),
        ("class opened", "classes opened"),
        ("class closed", "classes closed"),
        ("class changed its teacher", "classes changed their teacher"),
    )
    return [f"{n:,} {one if n == 1 else many}" for n, (one, many) in zip(counted or (), phrases, strict=True) if n]


def _all(con: duckdb.DuckDBPyConnection, of: Callable[..., T], query: str) -> list[T]:
    return [of(*row) for row in con.execute(query).fetchall()]


def _one(con: duckdb.DuckDBPyConnection, query: str) -> Any:
    row = con.execute(query).fetchone()
    return row[0] if row else None
