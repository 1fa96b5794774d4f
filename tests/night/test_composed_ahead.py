"""The day of a large landing is composed and compared while its vanished records are searched for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rollbook.errors import KeyRefusedError
from tests.support.nights import House
from tests.support.records import student, students
from tests.support.warehouses.holds import first_night
from tests.support.wire import faults
from tests.support.wire.service import Asked


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollbook.ingest.LARGE", 1)


@contextmanager
def slow_searches(house: House) -> Iterator[list[bool]]:
    """Answer a search once the day is composed, or after 20 seconds; yields whether it was, for each search."""
    composed = list[bool]()
    ahead = house.warehouse / "build" / "stage" / "ahead" / "observed" / "part-0.parquet"

    def waits(request: Asked) -> None:
        until = time.monotonic() + 20
        while request.search is not None and not ahead.exists() and time.monotonic() < until:
            time.sleep(0.01)
        if request.search is not None:
            composed.append(ahead.exists())

    house.service.before = waits
    yield composed
    house.service.before = None


def test_a_day_is_composed_while_a_vanished_student_is_searched_for(house: House) -> None:
    expected = first_night(house, students(12))
    with slow_searches(house) as composed:
        house.night(2, students(11))
    assert composed
    assert all(composed)
    assert house.tables() == expected.night(2, students(11), house.service.classes).tables()
    assert house.rollbook().recovery.is_current()


def test_a_day_that_a_search_changes_is_composed_again(house: House) -> None:
    expected = first_night(house, students(60))
    house.service.hide(7, 8)
    tonight = [*students(60), student(99)]
    with slow_searches(house) as composed:
        done = house.night(2, tonight)
    assert any(composed)
    assert {a.answer for a in done.manifest.absences} == {"found_by_search"}
    assert house.tables() == expected.night(2, tonight, house.service.classes).tables()


def test_a_second_landing_of_a_day_is_composed_of_both(house: House) -> None:
    expected = first_night(house, students(12))
    house.night(2, students(12))
    house.night(2, students(11), fresh=True)
    assert house.tables() == expected.night(2, students(11), house.service.classes).tables()


def test_a_night_that_fails_during_its_searches_ends_the_work_ahead(house: House) -> None:
    expected = first_night(house, students(12))
    house.service.on(faults.refused(401, "UNAUTHORIZED"), path="students", search=True)
    with slow_searches(house) as composed, pytest.raises(KeyRefusedError):
        house.night(2, students(11))
    assert composed == [True]
    assert [t.name for t in threading.enumerate() if t.name.startswith("ahead")] == []
    house.service.mend()
    house.night(2, students(11))
    assert house.tables() == expected.night(2, students(11), house.service.classes).tables()
