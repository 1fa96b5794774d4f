"""The morning page's data, queried from one open database through the analysts' views.

`charts` draws it and `page` puts it into words.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, NamedTuple

import duckdb

from pipelines.store.statements import statements

# A month of trend, and lists that fit on a page.
DAYS = 31
CLASSES_TO_WATCH = 10
CLASSES_LISTED = 25
CLASSES_COMPARED = 6
NAMED = 400
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


class Watched(NamedTuple):
    """A class, the number of its students, and how many are to be watched for one reason or for several."""

    class_id: int
    class_title: str
    students: int
    one: int
    several: int


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
    """One night: synced, unproven, held, failed, missing or discarded, with a sentence on what happened."""

    day: date
    outcome: str
    text: str
    seconds: float | None


class Named(NamedTuple):
    """A student to watch, by name, with the titles of their classes."""

    name: str
    classes: str
    reason: str


@dataclass(frozen=True)
class Morning:
    """All data of the page. `named` is empty unless names were requested."""

    school: str
    day: date
    students: int
    active_classes: int
    changes: tuple[str, ...]
    to_watch: int
    several_reasons: int
    by_reason: tuple[tuple[str, int], ...]
    watched: tuple[Watched, ...]
    watched_classes: int
    ahead: tuple[Compared, ...]
    behind: tuple[Compared, ...]
    trend: tuple[Day, ...]
    nights: tuple[Night, ...]
    named: tuple[Named, ...] = ()

    def before(self, days: int) -> Day | None:
        """The day of the trend about `days` days before the newest; None if none within a day of that was landed."""
        target = self.day - timedelta(days=days)
        near = [d for d in self.trend if abs(d.day - target) <= timedelta(days=1) and d.day < self.day]
        return min(near, key=lambda d: abs(d.day - target), default=None)


def load_morning(con: duckdb.DuckDBPyConnection, *, names: bool = False) -> Morning:
    """Query all of it; students' names only if `names`."""
    # Queried once and used several times. Names and texts, which cost most, are left out unless requested.
    flags = ", ".join(flag for flag, _ in REASONS) + (", name, class_titles, reason" if names else "")
    watch = f"SELECT student_id, reason_count, {flags} FROM main.students_to_watch"
    con.execute(f"CREATE OR REPLACE TEMP TABLE to_watch AS {watch}")
    day = _one(con, "SELECT MAX(snapshot_date) FROM spans.days")
    sums = ", ".join(f"COUNT(*) FILTER ({flag})" for flag, _ in REASONS)
    counted = con.execute(f"SELECT COUNT(*), COUNT(*) FILTER (reason_count > 1), {sums} FROM to_watch").fetchone()
    to_watch, several, *by_reason = counted or (0, 0, *(0 for _ in REASONS))
    watched = _watched(con)
    compared = _compared(con)
    return Morning(
        school=_one(con, "SELECT ANY_VALUE(school_name) FROM main.institution") or "",
        day=day,
        students=_one(con, "SELECT COUNT(*) FROM main.students"),
        active_classes=_one(con, "SELECT COUNT(*) FROM main.classes WHERE class_status = 1"),
        changes=tuple(_changes(con, day)),
        to_watch=to_watch,
        several_reasons=several,
        by_reason=tuple((reason, n) for (_, reason), n in zip(REASONS, by_reason, strict=True)),
        watched=tuple(watched[:CLASSES_LISTED]),
        watched_classes=len(watched),
        ahead=tuple(c for c in compared[:CLASSES_COMPARED] if c.points > 0),
        behind=tuple(c for c in reversed(compared[-CLASSES_COMPARED:]) if c.points < 0),
        trend=_trend(con, day),
        nights=_nights(con),
        named=_named(con) if names else (),
    )


def _watched(con: duckdb.DuckDBPyConnection) -> list[Watched]:
    rows = con.execute(sql("watched")).fetchall()
    return [Watched(*row) for row in rows]


def _compared(con: duckdb.DuckDBPyConnection) -> list[Compared]:
    rows = con.execute(sql("compared", least=str(LEAST_STUDENTS))).fetchall()
    return [Compared(*row) for row in rows]


def _trend(con: duckdb.DuckDBPyConnection, day: date) -> tuple[Day, ...]:
    rows = con.execute(sql("trend"), {"first": day - timedelta(days=DAYS)}).fetchall()
    return tuple(Day(*row) for row in rows)


def _nights(con: duckdb.DuckDBPyConnection) -> tuple[Night, ...]:
    rows = con.execute(sql("nights", most=str(DAYS))).fetchall()
    return tuple(Night(*row) for row in reversed(rows))


def _named(con: duckdb.DuckDBPyConnection) -> tuple[Named, ...]:
    rows = con.execute(sql("named", most=str(NAMED))).fetchall()
    return tuple(Named(*row) for row in rows)


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


def _one(con: duckdb.DuckDBPyConnection, query: str) -> Any:
    row = con.execute(query).fetchone()
    return row[0] if row else None
