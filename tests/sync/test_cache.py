"""Within minutes of a complete fetch only the key is checked again: the contract advises it (Caching)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from pipelines.errors import HeldError, KeyRefusedError, OtherInstitutionError, ServiceError
from pipelines.landing.manifest import Verdict
from tests.support.nights import House, folder
from tests.support.records import classes, student, students
from tests.support.tiers import daily
from tests.support.warehouses.begun import begin
from tests.support.wire import faults
from tests.support.wire.service import Service


@pytest.fixture
def caching() -> Iterator[House]:
    """A house that keeps answers for five minutes, synced at a quarter past two."""
    with folder() as made, Service(students(20), classes(1)) as service:
        house = begin(House(made / "warehouse", service, cache_minutes=5))
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


def test_a_key_that_is_wrong_by_now_fails_within_these_minutes_too(caching: House) -> None:
    school = caching.service.school
    caching.service.school = {**school, "id": 42}
    with pytest.raises(OtherInstitutionError):
        later(caching, 1).sync()
    caching.service.school, caching.service.key = school, "a-new-key"
    with pytest.raises(KeyRefusedError):
        later(caching, 1).sync()


def test_after_that_time_or_when_told_so_it_asks_again(caching: House) -> None:
    assert later(caching, 1).sync(fresh=True).manifest.landing == 2
    assert later(caching, 5).sync().manifest.landing == 3
    assert name(caching) == "Another"


def test_no_minutes_ask_every_time(caching: House) -> None:
    assert caching.sync(over={"cache_minutes": 0}).manifest.landing == 2


@pytest.mark.slow
def test_what_a_later_clock_fetched_does_not_count_as_a_fetch_now(caching: House) -> None:
    later(caching, 2).sync(fresh=True)
    assert later(caching, -1).sync().manifest.landing == 3


def test_another_day_is_asked_for(caching: House) -> None:
    caching.at(2)
    assert caching.sync().manifest.snapshot_date > caching.rollbook().raw.days()[0]


@pytest.mark.slow
def test_what_is_unproven_is_asked_for_again(caching: House) -> None:
    caching.service.on(faults.stated(total_count=999), path="students", page=1, times=None)
    assert later(caching, 6).sync().manifest.verdict is Verdict.UNPROVEN
    caching.service.mend()
    assert later(caching, 1).sync().manifest.landing == 3


def test_what_failed_or_was_held_is_asked_for_again(caching: House) -> None:
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


@pytest.mark.slow
def test_what_was_discarded_is_asked_for_again(caching: House) -> None:
    rollbook = caching.rollbook()
    with rollbook.writer():
        rollbook.raw.discard(rollbook.raw.manifests()[0], "a test", caching.now)
    assert later(caching, 1).sync().manifest.landing == 2


def test_details_that_were_just_fetched_are_not_fetched_again(caching: House) -> None:
    caching.service.students[1] = student(2, name="Another, too")
    caching.sync(details="changed")
    assert [r.path for r in caching.service.requests if r.path.startswith("student/")] == ["student/1", "student/2"]
    before = asked(caching)
    later(caching, 1).sync(details="all")
    fetched = [r.path for r in caching.service.requests[before:] if r.path.startswith("student/")]
    assert fetched == [f"student/{n}" for n in range(3, 21)]
    assert caching.query("SELECT COUNT(*) FROM student_details") == [(20,)]
