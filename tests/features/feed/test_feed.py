"""The feed: another system that knows `changes_since` alone ends with the rows of the file."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from rollbook.features.feed import feed
from rollbook.night import discard as discards
from rollbook.night import past
from rollbook.night.past import always
from rollbook.night.restore import restore
from tests.support import reading
from tests.support.consumer import Consumer
from tests.support.nights import House, new_house, night
from tests.support.records import classes, student, students
from tests.support.warehouses.erasures import erase

pytestmark = pytest.mark.nights

BEHIND = {"total_assignments": 20, "completed_assignments": 2, "completion_rate": 10.0, "average_score": 12.0}


@pytest.fixture
def empty_school() -> Iterator[House]:
    with new_house(hold_changed_percent=100, hold_removed_percent=100) as house:
        yield house


def poll(house: House, *consumers: Consumer) -> None:
    """Everybody polls, and then holds what the file holds."""
    with duckdb.connect(str(house.published), read_only=True) as con:
        for consumer in consumers:
            consumer.poll(con)
            assert consumer.differences(con) == []


def test_a_consumer_follows_a_pupil_from_entry_to_erasure(empty_school: House) -> None:
    nightly, weekly = Consumer(), Consumer()
    empty_school.night(1, students(6), classes(3))
    poll(empty_school, nightly, weekly)
    assert (nightly.whole, nightly.told) == (1, [])
    empty_school.night(3, [*students(6), student(9)])
    poll(empty_school, nightly)
    assert nightly.told.count("added") == len(nightly.told) > 1
    empty_school.night(4, students(6))
    poll(empty_school, nightly)
    assert "removed" in nightly.told
    empty_school.night(5, [*students(6), student(9, summary=BEHIND)])
    poll(empty_school, nightly)
    assert ("students_to_watch", (9,)) in nightly.rows
    nightly.told.clear()
    empty_school.night(2, [*students(6), student(9, name="As of then")])
    poll(empty_school, nightly)
    assert "corrected" in nightly.told
    poll(empty_school, nightly, weekly)
    assert (nightly.whole, weekly.whole) == (1, 1)
    erase(empty_school, 9)
    poll(empty_school, nightly, weekly)
    assert (nightly.whole, weekly.whole) == (2, 2)
    assert not [key for key in weekly.rows if key[1][0] == 9 and key[0] in ("students", "students_to_watch")]
    assert reading.rows(empty_school.published, "SELECT COUNT(*) FROM ops.feed") == [(0,)]


def test_a_night_in_which_nothing_happens_tells_nothing(empty_school: House) -> None:
    consumer = Consumer()
    empty_school.night(1, students(6), classes(3))
    poll(empty_school, consumer)
    empty_school.night(2)
    poll(empty_school, consumer)
    assert (consumer.whole, consumer.told) == (1, [])


@pytest.mark.story
def test_a_discarded_day_is_told(empty_school: House) -> None:
    consumer = Consumer()
    empty_school.night(1, students(6), classes(3))
    empty_school.night(2, [*students(5), student(6, name="Wrong")])
    poll(empty_school, consumer)
    discards.discard(empty_school.rollbook().writer(), night(2), reason="on trial", confirm=always)
    poll(empty_school, consumer)
    assert (consumer.whole, set(consumer.told)) == (1, {"changed"})


@pytest.mark.story
def test_the_feed_tells_who_came_and_went_within_one_publish(empty_school: House) -> None:
    consumer = Consumer()
    empty_school.night(1, students(6), classes(3))
    poll(empty_school, consumer)
    empty_school.night(2, [*students(6), student(9)])
    empty_school.night(3, students(6))
    restore(empty_school.rollbook().writer(), empty_school.rollbook().warehouse.kept()[-1])
    empty_school.night(4)
    poll(empty_school, consumer)
    assert (consumer.whole, set(consumer.told)) == (1, {"corrected"})


def test_an_older_file_and_its_followers_are_told_from_lost_ones(empty_school: House) -> None:
    early, late = Consumer(), Consumer()
    empty_school.night(1, students(6), classes(3))
    empty_school.night(2, students(7))
    poll(empty_school, early)
    empty_school.night(3, students(8))
    poll(empty_school, late)
    restore(empty_school.rollbook().writer(), empty_school.rollbook().warehouse.kept()[0])
    poll(empty_school, early, late)
    assert (early.whole, late.whole) == (1, 2)
    empty_school.night(4, students(9))
    poll(empty_school, early, late)
    assert (early.whole, late.whole) == (1, 2)


def test_a_rebuild_from_nothing_begins_an_epoch(empty_school: House) -> None:
    consumer = Consumer()
    empty_school.night(1, students(6), classes(3))
    poll(empty_school, consumer)
    past.rebuild(empty_school.rollbook().writer(), confirm=always)
    poll(empty_school, consumer)
    assert consumer.whole == 2


def test_who_polls_too_seldom_reads_everything(empty_school: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "KEPT", 3)
    seldom, often = Consumer(), Consumer()
    for number in range(1, 6):
        empty_school.night(number, students(5 + number), classes(3))
        poll(empty_school, *[often, *[seldom] * (number in (1, 5))])
    assert (seldom.whole, often.whole) == (2, 1)
    assert reading.rows(empty_school.published, "SELECT COUNT(*) FROM ops.publishes") == [(3,)]
    assert reading.rows(empty_school.published, "SELECT COUNT(DISTINCT number) FROM ops.feed") == [(2,)]


@pytest.mark.parametrize("asked", ["NULL, NULL", "1, 1", "(SELECT MAX(epoch) FROM ops.publishes), 1"])
def test_what_the_file_does_not_know_is_answered_by_one_row(empty_school: House, asked: str) -> None:
    empty_school.night(1, students(6), classes(3))
    newest = reading.rows(empty_school.published, "SELECT epoch, number FROM ops.publishes")
    told = reading.rows(empty_school.published, f"SELECT epoch, number, change FROM changes_since({asked})")
    assert told == [(*newest[0], "read everything")]


def test_the_file_without_names_always_answers_read_everything(empty_school: House) -> None:
    empty_school.over["pseudonymous"] = True
    empty_school.night(1, students(6), classes(3))
    empty_school.night(2, students(7))
    file = empty_school.warehouse / "rollbook-pseudonymous.duckdb"
    assert reading.rows(file, "SELECT epoch, number, change FROM changes_since(1, 1)") == [
        (None, None, "read everything")
    ]
    assert reading.rows(file, "SELECT COUNT(*) FROM ops.feed") == [(0,)]
