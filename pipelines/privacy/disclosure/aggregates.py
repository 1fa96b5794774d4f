"""Aggregates with disclosure control: counts, rates and averages by school, course and class, week by week.

A week is released once, when it is over, from the state of its last landed day. `cohorts` decides whose values count,
`suppression` which cells are suppressed; shown values are rounded here. The published file is only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from pipelines import files
from pipelines.errors import DamagedError, NothingLandedError
from pipelines.privacy.disclosure import cohorts, handout
from pipelines.privacy.disclosure.cohorts import LEVELS, Cohort, Group, Places
from pipelines.privacy.disclosure.releases import COLUMNS, Release, Releases, Row, week_name
from pipelines.privacy.disclosure.suppression import protected
from pipelines.store.database import connect
from pipelines.store.statements import statements
from pipelines.views.catalog import PARTS

_statement = statements("pipelines.privacy")

# Counts are rounded to a multiple of this.
BASE = 5
WEEK = timedelta(days=7)
# Called with what is worked on, the steps done, and the number of steps.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Measure:
    """One figure of a group: the number of students for whom it is true (`counted`), or an average from 0 to 100.

    `column` holds each student's value; its `family` is the students who have one.
    """

    name: str
    family: str
    column: int
    counted: bool


# The columns of known_students.sql, then whether the student is to watch.
_ID, _LISTED, _COMPLETION, _SCORE, _ACTIVE, _LAST_LISTED, _WATCHED = range(7)
MEASURES = (
    Measure("completion", "completion", _COMPLETION, counted=False),
    Measure("score", "score", _SCORE, counted=False),
    Measure("active", "listed", _ACTIVE, counted=True),
    Measure("to_watch", "listed", _WATCHED, counted=True),
)
FAMILIES = {"completion": _COMPLETION, "score": _SCORE, "listed": _LISTED}


@dataclass(frozen=True)
class Result:
    """What one call did.

    `released` are the new weeks, `changed` the names of earlier weeks whose records have changed since, `altered` the
    CSV files that differ from their release; `kept` counts the earlier weeks.
    """

    released: tuple[Release, ...]
    changed: tuple[str, ...]
    altered: tuple[str, ...]
    kept: int


class State:
    """One week's last landed day: its groups, with names and students, and the last known values of each student.

    Of the students who have left, only those in `cohorts` have a value for to_watch, as of their last day.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, day: date, cohorts: Iterable[Cohort]) -> None:
        counted = {student for cohort in cohorts for student in cohort.students}
        known = _rows(con, "known_students", day)
        days = {row[_LAST_LISTED] for row in known if row[_LISTED] or row[_ID] in counted}
        watched = {last: {s for (s,) in _rows(con, "watched_students", last)} for last in days}
        self.students = {row[_ID]: (*row, row[_ID] in watched.get(row[_LAST_LISTED], ())) for row in known}
        self.names: dict[Group, str | None] = {}
        members: dict[Group, set[int]] = {}
        for level, number, name, student in _rows(con, "group_members", day):
            if student in self.students and self.students[student][_LISTED]:
                self.names[Group(level, number)] = name
                members.setdefault(Group(level, number), set()).add(student)
        self.members = {group: frozenset(students) for group, students in members.items()}

    def present(self, family: str) -> dict[Group, frozenset[int]]:
        """The groups' students who have a value in the family."""
        column = FAMILIES[family]
        having = {s for s, row in self.students.items() if row[column] is not None}
        return {group: students & having for group, students in self.members.items()}

    def values(self, measure: Measure, ids: Sequence[int]) -> list[float | None]:
        """These students' values, scaled to 0 to 1; None if unknown."""
        scale = 1 if measure.counted else 100
        rows = (self.students.get(student) for student in ids)
        return [
            None if row is None or row[measure.column] is None else float(row[measure.column]) / scale for row in rows
        ]


def _rows(con: duckdb.DuckDBPyConnection, name: str, day: date | None = None) -> list[tuple[Any, ...]]:
    found = con.execute(_statement(name, **PARTS), {} if day is None else {"day": day}).fetchall()
    return [tuple(row) for row in found]


def release(
    root: Path,
    published: Path,
    out: Path,
    *,
    k: int,
    today: date,
    mode: int = files.PRIVATE_FILE,
    progress: Progress = lambda *_: None,
) -> Result:
    """Release every week that is over and was not released yet, and write the files that `out` lacks.

    Raises NothingLandedError before the first publish, DamagedError when the record of a release is lost or cannot be
    read, and BusyError while another release runs.
    """
    if not published.exists():
        raise NothingLandedError(f"{published} does not exist yet: run `rollbook sync` first")
    releases = Releases(root)
    with releases.writing(), files.aside(root / "build") as scratch:
        before = releases.all()
        with connect(published, scratch=scratch, read_only=True) as con:
            landed = {week: day for week, day in _rows(con, "landed_weeks") if week + WEEK <= today}
            due = sorted(set(landed) - {r.week_begins for r in before})
            _check_none_lost(out, due)
            changed = tuple(r.name for r in before if _has_changed(con, r, landed.get(r.week_begins)))
            every = list(before)
            for week in due:
                every.append(_make(con, week, landed[week], k, every, progress))
                releases.add(every[-1])
        altered = handout.write(out, every, k, mode)
    return Result(tuple(every[len(before) :]), changed, altered, len(before))


