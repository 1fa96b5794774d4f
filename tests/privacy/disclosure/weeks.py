"""Schools whose weeks are written down by hand, published as Rollbook would, and what an adversary makes of a release."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb

from pipelines.privacy.disclosure import aggregates
from pipelines.privacy.disclosure.aggregates import Result
from pipelines.store import schema
from pipelines.views import catalog, thresholds
from tests.privacy.disclosure.adversary import Puzzle

MONDAY = date(2026, 9, 7)
SCHOOL = 41


@dataclass(frozen=True)
class Pupil:
    """One student in one week. `classes` are ids; class 712 is of course 7."""

    classes: tuple[int, ...] = ()
    completion: float | None = 50.0
    score: float | None = None
    active: bool = True


# The students of a week, by id.
Week = Mapping[int, Pupil]


def sunday(week: int) -> date:
    """The last day of a week, counted from 0."""
    return MONDAY + timedelta(days=7 * week + 6)


@dataclass
class School:
    """A warehouse with a published file, which `publish` makes of weeks."""

    root: Path
    titles: Mapping[int, str] = field(default_factory=dict)
    weeks: list[Week] = field(default_factory=list)

    @property
    def published(self) -> Path:
        return self.root / "rollbook.duckdb"

    @property
    def out(self) -> Path:
        return self.root / "aggregates"

    def publish(self, *weeks: Week) -> School:
        """Publish these weeks, one landed day each, in place of what was there."""
        self.weeks = list(weeks)
        self.root.mkdir(exist_ok=True)
        self.published.unlink(missing_ok=True)
        with duckdb.connect(self.published) as con:
            con.execute("BEGIN")
            schema.ensure(con)
            thresholds.fill(con, thresholds.DEFAULTS)
            catalog.create_macros(con, "by hand")
            con.execute("INSERT INTO spans.version (id) VALUES ('by hand')")
            con.execute(f"INSERT INTO main.institution (school_id, school_name) VALUES ({SCHOOL}, 'By Hand')")
            for number, week in enumerate(weeks):
                until = sunday(number + 1) if number + 1 < len(weeks) else None
                con.execute("INSERT INTO spans.days (snapshot_date) VALUES (?)", [sunday(number)])
                self._fill(con, week, sunday(number), until)
            con.execute("COMMIT")
        return self

    def _fill(self, con: duckdb.DuckDBPyConnection, week: Week, day: date, until: date | None) -> None:
        for student, pupil in week.items():
            last = day if pupil.active else day - timedelta(days=10)
            _put(con, "students", day, until, student_id=student, name=f"Pupil {student}", registration_date=MONDAY)
            _put(
                con, "student_summaries", day, until,
                student_id=student, total_assignments=0 if pupil.completion is None else 10,
                completion_rate=pupil.completion, average_score=pupil.score, last_activity_date=last,
            )  # fmt: skip
            for number in pupil.classes:
                _put(con, "student_classes", day, until, student_id=student, class_id=number)
        for number in {number for pupil in week.values() for number in pupil.classes}:
            title = self.titles.get(number, f"Class {number}")
            course = number // 100
            _put(
                con, "classes", day, until,
                class_id=number, class_title=title, class_status=1, course_id=course, course_name=f"Course {course}",
            )  # fmt: skip

    def release(self, *, k: int = 10, weeks: int | None = None, out: Path | None = None) -> Result:
        """Release, on the Monday after the last week, or after the first so many."""
        today = sunday(len(self.weeks) if weeks is None else weeks) - timedelta(days=6)
        return aggregates.release(self.root, self.published, out or self.out, k=k, today=today)


def _put(con: duckdb.DuckDBPyConnection, table: str, day: date, until: date | None, **values: Any) -> None:
    columns = {**values, "valid_from": day, "valid_to": until}
    marks = ", ".join("?" * len(columns))
    con.execute(f"INSERT INTO history.{table} ({', '.join(columns)}) VALUES ({marks})", list(columns.values()))


def members(week: Week, level: str, number: int | None, measure: str) -> frozenset[int]:
    """Who is in a group and has what a measure is of."""
    return frozenset(
        student
        for student, pupil in week.items()
        if (measure not in ("completion", "score") or getattr(pupil, measure) is not None)
        and (level == "school" or any(number == (c if level == "class" else c // 100) for c in pupil.classes))
    )


def puzzle(
    school: School, rows: Iterable[Mapping[str, Any]], measure: str, *, exact: bool, k: int | None = None
) -> Puzzle:
    """What an adversary knows who takes values to be the same in all weeks: sums, as wide as rounding leaves them.

    With `k`, the adversary also knows which counts are shown at all, which may tell more than their rounding hides.
    """
    known = Puzzle(sorted({s for week in school.weeks for s in week}), whole=measure == "active")
    counted: set[frozenset[int]] = set()
    for row in rows:
        if row["measure"] != measure or row["suppressed"] is not None:
            continue
        since = (date.fromisoformat(str(row["members_since"])) - MONDAY).days // 7
        those = members(school.weeks[since], row["level"], row["id"], measure)
        if measure == "active":
            off = 0 if exact else 2
            known.learn(those, row["count"] - off, row["count"] + off)
            counted.add(those)
        else:
            average, around = row["average"] / 100, 1e-9 if exact else 0.005
            known.learn(those, len(those) * (average - around), len(those) * (average + around))
    if k is not None:
        for those in counted | {larger - smaller for larger in counted for smaller in counted if smaller < larger}:
            known.learn(those, k, len(those) - k)
    return known


def exactly(total: float, size: int, *, counted: bool) -> dict[str, Any]:
    """What a row says if nothing is rounded."""
    return {"students": size, "count": round(total)} if counted else {"students": size, "average": 100 * total / size}


def random_weeks(rng: random.Random, size: int, weeks: int) -> list[Week]:
    """A school whose students keep their values, and move between classes, come and leave."""
    courses = range(1, rng.randint(2, 4))
    often = rng.choice((0.2, 0.5, 0.8))

    def pupil() -> Pupil:
        taken = [100 * course + rng.randint(1, 2) for course in courses if rng.random() < 0.8]
        completion = None if rng.random() < 0.1 else rng.choice((0.0, 100.0, *(100 * rng.random() for _ in range(4))))
        return Pupil(tuple(taken), completion, None, rng.random() < often)

    present = {student: pupil() for student in range(1, size + 1)}
    found: list[Week] = []
    for _ in range(weeks):
        found.append(dict(present))
        for student in rng.sample(sorted(present), rng.choice((0, 1, 1, 2, 5))):
            if rng.random() < 0.5:
                del present[student]
            else:
                present[student] = replace(present[student], classes=pupil().classes)
        for _ in range(rng.choice((0, 0, 1, 4))):
            present[size + 1 + sum(map(len, found)) + len(present)] = pupil()
    return found


def shown(rows: Sequence[Mapping[str, Any]], measure: str) -> list[tuple[str, int | None]]:
    """The groups of which a measure is shown."""
    return [(row["level"], row["id"]) for row in rows if row["measure"] == measure and row["suppressed"] is None]
