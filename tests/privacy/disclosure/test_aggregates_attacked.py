"""Releases of several weeks, attacked with what was released and with who was in which group."""

from __future__ import annotations

import csv
import random
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from pipelines.privacy.disclosure import aggregates, cohorts, handout
from pipelines.privacy.disclosure.cohorts import Cohort
from tests.privacy.disclosure.weeks import Pupil, School, exactly, members, puzzle, random_weeks, shown
from tests.support.tiers import daily

K = 10
# The least that must stay open of a student's value, in points of 100.
OPEN = 5.0


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is rounded: the rules must hold without."""
    monkeypatch.setattr(aggregates, "_rounded", exactly)
    monkeypatch.setattr(handout, "write", lambda *_: ())


def class_of(size: int, first: int = 1) -> dict[int, Pupil]:
    """A class of so many, with completions from 20 to 80, half of them active."""
    return {first + n: Pupil((101,), 20.0 + 60 * n / size, None, n % 2 == 0) for n in range(size)}


def rows_of(school: School, k: int = K) -> list[Any]:
    return [row for release in school.release(k=k).released for row in release.rows]


def narrowest(school: School, rows: list[Any], measure: str, *, in_whole_numbers: bool = True) -> float:
    """The least that stays open of any student's value, in points, to who knows the exact sums."""
    known = puzzle(school, rows, measure, exact=True)
    known.whole = known.whole and in_whole_numbers
    return min(100 * (most - least) for s in known.students for least, most in [known.range_of([s])])


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("size", [K - 1, K, K + 1])
def test_a_class_of_about_k_students_of_a_larger_school(tmp_path: Path, size: int) -> None:
    others = {100 + n: Pupil((202,), 30.0 + n) for n in range(30)}
    school = School(tmp_path / "w").publish(class_of(size) | others)
    rows = rows_of(school)
    assert (("class", 101) in shown(rows, "completion")) == (size >= K)
    assert narrowest(school, rows, "completion") > OPEN
    if size < K:
        least, most = puzzle(school, rows, "completion", exact=True).range_of(
            members(school.weeks[0], "class", 101, "")
        )
        assert most - least > 1


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("move", ["leaves", "comes", "changes class"])
def test_one_student_who_moves_is_not_given_away(tmp_path: Path, move: str) -> None:
    first = {**class_of(25), **{s: replace(p, classes=(102,)) for s, p in class_of(25, first=40).items()}}
    second = dict(first)
    if move == "leaves":
        del second[7]
    elif move == "comes":
        second[99] = Pupil((101,), 71.0)
    else:
        second[7] = replace(second[7], classes=(102,))
    school = School(tmp_path / "w").publish(first, second)
    rows = rows_of(school)
    assert shown(rows, "completion").count(("class", 101)) == 2
    assert narrowest(school, rows, "completion") > OPEN
    assert narrowest(school, rows, "active") == 100


@pytest.mark.usefixtures("exact")
def test_without_cohorts_the_attack_finds_the_one_who_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_the_day(family: str, week: date, k: int, past: Any, present: Any) -> Any:
        found = {g: Cohort(family, g, week, k, those) for g, those in present.items() if len(those) >= k}
        return found, list(found.values())

    monkeypatch.setattr(cohorts, "choose", of_the_day)
    first = class_of(25)
    school = School(tmp_path / "w").publish(first, {s: p for s, p in first.items() if s != 7})
    assert narrowest(school, rows_of(school), "completion") < 0.01


@pytest.mark.usefixtures("exact")
def test_a_class_begins_anew_once_k_students_are_others(tmp_path: Path) -> None:
    first = class_of(40)
    weeks = [{s: p for s, p in first.items() if s > gone} for gone in (0, K - 1, K)]
    school = School(tmp_path / "w").publish(*weeks)
    rows = rows_of(school)
    since = [r["members_since"] for r in rows if r["level"] == "class" and r["measure"] == "completion"]
    assert since == ["2026-09-07", "2026-09-07", "2026-09-21"]
    assert narrowest(school, rows, "completion") > OPEN


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("active", [0, 1, K - 1, K, 30 - K, 29, 30])
def test_classes_in_which_all_or_none_or_nearly_so_are_active(tmp_path: Path, active: int) -> None:
    pupils = {n: Pupil((101,), 100.0 if n < active else 0.0, None, n < active) for n in range(30)}
    school = School(tmp_path / "w").publish(pupils)
    rows = rows_of(school)
    assert bool(shown(rows, "active")) == (K <= active <= 30 - K)
    assert narrowest(school, rows, "active") == 100
    assert narrowest(school, rows, "completion") > OPEN


@pytest.mark.usefixtures("exact")
def test_a_group_of_everybody_and_its_complement(tmp_path: Path) -> None:
    """A course that all take but four: the school less the course would be the four."""
    pupils = {n: Pupil((101,) if n >= 4 else (202,), 10.0 + n, None, n % 2 == 0) for n in range(40)}
    school = School(tmp_path / "w").publish(pupils)
    rows = rows_of(school)
    assert shown(rows, "completion") == [("school", 41)]
    assert narrowest(school, rows, "completion") > OPEN


SEEDS = range(10)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("seed", daily(SEEDS))
def test_random_schools_over_weeks_without_rounding(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    school = School(tmp_path / "w").publish(*random_weeks(rng, rng.randint(20, 70), 3))
    rows = rows_of(school, k=3)
    assert narrowest(school, rows, "completion") > OPEN
    # In whole numbers it takes the rounding, too: of a few schools exact counts would leave only one answer.
    assert narrowest(school, rows, "active", in_whole_numbers=False) > OPEN


@pytest.mark.parametrize("seed", daily(SEEDS, 5))
def test_random_schools_over_weeks_as_they_are_given_away(tmp_path: Path, seed: int) -> None:
    """From the CSV files and the rules: what stays open of each student, and of each group that is suppressed."""
    rng = random.Random(1000 + seed)
    school = School(tmp_path / "w").publish(*random_weeks(rng, rng.randint(20, 70), 3))
    school.release(k=3)
    rows: list[Any] = []
    for path in sorted(school.out.glob("*.csv")):
        for row in csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()):
            numbers = {c: int(row[c]) if row[c] else None for c in ("id", "students", "count", "percent", "average")}
            rows.append({**row, **numbers, "suppressed": row["suppressed"] or None})
    for measure, least_open in (("completion", OPEN), ("active", 100)):
        known = puzzle(school, rows, measure, exact=False, k=3)
        for student in known.students:
            least, most = known.range_of([student])
            assert 100 * (most - least) >= least_open
        for row in rows:
            if row["measure"] == measure and row["suppressed"] is not None:
                week = school.weeks[(date.fromisoformat(row["week_begins"]) - date(2026, 9, 7)).days // 7]
                those = members(week, row["level"], row["id"], measure)
                least, most = known.range_of(those)
                assert most - least >= min(len(those), 1 if measure == "active" else 0.1)
