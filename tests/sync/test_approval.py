"""What was held is merged by one approval of that landing, without fetching (G3)."""

from __future__ import annotations

import pytest

from pipelines.errors import ArgumentError
from pipelines.landing.manifest import Verdict
from tests.support.nights import Expected, House, folder, night
from tests.support.records import classes, students
from tests.support.warehouses.holds import first_night, is_held
from tests.support.wire.service import Service


def test_approval_merges_what_was_held_and_asks_the_service_nothing() -> None:
    with folder() as root:
        with Service(classes=classes(1)) as service:
            house = House(root / "warehouse", service)
            expected = first_night(house, students(12))
            is_held(house, 2, students(2))
            before = len(service.requests)
        done = house.approve(night(2))  # the service is gone
        assert len(service.requests) == before
        assert (done.manifest.landing, done.manifest.verdict) == (1, Verdict.APPROVED)
        assert house.tables() == expected.night(2, students(2), classes(1)).tables()
        assert house.query(
            "SELECT outcome, verdict, rows_removed FROM ops.syncs WHERE snapshot_date > '2026-11-20'"
        ) == [("synced", "approved", 40)]


def test_approval_is_for_that_run_only(house: House) -> None:
    expected = first_night(house, students(60))
    is_held(house, 2, students(30))
    house.approve()
    expected.night(2, students(30), house.service.classes)
    is_held(house, 3, students(15))
    assert house.tables() == expected.tables()


def test_a_later_good_sync_supersedes_what_was_held(house: House, held: Expected) -> None:
    house.service.students = students(11)
    house.sync()
    assert house.tables() == held.night(2, students(11), house.service.classes).tables()
    house.service.requests.clear()
    with pytest.raises(ArgumentError, match="Nothing is held on any day"):
        house.approve()
    assert house.service.requests == []
    assert house.tables() == held.tables()


def test_approval_with_nothing_held_fetches_nothing_and_publishes_nothing(house: House) -> None:
    first_night(house, students(12))
    house.at(3).service.students = students(2)
    before, requests = house.state(), len(house.service.requests)
    for day in (None, night(1), night(2), night(3)):
        with pytest.raises(ArgumentError, match="Nothing is held") as caught:
            house.approve(day)
        assert caught.value.exit_code == 2
    assert len(house.service.requests) == requests
    assert house.state() == before


def test_a_held_night_may_be_approved_after_later_nights(house: House, held: Expected) -> None:
    """History is a function of the landed days: the students were gone on night 2, and returned on night 3."""
    house.night(3, students(12))
    one, first = house.service.classes, Expected().night(1, students(12), house.service.classes)
    assert house.tables() == first.night(3, students(12), one).tables()
    house.approve(night(2))
    assert house.tables() == held.night(2, students(2), one).night(3, students(12), one).tables()
