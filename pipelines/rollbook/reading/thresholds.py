"""What the thresholds of who is to watch did in the past: how many were flagged, how many of them rightly, how early.

Each landed day of the history is evaluated again, by the thresholds of the file or by others that somebody tries. A
flag is right if the outcome came: by default completion or score under the bounds at a term's end (`completion_below`,
`low_completion_assignments` and `score_below`, as the file has them, for both sides), or what `own/outcomes.csv` lists.
Only what was flagged before that day counts. A term counts once it has ended; without such a term, the newest landed
day is the end.

No group of one to four students is shown, nor a number that would tell of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

from rollbook.errors import ArgumentError, NothingLandedError
from rollbook.reading.query import open_published
from rollbook.store.database import literal
from rollbook.store.published import PUBLISHED
from rollbook.store.statements import statements
from rollbook.views import catalog, editable
from rollbook.views.editable import Threshold

LEAST_SHOWN = 5
STUDENT_DAYS = 60_000  # evaluated at a time
OUTCOMES = Path("own") / "outcomes.csv"
NOW, TRIED = "now", "tried"
# What is said of each reason, in the order of lists; `any` is all of them together.
REASONS = {**catalog.REASONS, "any": "any reason"}

# Each week with a landed day, and how many students were flagged in it.
_WEEKS = """
SELECT CAST(DATE_TRUNC('week', snapshot_date) AS DATE) AS week, COUNT(DISTINCT f.student_id)
FROM spans.days LEFT JOIN temp.flagged AS f ON f.day = snapshot_date AND f.reason = 'any'
GROUP BY week ORDER BY week
"""

sql = statements("rollbook.reading")


@dataclass(frozen=True)
class Measured:
    """What one reason did, by the thresholds of the file (`now`) or by others (`tried`). None: fewer than five.

    Students count once in each term. `rightly` are those with the outcome, `already` those of them who were under the
    bounds when they were first flagged, and `outcomes` all students with the outcome. The lead is the median of the
    days of term from the first flag to the outcome, the length that of the days from a flag's first to its last.
    `back_percent` is the share of ended flags that came back within seven days; `a_week` how many students had the flag
    in an average week.
    """

    setting: str
    reason: str
    flagged: int | None
    rightly: int | None
    already: int | None
    outcomes: int | None
    precision_percent: float | None
    recall_percent: float | None
    lead_days: float | None
    lasts_days: float | None
    back_percent: float | None
    a_week: float | None


@dataclass(frozen=True)
class Report:
    """The past by all reasons: the landed days, the periods, whether the outcomes are the school's own list, the
    thresholds that are tried, and the rows. `weeks` has the number of students flagged in each week, by setting.
    """

    days: int
    first_day: str
    last_day: str
    periods: tuple[str, ...]
    outcome: str
    tried: Mapping[str, float]
    rows: tuple[Measured, ...]
    weeks: tuple[tuple[str, str, int | None], ...]


def changed(thresholds: Iterable[Threshold], values: Mapping[str, float | str]) -> tuple[Threshold, ...]:
    """The thresholds with some other values. Raises ArgumentError for a name or a value that is none."""
    known = {t.name: t for t in thresholds}
    for name, value in values.items():
        if name not in known:
            raise ArgumentError(f"{name[:40]!r} is not a threshold: choose from {', '.join(known)}")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= known[name].most:  # also refuses nan
            raise ArgumentError(f"{name} is {value!r}: give a number from 0 to {known[name].most:g}")
        known[name] = replace(known[name], value=number)
    return tuple(known.values())


def report(warehouse: Path, values: Mapping[str, float | str] | None = None) -> Report:
    """Measure the thresholds of the published file, and beside them those with other values.

    Raises NothingLandedError before the first night, ArgumentError for values that are none, SettingError for a
    malformed list of outcomes.
    """
    outcomes = _outcomes(warehouse)
    with open_published(warehouse / PUBLISHED) as con:
        con.execute("SET temp_directory = ''")  # what is spilled would be pupils' data, and nobody's to remove
        days = landed_days(con)
        stored = dict(con.execute("SELECT name, value FROM main.thresholds").fetchall())
        now = tuple(replace(t, value=stored.get(t.name, t.value)) for t in editable.DEFAULTS)
        settings = {NOW: now} | ({TRIED: changed(now, values)} if values else {})
        rows, weeks = list[Measured](), list[tuple[str, str, int | None]]()
        for setting, thresholds in settings.items():
            _flag(con, days, thresholds)
            if setting == NOW:
                con.execute(
                    "CREATE TEMP TABLE below AS SELECT DISTINCT day, student_id FROM temp.flagged"
                    " WHERE reason IN ('is_low_completion', 'is_low_score') AND seen_on = day"
                )
                _keep_units(con, outcomes)
            measured = con.execute(sql("measured"), {"reasons": [*REASONS]}).fetchall()
            rows += [_shown(setting, row, has_list=outcomes is not None) for row in measured]
            weeks += [(setting, str(week), hidden(count)) for week, count in con.execute(_WEEKS).fetchall()]
        periods = con.execute("SELECT period FROM temp.units GROUP BY 1 ORDER BY MIN(begins_on)").fetchall()
    tried = {t.name: t.value for t in settings.get(TRIED, ()) if t.name in (values or {})}
    return Report(
        len(days),
        str(days[0]),
        str(days[-1]),
        tuple(name for (name,) in periods),
        _outcome(now, has_list=outcomes is not None),
        tried,
        tuple(rows),
        tuple(weeks),
    )


def _outcome(thresholds: Sequence[Threshold], *, has_list: bool) -> str:
    """The outcome, in words."""
    if has_list:
        return f"listed in {OUTCOMES}"
    of = {t.name: t.value for t in thresholds}
    return (
        f"completion under {of['completion_below']:g} % (of {of['low_completion_assignments']:g} assignments or more)"
        f" or score under {of['score_below']:g} at the end"
    )


def _flag(con: duckdb.DuckDBPyConnection, days: Sequence[date], thresholds: Iterable[Threshold]) -> None:
    """Make the table of who is flagged on each day, and why; some days at a time, so that memory stays small."""
    values = ", ".join(f"({literal(t.name)}, {t.value!r}::DOUBLE)" for t in thresholds)
    watched = catalog.watched(f"(SELECT * FROM (VALUES {values}) AS t (name, value))")
    query = sql("flagged", watched=watched, flags=[*catalog.REASONS])
    ((students,),) = con.execute("SELECT COUNT(DISTINCT student_id) FROM history.students").fetchall()
    at_a_time = max(1, STUDENT_DAYS // max(students, 1))
    con.execute("CREATE OR REPLACE TEMP TABLE flagged (day DATE, student_id BIGINT, reason VARCHAR, seen_on DATE)")
    for some in (days[at : at + at_a_time] for at in range(0, len(days), at_a_time)):
        con.execute(f"INSERT INTO temp.flagged {query}", {"first": some[0], "last": some[-1]})


def _outcomes(warehouse: Path) -> list[tuple[int, str]] | None:
    """The school's own outcomes, a student and a day each; None without the list."""
    path = warehouse / OUTCOMES
    return [(student, str(day)) for student, day in editable.read_outcomes(path)] if path.is_file() else None


