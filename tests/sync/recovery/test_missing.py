"""Landings that are missing from raw/ fail the night, until they are restored or given up (G4)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.errors import LostError
from pipelines.operations.status import load_status
from pipelines.sync.whole import always
from tests.support.nights import Expected, House, night
from tests.support.records import classes, students
from tests.sync.recovery.losses import LISTED, delete


def aside(house: House, *parts: str) -> Callable[[], Path]:
    """Move a part of raw/ out of the warehouse; returns what moves it back."""
    there, away = house.warehouse.joinpath("raw", *parts), house.warehouse.parent / "away"
    shutil.move(there, away)
    return lambda: shutil.copytree(away, there, dirs_exist_ok=True)


def keep_all(_: House) -> None:
    """Nothing else is lost."""


@pytest.mark.parametrize("also", [keep_all, delete])
def test_a_day_that_is_missing_from_raw_fails_the_night_which_is_landed_and_comes_later(
    house: House, expected: Expected, also: Callable[[House], None]
) -> None:
    restore = aside(house, f"snapshot_date={night(2)}")
    also(house)
    house.service.students = students(59)
    with pytest.raises(LostError, match=f"raw/ lacks 1 landing .*: {night(2)}") as lost:
        house.sync()
    assert lost.value.exit_code == 1
    assert "rollbook rebuild --accept-loss" in lost.value.message
    (landed,) = house.landings(night(4))
    assert landed.verdict is None
    restore()
    house.at(5).sync()
    expected.night(4, students(59), classes(4), unproven=["students", "classes"])
    assert house.tables() == expected.night(5, students(59), classes(4)).tables()


def test_a_landing_that_is_missing_beside_another_of_its_day_is_named(house: House, expected: Expected) -> None:
    house.night(4, students(58))
    house.now = house.now.replace(hour=9)
    house.service.students = students(57)
    house.sync(fresh=True)
    expected.night(4, students(58), classes(4)).night(4, students(57), classes(4))
    restore = aside(house, f"snapshot_date={night(4)}", "landing=1")
    before = house.state()
    with pytest.raises(LostError, match=f"{night(4)}"):
        house.at(5).sync()
    with pytest.raises(LostError):
        house.rollbook().rebuild(confirm=always)
    assert house.state() == before
    restore()
    house.sync()
    assert house.tables() == expected.night(5, students(57), classes(4)).night(5, students(57), classes(4)).tables()


def test_days_that_are_given_up_are_forgotten(house: House) -> None:
    aside(house, f"snapshot_date={night(2)}")
    with pytest.raises(LostError):
        house.sync()
    assert "raw/ lacks" in " ".join(load_status(house.rollbook()).problems)
    house.rollbook().rebuild(accept_loss=True)
    assert house.query("SELECT snapshot_date FROM spans.days ORDER BY 1") == [(night(n),) for n in (1, 3, 4)]
    warehouse = house.rollbook().warehouse
    assert all((night(2), 1) not in warehouse.recorded(path) for path in warehouse.kept()), "it would come up again"
    assert load_status(house.rollbook()).problems == ()
    house.at(5).sync()
    left = Expected().night(1, students(60), classes(4)).night(3, LISTED, classes(4))
    left.night(4, LISTED, classes(4), unproven=["students", "classes"])
    assert house.tables() == left.night(5, LISTED, classes(4)).tables()
