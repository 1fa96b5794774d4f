"""Retention: raw bodies and snapshots that expire, and the history that keeps what they said.

A thinned warehouse must hold, row by row, what one that kept everything holds; it can only no longer make all of it
anew (G7 for what remains). The command is in `test_room`.
"""

from __future__ import annotations

import itertools
import pkgutil
import random
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipelines.errors import ExpiredError, HeldError, NothingLandedError
from pipelines.operations.prune import prune as prune_now
from pipelines.store.history import engine as history_module
from pipelines.tables import TABLES
from tests.support.nights import ChangingNights, Expected, folder, new_house, night
from tests.support.processes.machines import left_over
from tests.support.records import classes, students
from tests.support.warehouses.fortnight import DAYS, LAST, copy, export, landed
from tests.support.warehouses.fortnight import rollbook as fortnight_book

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

KEEP = 4
RECORDS = ("main", "history", "spans")


@pytest.fixture(scope="module")
def ten() -> Iterator[ChangingNights]:
    """Ten nights, of which four are kept; a fifth stays on disk for a night. To be copied, not changed."""
    with new_house(students(30), classes(3)) as made:
        yield ChangingNights(made).play(10, keep_days=KEEP)


@pytest.fixture
def nights() -> Iterator[ChangingNights]:
    """Nights with views: they lead to the snapshots, of which some go."""
    with new_house(students(30), classes(3)) as made:
        yield ChangingNights(made)


@pytest.fixture
def thinned(ten: ChangingNights, nights: ChangingNights) -> ChangingNights:
    """Those ten nights, in a warehouse of the test's own."""
    shutil.copytree(ten.house.warehouse, nights.house.warehouse, symlinks=True)
    nights.house.service.students = ten.house.service.students
    nights.expected, nights.number = deepcopy(ten.expected), ten.number
    nights.house.at(10)
    return nights


# --- what goes, and what stays ---------------------------------------------------------------------------------------


def test_the_history_keeps_what_the_days_said_that_are_gone(thinned: ChangingNights) -> None:
    left = [night(n) for n in range(6, 11)]
    assert thinned.days("raw") == left
    for table in (*TABLES, "observed"):
        assert thinned.days(f"snapshots/{table}") == left
    assert thinned.house.tables() == thinned.expected.tables()
    assert left_over(thinned.house.warehouse) == []


def test_the_views_of_the_lake_show_the_days_that_are_kept_and_read_no_file_that_is_gone(
    thinned: ChangingNights,
) -> None:
    kept = [(night(n),) for n in range(7, 11)]
    for table in ("students", "student_classes", "observed"):
        assert thinned.house.query(f"SELECT DISTINCT snapshot_date FROM snapshots.{table} ORDER BY 1") == kept


def test_who_has_last_nights_file_open_can_read_all_of_it_for_one_more_night(nights: ChangingNights) -> None:
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
    book = nights.house.rollbook()
    with book.writer():
        book.snapshot(book.land())
    nights.house.at(20)
    # The oldest file that could be put back is that of the third night.
    assert nights.house.rollbook().recovery.expirable(2) == [night(1), night(2), night(3)]


def test_the_newest_day_stays_however_old_it_is(nights: ChangingNights) -> None:
    nights.play(3)
    nights.house.at(300)
    for _ in range(4):  # until no older file is kept that lacks a day
        nights.house.rollbook(keep_days=1).publish()
    # The day before it as well: it stays one night longer than the views show it.
    assert nights.days("raw") == [night(2), night(3)]
    assert nights.house.tables() == nights.expected.tables()


# --- what is refused, and what is said -------------------------------------------------------------------------------


def test_a_rebuild_that_would_lose_days_is_refused_and_touches_nothing(thinned: ChangingNights) -> None:
    before = thinned.house.state()
    with pytest.raises(ExpiredError) as refused:
        thinned.house.rollbook().rebuild()
    assert refused.value.message.startswith(
        f"The history holds 5 days ({night(1)} to {night(5)}) whose raw bodies were"
    )
    assert thinned.house.state() == before


