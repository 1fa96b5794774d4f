"""Expired days, which only a file holds: they come back from a file, or a sync says what would be lost (G4)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from rollbook.errors import DamagedError, ExpiredError, HeldError
from rollbook.features.pseudonymous.pseudonymous import Pseudonymous
from rollbook.night import past
from rollbook.night.prune import prune as prune_now
from tests.night.recovery.losses import LISTED, change_rows, delete, lose_only_the_build_folder
from tests.support.nights import Expected, House, new_house, night
from tests.support.reading import rows
from tests.support.records import Records, classes, student
from tests.support.tiers import daily

pytestmark = pytest.mark.nights


def tonight(number: int) -> Records:
    return [*LISTED, student(100 + number)]


@pytest.fixture(scope="module")
def six_nights(three_nights: Path) -> Iterator[Path]:
    """Six nights, of which the first three are in the history alone. To be copied, not changed."""
    with new_house(classes=classes(4), keep_days=2) as house:
        shutil.copytree(three_nights, house.warehouse, symlinks=True)
        for number in range(4, 7):
            house.night(number, tonight(number))
        yield house.warehouse


@pytest.fixture
def expired(after_three_nights: House, expected: Expected, six_nights: Path) -> Expected:
    """The nights, in the test's own house, and what the tables must hold."""
    shutil.rmtree(after_three_nights.warehouse)
    shutil.copytree(six_nights, after_three_nights.warehouse, symlinks=True)
    after_three_nights.over, after_three_nights.service.students = {"keep_days": 2}, tonight(6)
    for number in range(4, 7):
        expected.night(number, tonight(number), classes(4))
    assert after_three_nights.rollbook().raw.days() == [night(n) for n in (4, 5, 6)]
    after_three_nights.at(7)
    return expected


@pytest.mark.parametrize("loss", daily([delete, change_rows, lose_only_the_build_folder], delete))
def test_expired_days_come_back_from_a_file_that_holds_them(
    after_three_nights: House, expired: Expected, loss: Callable[[House], None]
) -> None:
    loss(after_three_nights)
    after_three_nights.sync()
    assert after_three_nights.tables() == expired.night(7, after_three_nights.service.students, classes(4)).tables()


def test_where_expired_days_would_be_lost_a_sync_fails(after_three_nights: House, expired: Expected) -> None:
    delete(after_three_nights)
    after_three_nights.lose_kept()
    with pytest.raises(ExpiredError) as lost:
        after_three_nights.sync()
    assert lost.value.exit_code == 1
    message = f"The history of 3 days ({night(1)} to {night(3)}) was only in a published file that is gone"
    assert message in lost.value.message
    assert "rollbook rebuild --accept-loss" in lost.value.message
    assert [m.verdict for m in after_three_nights.landings(night(7))] == [None]
    assert not after_three_nights.published.exists()
    with pytest.raises(ExpiredError):
        past.rebuild(after_three_nights.rollbook().writer())
    with pytest.raises(ExpiredError):
        past.backfill(after_three_nights.rollbook().writer(), night(4), night(6))
    done = past.rebuild(after_three_nights.rollbook().writer(), accept_loss=True)
    assert list(done.rebuilt) == [night(4), night(5), night(6)]
    left = Expected()
    for number in (4, 5, 6):
        left.night(number, tonight(number), classes(4))
    left.night(7, after_three_nights.service.students, classes(4), unproven=["students", "classes"])
    assert after_three_nights.tables() == left.tables()
    after_three_nights.at(8).sync()
    assert after_three_nights.tables() == left.night(8, after_three_nights.service.students, classes(4)).tables()


def test_without_the_registered_digests_no_file_is_the_warehouse_s_own(
    after_three_nights: House, expired: Expected
) -> None:
    shutil.rmtree(after_three_nights.warehouse / "private")
    before = after_three_nights.published.read_bytes()
    with pytest.raises(ExpiredError, match="a file of any night is recognised, but only with private/erasures/"):
        after_three_nights.sync()
    assert after_three_nights.published.read_bytes() == before


# --- retention -------------------------------------------------------------------------------------------------------


def test_retention_counts_back_from_the_newest_counted_day_not_from_a_clock(after_three_nights: House) -> None:
    after_three_nights.over = {"keep_days": 2}
    after_three_nights.now = datetime(2027, 12, 1, 2, 15, tzinfo=after_three_nights.now.tzinfo)
    prune_now(after_three_nights.rollbook().writer())
    assert after_three_nights.rollbook().raw.days() == [night(1), night(2), night(3)]


def test_refused_records_expire_in_kept_files_too() -> None:
    with new_house(classes=classes(4), keep_days=2, pseudonymous=True) as house:
        house.night(1, [*LISTED, student(50) | {"name": None}])
        for number in range(2, 5):
            house.night(number, LISTED)
            assert house.rollbook().listener(Pseudonymous).is_current()
        warehouse = house.rollbook().warehouse
        assert len(warehouse.kept()) == 3
        for file in (house.published, *warehouse.kept()):
            assert rows(file, "FROM ops.rejects") == []
            assert warehouse.own.is_unmodified(file)


@pytest.mark.usefixtures("expired")
def test_a_rebuild_that_cannot_record_a_held_landing_gives_nothing_up(after_three_nights: House) -> None:
    with pytest.raises(HeldError):
        after_three_nights.night(7, tonight(7)[:20])
    pages = after_three_nights.warehouse / "raw" / f"snapshot_date={night(7)}" / "landing=1" / "pages.jsonl"
    pages.write_bytes(b"{")
    rollbook = after_three_nights.rollbook()
    given_up = rollbook.landings.expired_days()
    with pytest.raises(DamagedError, match="pages.jsonl cannot be used"):
        past.rebuild(rollbook.writer(), confirm=past.always, accept_loss=True)
    assert after_three_nights.rollbook().landings.expired_days() == given_up == {night(1), night(2), night(3)}
