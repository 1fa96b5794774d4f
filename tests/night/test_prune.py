"""Retention: raw bodies and snapshots that expire, and the history that keeps what they said.

A warehouse whose days have expired must hold, row by row, what one that kept everything holds; it can only no longer make all of it
again (G7 for what remains). The command is in `test_room`.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from rollbook.errors import ExpiredError, HeldError, NothingLandedError
from rollbook.night import past
from rollbook.night.stages import snapshot
from rollbook.tables import TABLES
from tests.support.nights import ChangingNights, Expected, landed, new_house, night
from tests.support.processes.machines import left_over
from tests.support.records import classes, students
from tests.support.warehouses.begun import begin_changing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

KEEP = 4


@pytest.fixture
def nights() -> Iterator[ChangingNights]:
    """Nights with views: they lead to the snapshots, of which some go."""
    with new_house(students(30), classes(3)) as house:
        yield ChangingNights(house)


@pytest.fixture
def expired() -> Iterator[ChangingNights]:
    """Ten nights, of which four are kept; a fifth stays on disk for a night."""
    with new_house(students(30), classes(3), keep_days=KEEP) as house:
        nights = begin_changing(house, 10)
        del house.over["keep_days"]
        yield nights


# --- what goes, and what stays ---------------------------------------------------------------------------------------


def test_the_history_keeps_what_the_days_said_that_are_gone(expired: ChangingNights) -> None:
    left = [night(n) for n in range(6, 11)]
    assert expired.days("raw") == left
    for table in (*TABLES, "observed"):
        assert expired.days(f"snapshots/{table}") == left
    shown = expired.house.query("SELECT DISTINCT snapshot_date FROM snapshots.students ORDER BY 1")
    assert shown == [(day,) for day in left[1:]]  # a day stays one night longer than the views show it
    assert expired.house.tables() == expired.expected.tables()
    assert left_over(expired.house.warehouse) == []


def test_readers_of_last_nights_file_can_read_it_one_more_night(nights: ChangingNights) -> None:
    nights.play(6, keep_days=KEEP)
    with duckdb.connect(nights.house.published, read_only=True) as analyst:
        before = analyst.execute("SELECT snapshot_date, COUNT(*) FROM snapshots.students GROUP BY 1").fetchall()
        nights.play(1, keep_days=KEEP)
        after = analyst.execute("SELECT snapshot_date, COUNT(*) FROM snapshots.students GROUP BY 1").fetchall()
    assert sorted(after) == sorted(before)


def test_a_day_that_waits_for_approval_stays_and_can_still_be_approved(nights: ChangingNights) -> None:
    nights.play(3)
    nights.house.at(4)
    shown = nights.house.service.students[:10]
    nights.house.service.students = shown
    with pytest.raises(HeldError):
        nights.house.sync()
    nights.number = 4
    nights.play(6, keep_days=KEEP)
    assert night(4) in nights.days("raw")
    assert night(3) not in nights.days("raw")
    nights.house.at(10).approve(night(4), over={"keep_days": KEEP})
    expected = Expected()
    for n in range(1, 11):
        expected.night(n, shown if n == 4 else nights.listed(n), classes(3))
    assert nights.house.tables() == expected.tables()


def test_a_day_that_the_published_history_does_not_hold_yet_stays(nights: ChangingNights) -> None:
    """It was landed and judged, and the writer was killed before it was merged."""
    nights.play(6)
    nights.house.at(7)
    rollbook = nights.house.rollbook()
    with rollbook.writer().writing():
        snapshot(rollbook.place, landed(rollbook), rollbook.settings, rollbook.clock())
    nights.house.at(20)
    # The oldest file that could be put back is that of the third night.
    assert nights.house.rollbook().place.recovery.expirable(2) == [night(1), night(2), night(3)]


# --- what is refused, and what is said -------------------------------------------------------------------------------


def test_a_rebuild_that_would_lose_days_is_refused_and_touches_nothing(expired: ChangingNights) -> None:
    before = expired.house.state()
    with pytest.raises(ExpiredError) as refused:
        past.rebuild(expired.house.rollbook().writer())
    assert refused.value.message.startswith(
        f"The history holds 5 days ({night(1)} to {night(5)}) whose raw bodies were"
    )
    assert expired.house.state() == before


def test_a_backfill_of_a_lost_day_says_so_and_changes_no_other(expired: ChangingNights) -> None:
    message = f"what was landed on {night(2)} has expired (ROLLBOOK_KEEP_DAYS); the history keeps what it said"
    with pytest.raises(NothingLandedError) as refused:
        past.backfill(expired.house.rollbook().writer(), night(2), night(2))
    assert refused.value.message == message
    done = past.backfill(expired.house.rollbook().writer(), night(1), night(10))
    assert list(done.rebuilt) == [night(n) for n in range(6, 11)]
    assert done.skipped[night(2)] == message
    assert expired.house.tables() == expired.expected.tables()
