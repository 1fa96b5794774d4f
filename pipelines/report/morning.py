"""The morning page's data, queried from one open database through the analysts' views.

`charts` lays it out as charts, `page` renders the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from types import SimpleNamespace
from typing import Any

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

# A row of a query, with its columns as attributes.
Row = SimpleNamespace


@dataclass(frozen=True)
class Morning:
    """All data of the page. The fields that hold rows name the columns of their queries.

    `turned` is how many students are newly and no longer to watch `since` a landed day, and the new ones by reason;
    None on the first night. `by_severity` has, for each group in SEVERITIES with students: its bound, those to watch,
    the new ones. `watched` are classes with students to watch, `ahead` and `behind` classes against the average class
    of their course, in points of completion. `trend` is the institution on each landed day; percentages and scores are
    from 0 to 100, None if unknown. `nights` are synced, unproven, held, failed, missing or discarded. `named` has
    classes with their students to watch, the new ones first, then by severity; empty unless names were requested.
    """

    school: str
    day: date
    students: int
    active_classes: int
    changes: tuple[str, ...]
    to_watch: int
    several_reasons: int
    turned: Row | None
    by_reason: tuple[tuple[str, int], ...]
    by_severity: tuple[tuple[int, int, int], ...]
    watched: tuple[Row, ...]
    watched_classes: int
    ahead: tuple[Row, ...]
    behind: tuple[Row, ...]
    trend: tuple[Row, ...]
    nights: tuple[Row, ...]
    named: tuple[Row, ...] = ()

    def before(self, days: int) -> Row | None:
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
        """
        SELECT
            e.class_id, ANY_VALUE(COALESCE(c.class_title, e.class_title)) AS class_title, COUNT(*) AS students,
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
        f"""
        SELECT
            class_title, student_count AS students, average_completion_rate AS completion, average_score AS score,
            completion_vs_course AS points
        FROM main.class_comparison
        WHERE completion_vs_course IS NOT NULL AND classes_in_course > 1 AND student_count >= {LEAST_STUDENTS}
        ORDER BY completion_vs_course DESC, class_id
        """,
    )
    trend = _all(
        con,
        f"""
        SELECT
            snapshot_date AS day, students, average_completion_rate AS completion, average_score AS score,
            active_percent AS active
        FROM main.progress_daily WHERE snapshot_date > DATE '{day - timedelta(days=DAYS)}' ORDER BY snapshot_date
        """,
    )
    nights = _all(
        con,
        f"""
        SELECT
            snapshot_date AS day, students, classes,
            CASE WHEN outcome = 'synced' AND NOT proven THEN 'unproven' ELSE outcome END AS outcome
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


def _turned(con: duckdb.DuckDBPyConnection, day: date) -> Row | None:
    since = _one(con, f"SELECT MAX(snapshot_date) FROM spans.days WHERE snapshot_date < DATE '{day}'")
    if since is None:
        return None
    newly, _, *by_reason = _counted(con, "change = 'newly to watch'")
    no_longer = _one(con, "SELECT COUNT(*) FROM to_watch WHERE change = 'no longer to watch'")
    return Row(since=since, newly=newly, no_longer=no_longer, by_reason=_reasons(by_reason))


def _named(con: duckdb.DuckDBPyConnection) -> tuple[Row, ...]:
    by_class = groupby(_all(con, sql("named", most=str(NAMED))), key=lambda row: (row.class_id, row.class_title))
    found = [(title, tuple(students)) for (_, title), students in by_class]
    return tuple(Row(class_title=t, new=sum(n.is_new for n in students), students=students) for t, students in found)


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


def _all(con: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    found = con.execute(query)
    columns = [column[0] for column in found.description or ()]
    return [Row(**dict(zip(columns, row, strict=True))) for row in found.fetchall()]


def _one(con: duckdb.DuckDBPyConnection, query: str) -> Any:
    row = con.execute(query).fetchone()
    return row[0] if row else None