def test_with_nothing_published_a_rebuild_is_refused_until_the_loss_is_accepted(thinned: ChangingNights) -> None:
    """The published files are lost and raw/ was thinned: what is left is rebuilt once somebody accepts the loss."""
    shutil.rmtree(thinned.house.warehouse / "published")
    with pytest.raises(ExpiredError):
        thinned.house.rollbook().rebuild()
    done = thinned.house.rollbook().rebuild(accept_loss=True)
    assert list(done.rebuilt) == [night(n) for n in range(6, 11)]
    assert list(thinned.house.rollbook().rebuild().rebuilt) == list(done.rebuilt)


def test_a_backfill_of_a_day_that_is_gone_says_so_and_of_the_others_changes_nothing(thinned: ChangingNights) -> None:
    message = f"what was landed on {night(2)} has expired (ROLLBOOK_KEEP_DAYS); the history keeps what it said"
    with pytest.raises(NothingLandedError) as refused:
        thinned.house.rollbook().backfill(night(2), night(2))
    assert refused.value.message == message
    done = thinned.house.rollbook().backfill(night(1), night(10))
    assert list(done.rebuilt) == [night(n) for n in range(6, 11)]
    assert done.skipped[night(2)] == message
    assert thinned.house.tables() == thinned.expected.tables()


# --- the tables are the same without the days that are gone ----------------------------------------------------------


@pytest.fixture(scope="module")
def source() -> Iterator[Path]:
    with landed() as (made, _):
        yield made


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("least", [3, 100], ids=["bunches would be folded anew", "bunches are spliced"])
def test_days_that_come_in_any_order_and_go_again_make_the_tables_of_those_that_stayed(
    source: Path, monkeypatch: pytest.MonkeyPatch, seed: int, least: int
) -> None:
    """The newest of all comes first and stays, as untracked values are those of the last day that is on disk."""
    monkeypatch.setattr(history_module, "REBUILD_LEAST", least)
    draw = random.Random(seed)
    order = [LAST, *draw.sample(DAYS[:-1], len(DAYS) - 1)]
    expected = export(source / "rollbook.duckdb", RECORDS)
    with folder() as made:
        while order:
            count = draw.randint(1, 5)
            bunch, order = order[:count], order[count:]
            book = fortnight_book(copy(source, made, bunch))
            with book.writer():
                book.publish()
                landed_days = [d for d in book.lake.days() if d != LAST]
                book.recovery.expire(draw.sample(landed_days, draw.randint(0, len(landed_days))))
        assert len(fortnight_book(made).raw.expired()) > 3
        assert export(made / "rollbook.duckdb", RECORDS) == expected


# --- killed while deleting --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "about", "number"),
    [
        ("pathlib.Path.rename", "", 1),
        ("shutil.rmtree", "", 1),
        ("pipelines.store.lake.Lake.drop", "", 1),
        ("shutil.rmtree", "snapshots", 5),
    ],
    ids=["rename", "rmtree", "lake", "half the lake"],
)
def test_a_writer_killed_while_deleting_is_finished_by_the_next(
    nights: ChangingNights, monkeypatch: pytest.MonkeyPatch, call: str, about: str, number: int
) -> None:
    class Killed(BaseException):
        pass

    real, calls = pkgutil.resolve_name(call), itertools.count(1)

    def die(of: object, *args: Any, **named: Any) -> Any:
        if about in str(of) and next(calls) == number:
            raise Killed
        return real(of, *args, **named)

    nights.play(8)
    with monkeypatch.context() as dying:
        dying.setattr(call, die)
        with pytest.raises(Killed):
            prune_now(nights.house.rollbook(keep_days=3))
    nights.play(1, keep_days=3)
    assert nights.house.tables() == nights.expected.tables()
    left_days = [night(n) for n in range(6, 10)]
    assert nights.days("raw") == left_days
    for table in (*TABLES, "observed"):
        assert nights.days(f"snapshots/{table}") == left_days
    assert left_over(nights.house.warehouse) == []
    assert nights.house.query("SELECT MIN(snapshot_date) FROM snapshots.students") == [(night(7),)]
