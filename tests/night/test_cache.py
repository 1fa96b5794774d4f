"""Within minutes of a complete fetch only the key is checked again, as the contract advises (Caching)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from rollbook.errors import HeldError, ServiceError
from rollbook.landing.manifest import Verdict
from tests.support.nights import House, folder
from tests.support.records import classes, student, students
from tests.support.tiers import daily
from tests.support.warehouses.begun import begin
from tests.support.wire import faults
from tests.support.wire.service import Service

pytestmark = pytest.mark.nights


@pytest.fixture
def caching() -> Iterator[House]:
    """A house that keeps answers for five minutes, synced at a quarter past two."""
    with folder() as root, Service(students(20), classes(1)) as service:
        house = begin(House(root / "warehouse", service, cache_minutes=5))
        service.students[0] = student(1, name="Another")
        yield house


def asked(house: House) -> int:
    return len(house.service.requests)


def later(house: House, minutes: float) -> House:
    house.now += timedelta(minutes=minutes)
    return house


def name(house: House) -> object:
    return house.query("SELECT name FROM students WHERE student_id = 1")[0][0]


@pytest.mark.parametrize("minutes", daily([0, 4.9], 4.9))
def test_a_sync_within_minutes_of_a_complete_one_only_checks_the_key(caching: House, minutes: float) -> None:
    caching.service.requests.clear()
    done = later(caching, minutes).sync()
    assert [r.path for r in caching.service.requests] == ["auth"]
    assert (done.manifest.landing, done.manifest.verdict) == (1, Verdict.SYNCED)
    assert name(caching) == "Pupil Number1"
    assert len(caching.landings(done.manifest.snapshot_date)) == 1


def test_after_that_time_or_when_told_so_it_asks_again(caching: House) -> None:
    assert later(caching, 1).sync(fresh=True).manifest.landing == 2
    assert later(caching, 5).sync().manifest.landing == 3
    assert name(caching) == "Another"


def test_failed_and_held_institutions_are_fetched_again(caching: House) -> None:
    caching.service.on(faults.refused(), path="students", times=1)
    with pytest.raises(ServiceError):
        later(caching, 6).sync()
    caching.service.students = caching.service.students[:5]
    with pytest.raises(HeldError):
        later(caching, 1).sync()
    before = asked(caching)
    with pytest.raises(HeldError):
        later(caching, 1).sync()
    assert asked(caching) > before
