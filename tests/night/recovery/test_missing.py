"""Landings that are missing from raw/ fail the night, until restored or given up (G4)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from rollbook.errors import HeldError, LostError
from rollbook.features.mirror.mirror import Mirror
from rollbook.night import past
from rollbook.night.past import always
from tests.night.recovery.losses import LISTED, delete
from tests.support.nights import Expected, House, new_house, night, status_of
from tests.support.records import MISSING, classes, student, students, within

pytestmark = pytest.mark.nights


def aside(house: House, *parts: str) -> Callable[[], Path]:
    """Move a part of raw/ out of the warehouse; returns the way back."""
    there, away = house.warehouse.joinpath("raw", *parts), house.warehouse.parent / "away"
    shutil.move(there, away)
    return lambda: shutil.copytree(away, there, dirs_exist_ok=True)


def keep_all(_: House) -> None:
    """Nothing else is lost."""


@pytest.mark.parametrize("also", [keep_all, delete])
def test_a_day_missing_from_raw_fails_the_night_which_counts_later(
    after_three_nights: House, expected: Expected, also: Callable[[House], None]
) -> None:
    restore = aside(after_three_nights, f"snapshot_date={night(2)}")
    also(after_three_nights)
    after_three_nights.service.students = students(59)
    with pytest.raises(LostError, match=f"raw/ lacks 1 landing .*: {night(2)}") as lost:
        after_three_nights.sync()
    assert lost.value.exit_code == 1
    assert "rollbook rebuild --accept-loss" in lost.value.message
    (landed,) = after_three_nights.landings(night(4))
    assert landed.verdict is None
    restore()
    after_three_nights.at(5).sync()
    expected.night(4, students(59), classes(4), unproven=["students", "classes"])
    assert after_three_nights.tables() == expected.night(5, students(59), classes(4)).tables()


def test_a_landing_that_is_missing_beside_another_of_its_day_is_named(
    after_three_nights: House, expected: Expected
) -> None:
    after_three_nights.night(4, students(58))
    after_three_nights.now = after_three_nights.now.replace(hour=9)
    after_three_nights.service.students = students(57)
    after_three_nights.sync(fresh=True)
    expected.night(4, students(58), classes(4)).night(4, students(57), classes(4))
    restore = aside(after_three_nights, f"snapshot_date={night(4)}", "landing=1")
    before = after_three_nights.state()
    with pytest.raises(LostError, match=f"{night(4)}"):
        after_three_nights.at(5).sync()
    with pytest.raises(LostError):
        past.rebuild(after_three_nights.rollbook().writer(), confirm=always)
    assert after_three_nights.state() == before
    restore()
    after_three_nights.sync()
    assert (
        after_three_nights.tables()
        == expected.night(5, students(57), classes(4)).night(5, students(57), classes(4)).tables()
    )


def lose_the_lake(house: House) -> None:
    shutil.rmtree(house.warehouse / "snapshots")


@pytest.mark.parametrize("also", [pytest.param(keep_all, marks=pytest.mark.story), delete, lose_the_lake])
def test_a_lost_landing_of_today_is_missed_and_keeps_its_number(
    after_three_nights: House, expected: Expected, also: Callable[[House], None]
) -> None:
    """Only that landing states how much somebody has handed in; both later syncs leave that out."""
    states = [student(1, **within("activity_tracking", assignment_submission_count=99)), *LISTED[1:]]
    unstated = [student(1, activity_tracking=MISSING), *LISTED[1:]]
    after_three_nights.night(4, states)
    restore = aside(after_three_nights, f"snapshot_date={night(4)}")
    also(after_three_nights)
    after_three_nights.service.students = unstated
    for _ in range(2):
        after_three_nights.now += timedelta(minutes=10)
        with pytest.raises(LostError, match=f"raw/ lacks 1 landing .*: {night(4)}"):
            after_three_nights.sync(fresh=True)
    assert [m.landing for m in after_three_nights.landings(night(4))] == [2, 3]
    restore()
    after_three_nights.at(5).sync()
    expected.night(4, states, classes(4))
    for _ in range(2):
        expected.night(4, unstated, classes(4), unproven=["students", "classes"])
    assert after_three_nights.tables() == expected.night(5, unstated, classes(4)).tables()
    assert after_three_nights.query(
        "SELECT assignment_submission_count FROM student_activity WHERE student_id = 1"
    ) == [(99,)]


def test_the_copy_remembers_the_number_of_a_landing_that_nothing_else_does(
    tmp_path: Path, after_three_nights: House
) -> None:
    """The landing was held, so that neither the lake nor the published file ever had it."""
    after_three_nights.over["lake"] = tmp_path.as_uri()
    with pytest.raises(HeldError):
        after_three_nights.night(4, students(20))
    restore = aside(after_three_nights, f"snapshot_date={night(4)}")
    after_three_nights.service.students = students(60)
    for _ in range(2):
        after_three_nights.now += timedelta(minutes=10)
        with pytest.raises(LostError, match=f"snapshot_date={night(4)}/landing=1"):
            after_three_nights.sync(fresh=True)
    assert [m.landing for m in after_three_nights.landings(night(4))] == [2, 3]
    restore()
    assert [m.landing for m in after_three_nights.landings(night(4))] == [1, 2, 3]
    after_three_nights.rollbook().listener(Mirror).update(after_three_nights.now)


@pytest.mark.story
def test_another_landing_in_the_place_of_a_lost_one_is_named(after_three_nights: House) -> None:
    """A folder of raw/ that was put back from elsewhere."""
    day = after_three_nights.warehouse / "raw" / f"snapshot_date={night(2)}" / "landing=1"
    with new_house(students(3), classes(4)) as other:
        other.at(2).now += timedelta(hours=1)
        other.sync()
        shutil.rmtree(day)
        shutil.copytree(other.warehouse / "raw" / f"snapshot_date={night(2)}" / "landing=1", day)
    with pytest.raises(LostError, match=f"raw/ lacks 1 landing .*: {night(2)}"):
        after_three_nights.sync()
    assert after_three_nights.query("SELECT COUNT(*) FROM students") == [(61,)]


def test_days_that_are_given_up_are_forgotten(after_three_nights: House) -> None:
    aside(after_three_nights, f"snapshot_date={night(2)}")
    with pytest.raises(LostError):
        after_three_nights.sync()
    assert "raw/ lacks" in " ".join(status_of(after_three_nights.rollbook()).problems)
    past.rebuild(after_three_nights.rollbook().writer(), accept_loss=True)
    assert after_three_nights.query("SELECT snapshot_date FROM spans.days ORDER BY 1") == [
        (night(n),) for n in (1, 3, 4)
    ]
    warehouse = after_three_nights.rollbook().warehouse
    assert all((night(2), 1) not in warehouse.recorded(path) for path in warehouse.kept()), "it would come up again"
    assert status_of(after_three_nights.rollbook()).problems == ()
    after_three_nights.at(5).sync()
    left = Expected().night(1, students(60), classes(4)).night(3, LISTED, classes(4))
    left.night(4, LISTED, classes(4), unproven=["students", "classes"])
    assert after_three_nights.tables() == left.night(5, LISTED, classes(4)).tables()


def test_a_repeated_run_asks_for_nothing_while_a_landing_is_missing(after_three_nights: House) -> None:
    aside(after_three_nights, f"snapshot_date={night(2)}")
    after_three_nights.service.requests.clear()
    with pytest.raises(LostError):
        after_three_nights.at(3).sync(unless_synced=True)
    assert after_three_nights.service.requests == []