def _keep_units(con: duckdb.DuckDBPyConnection, outcomes: list[tuple[int, str]] | None) -> None:
    """Make the table of students and periods that are measured."""
    if outcomes is None:
        con.execute(f"CREATE TEMP TABLE units AS {sql('term_ends')}")
        return
    con.execute("CREATE TEMP TABLE outcomes (student_id BIGINT, on_day DATE)")
    if outcomes:
        con.executemany("INSERT INTO temp.outcomes VALUES (?, ?)", outcomes)
    con.execute(f"CREATE TEMP TABLE units AS {sql('listed_outcomes')}")


def landed_days(con: duckdb.DuckDBPyConnection) -> list[date]:
    """The landed days of an open file, in order. Raises NothingLandedError if there are none."""
    days = [day for (day,) in con.execute("SELECT snapshot_date FROM spans.days ORDER BY 1").fetchall()]
    if not days:
        raise NothingLandedError("No landed day is left to look back at: run `rollbook sync`")
    return days


def hidden(count: int) -> int | None:
    """A number of students, or None if it would tell of one to four."""
    return None if 0 < count < LEAST_SHOWN else count


def _percent(part: int | None, whole: int | None) -> float | None:
    """A share in percent, of groups that may both be shown, and so may the rest."""
    if not whole or part is None or hidden(whole - part) is None:
        return None
    return round(100 * part / whole, 1)


def _shown(setting: str, row: tuple[Any, ...], *, has_list: bool) -> Measured:
    """A row without what would tell of fewer than five students."""
    reason, *numbers = row
    flagged, rightly, already, outcomes, lead, lasts, ended, back, a_week = numbers
    is_shown = hidden(flagged) is not None
    right = hidden(rightly) if is_shown and hidden(flagged - rightly) is not None else None
    return Measured(
        setting,
        str(reason),
        hidden(flagged),
        right,
        hidden(already) if right is not None and not has_list else None,
        hidden(outcomes),
        _percent(right, flagged),
        _percent(right, hidden(outcomes)),
        lead if right else None,
        lasts if is_shown else None,
        _percent(hidden(back), ended) if is_shown else None,
        round(a_week, 1) if is_shown else None,
    )