def _check_none_lost(out: Path, due: Iterable[date]) -> None:
    """Raise DamagedError if `out` holds a week whose release is not on record."""
    if lost := [week_name(week) for week in due if handout.holds(out, week_name(week))]:
        raise DamagedError(
            f"{out} holds {lost[0]}, but this warehouse has no record of having released it. Put private/aggregates/"
            " back from a backup of the warehouse, or write elsewhere with --out if the folder is another warehouse's"
        )


def _has_changed(con: duckdb.DuckDBPyConnection, released: Release, day: date | None) -> bool:
    return day is None or _digest(con, day) != released.digest


def _digest(con: duckdb.DuckDBPyConnection, day: date) -> str:
    return str(_rows(con, "week_digest", day)[0][0])


def _make(
    con: duckdb.DuckDBPyConnection, week: date, day: date, k: int, before: Sequence[Release], progress: Progress
) -> Release:
    """Compute a week: its rows, and the cohorts that begin in it."""
    steps = iter(range(1 + len(FAMILIES) + len(MEASURES)))

    def step() -> None:
        progress(f"figures of {week_name(week)}", next(steps), len(FAMILIES) + len(MEASURES))

    step()
    past = [cohort for release in before for cohort in release.cohorts]
    state = State(con, day, past)
    rows: list[Row] = []
    new: list[Cohort] = []
    chosen: dict[str, dict[Group, Cohort]] = {}
    for family in FAMILIES:
        own = [cohort for cohort in past if cohort.family == family]
        chosen[family], begun = cohorts.choose(family, week, k, own, state.present(family))
        new += begun
        step()
    for measure in MEASURES:
        rows += _rows_of(
            measure, state, week, k, chosen[measure.family], _shown(measure, [r for r in before if r.k >= k], past)
        )
        step()
    rows.sort(key=lambda r: (LEVELS.index(r["level"]), r["id"] or 0, [m.name for m in MEASURES].index(r["measure"])))
    return Release(week, k, _digest(con, day), tuple(rows), tuple(new))


def _shown(measure: Measure, before: Iterable[Release], past: Iterable[Cohort]) -> set[frozenset[int]]:
    """The sets of students for which a measure was shown in earlier weeks."""
    known = {(c.family, c.group.level, c.group.id, c.since.isoformat()): c.students for c in past}
    return {
        known[measure.family, row["level"], row["id"], row["members_since"]]
        for release in before
        for row in release.rows
        if row["measure"] == measure.name and row["suppressed"] is None
    }


def _rows_of(
    measure: Measure,
    state: State,
    week: date,
    k: int,
    chosen: Mapping[Group, Cohort],
    before: Iterable[frozenset[int]],
) -> list[Row]:
    """One measure's row for every group, with a value only where it discloses nothing."""
    present = state.present(measure.family)
    groups = sorted(present, key=lambda g: (g.rank, g.id or 0))
    # For a group with a cohort, the cohort's sum would be shown; for any other, the present students' must not follow.
    students = {g: chosen[g].students if g in chosen else present[g] for g in groups}
    earlier = set(before) - {chosen[g].students for g in groups if g in chosen}
    places = Places(s for group in (*students.values(), *earlier) for s in group)
    values = state.values(measure, places.ids)
    unknown = {s for s, value in zip(places.ids, values, strict=True) if value is None}
    cells = [places.cell(students[g], g.rank) for g in groups]
    numbers = np.array([0.5 if value is None else value for value in values])
    able = [n for n, g in enumerate(groups) if g in chosen and unknown.isdisjoint(students[g])]
    out = [places.cell(group, 0) for group in sorted(earlier, key=sorted) if unknown.isdisjoint(group)]
    shown = protected(able, cells, numbers, k=k, counted=measure.counted, before=out)
    rows: list[Row] = []
    for n, group in enumerate(groups):
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        small = len(present[group]) < k
        row |= {"week_begins": week.isoformat(), "level": group.level, "id": group.id, "measure": measure.name}
        row["name"] = None if len(state.members[group]) < k else state.names[group]
        if n in shown:
            total = float(numbers[cells[n].students].sum())
            row |= _rounded(total, cells[n].size, counted=measure.counted)
            row["members_since"] = chosen[group].since.isoformat()
        else:
            row["suppressed"] = f"fewer than {k} students" if small else "protects others"
        rows.append(row)
    return rows


def _rounded(total: float, size: int, *, counted: bool) -> dict[str, int]:
    """The values shown for a cell: each is rounded, or computed from rounded values."""
    students = BASE * round(size / BASE)
    if not counted:
        return {"students": students, "average": int(100 * total / size + 0.5)}
    count = BASE * round(total / BASE)
    return {"students": students, "count": count, "percent": int(100 * count / students + 0.5)}
