"""The two weeks before and after a student on the list was spoken to, beside students like them who were not.

A contact counts by the last landed day up to it, if the student was on the list then, nobody had spoken to the student
in the two weeks before, and landed days two weeks before and after are there. Students like them were on the list on
that day with the same reason and severity, and nobody spoke to them from two weeks before to two weeks after. Of the
work that was given in each two weeks, the share that was handed in is shown; and who is still on the list at the end.

It compares, and says nothing of causes: who is spoken to is chosen. No group of one to four students is shown, nor a
number that would tell of one: where a single reason would be hidden, the smallest other one is, too; and how many are
compared in all, where a severity is hidden.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import duckdb

from rollbook.reading.charts import SEVERITIES
from rollbook.reading.query import open_published
from rollbook.reading.thresholds import REASONS, STUDENT_DAYS, hidden, landed_days
from rollbook.store.database import literal
from rollbook.store.published import PUBLISHED
from rollbook.store.statements import statements
from rollbook.views import catalog, contacted
from rollbook.views.contacted import Contacted

FORTNIGHT = timedelta(days=14)

sql = statements("rollbook.reading")


@dataclass(frozen=True)
class Group:
    """Some students of a reason and severity: the work handed in, of what was given in the two weeks before and after,
    and the share still on the list two weeks later, in percent. None: fewer than five, or it would tell of one.
    """

    students: int | None
    before_percent: float | None
    after_percent: float | None
    still_percent: float | None


_HIDDEN = Group(None, None, None, None)


@dataclass(frozen=True)
class Compared:
    """A reason with a severity: who was spoken to, and the others."""

    reason: str
    severity: str
    spoken: Group
    others: Group


@dataclass(frozen=True)
class Contacts:
    """All contacts: how many there are, how many of them are compared, and the reasons that had any. None: one to four
    contacts; or of those compared, the others of a hidden group.
    """

    contacts: int | None
    compared: int | None
    rows: tuple[Compared, ...]


def report(warehouse: Path) -> Contacts:
    """Compare, by `contacted.csv` as it is now and the published file.

    Raises NothingLandedError before the first night, SettingError for a malformed contacted.csv.
    """
    with open_published(warehouse / PUBLISHED) as con:
        con.execute("SET temp_directory = ''")  # what is spilled would be pupils' data, and nobody's to remove
        days = landed_days(con)
        noted = contacted.contacts(warehouse, con)
        _keep(con, days, noted)
        rows = con.execute(sql("contacted", reasons=[*REASONS], severities=SEVERITIES)).fetchall()
        ((compared,),) = con.execute("SELECT COUNT(*) FROM temp.pairs WHERE is_spoken").fetchall()
    figures = {(reason, severity, is_spoken): numbers for reason, severity, is_spoken, *numbers in rows}
    groups = {key: _group(numbers, figures.get(("any", *key[1:]))) for key, numbers in figures.items()}
    for each in {key[1:] for key in groups}:
        _hide_another(groups, *each)
    is_told = None not in (
        groups["any", words, True].students for _, words in SEVERITIES if ("any", words, True) in groups
    )
    nobody = Group(0, None, None, None)
    shown = [
        Compared(reason, severity, groups[reason, severity, True], groups.get((reason, severity, False), nobody))
        for reason in REASONS
        for _, severity in SEVERITIES
        if (reason, severity, True) in groups
    ]
    return Contacts(hidden(len(noted)), compared if is_told else None, tuple(shown))


def _keep(con: duckdb.DuckDBPyConnection, days: Sequence[date], noted: Sequence[Contacted]) -> None:
    """Make the tables `contacts`, `windows` (a landed day with those two weeks before and after) and `watching`."""
    con.execute("CREATE TEMP TABLE contacts (student_id BIGINT, on_day DATE, day DATE)")
    con.execute("CREATE TEMP TABLE windows (day DATE, before DATE, after DATE)")
    of = {each: days[at - 1] for each in noted if (at := bisect_right(days, each.on))}
    told = [(each.student_id, each.on, of.get(each)) for each in noted]
    _insert(con, "contacts", told)
    windows = []
    for day in sorted(set(of.values())):
        before, after = bisect_right(days, day - FORTNIGHT), bisect_left(days, day + FORTNIGHT)
        if before and after < len(days):
            windows.append((day, days[before - 1], days[after]))
    _insert(con, "windows", windows)
    columns = ", ".join(("snapshot_date", "student_id", "severity", *catalog.REASONS))
    on_list = f"SELECT {columns} FROM main.watch_daily WHERE severity IS NOT NULL AND snapshot_date IN"
    con.execute(f"CREATE TEMP TABLE watching AS {on_list} (NULL)")
    asked = sorted({day for on, _, after in windows for day in (on, after)})
    ((students,),) = con.execute("SELECT COUNT(DISTINCT student_id) FROM history.students").fetchall()
    at_a_time = max(1, STUDENT_DAYS // max(students, 1))
    for some in (asked[at : at + at_a_time] for at in range(0, len(asked), at_a_time)):
        listed = ", ".join(map(literal, map(str, some)))
        # DuckDB looks at no other days where it is told the first and the last.
        con.execute(
            f"INSERT INTO temp.watching {on_list} ({listed})"
            f" AND snapshot_date BETWEEN DATE '{some[0]}' AND DATE '{some[-1]}'"
        )
    con.execute(f"CREATE TEMP TABLE pairs AS {sql('contact_pairs', fortnight=FORTNIGHT.days)}")


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        con.executemany(f"INSERT INTO temp.{table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def _hide_another(groups: dict[tuple[str, str, bool], Group], severity: str, is_spoken: bool) -> None:
    """Where one reason alone is hidden, hide the smallest other one: the rest of `any` reason would tell of it."""
    alike = [key for reason in REASONS if reason != "any" and (key := (reason, severity, is_spoken)) in groups]
    shown = {key: students for key in alike if (students := groups[key].students) is not None}
    if shown and len(alike) - len(shown) == 1:
        groups[min(shown, key=shown.__getitem__)] = _HIDDEN


def _group(numbers: Sequence[int], every: Sequence[int] | None) -> Group:
    """What is shown of a group, which must not tell of the rest of those with `any` reason."""
    students, pairs, done_before, given_before, done_after, given_after, still = numbers
    rest = every[0] - students if every else 0
    if hidden(students) is None or hidden(rest) is None:
        return _HIDDEN
    is_told = None not in (hidden(still), hidden(pairs - still))
    return Group(
        students,
        _percent(done_before, given_before),
        _percent(done_after, given_after),
        _percent(still, pairs) if is_told else None,
    )


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None
