"""Taking back what was landed: `rollbook discard`, after which history is as if it had never counted (G7)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from unittest.mock import patch

import pytest

from rollbook.errors import ArgumentError, HeldError
from rollbook.landing.manifest import Hold, Verdict
from rollbook.night import past
from rollbook.night.discard import discard, undo_discard
from rollbook.night.past import always
from rollbook.night.recovery import Recovery
from tests.support.nights import Expected, House, new_house, night, status_of
from tests.support.records import Records, classes, school_class, student, students
from tests.support.tiers import daily
from tests.support.wire import faults

pytestmark = pytest.mark.nights

TONIGHT: dict[int, tuple[Records, Records]] = {
    1: (students(12), classes(2)),
    2: ([*students(11), student(20, name="New Here")], classes(2)),
    3: ([student(1, name="Renamed", classes=[]), *students(11, first=2)], [school_class(501, class_room="C 3")]),
    4: ([*students(11), student(20, name="New Here")], classes(3)),
    5: (students(12), classes(2)),
}


@pytest.fixture(scope="module")
def five_nights() -> Iterator[Path]:
    """To be copied, not changed."""
    with new_house(hold_changed_percent=100) as house:
        for number, shown in TONIGHT.items():
            house.night(number, *shown)
        yield house.warehouse


@pytest.fixture
def after_five_nights(five_nights: Path) -> Iterator[House]:
    with new_house(*TONIGHT[5], hold_changed_percent=100) as house:
        shutil.copytree(five_nights, house.warehouse, symlinks=True)
        yield house.at(5)


def of(*numbers: int) -> Expected:
    expected = Expected()
    for number in numbers:
        expected.night(number, *TONIGHT[number])
    return expected


def test_a_discarded_landing_of_another_school_is_not_put_back() -> None:
    with new_house(students(3), classes(1)) as house:
        house.night(1)
        discard(house.rollbook().writer(), night(1), reason="another school's key", confirm=always)
        house.service.school = {**house.service.school, "id": 42}
        house.night(2)
        before = house.tables()
        with pytest.raises(ArgumentError, match="of institution 41, and this warehouse holds institution 42"):
            undo_discard(house.rollbook().writer(), night(1), confirm=always)
        assert house.tables() == before


@pytest.mark.parametrize("number", daily([1, 2, 3, 4, 5], 3))
def test_a_discarded_day_is_as_if_never_landed_until_put_back(after_five_nights: House, number: int) -> None:
    before = after_five_nights.tables()
    discarded = discard(after_five_nights.rollbook().writer(), night(number), reason="nonsense", confirm=always)
    assert (discarded.snapshot_date, discarded.landing) == (night(number), 1)
    left = [n for n in TONIGHT if n != number]
    assert after_five_nights.tables() == of(*left).tables()
    aside = after_five_nights.warehouse / "raw" / f"snapshot_date={night(number)}" / "discarded=1"
    assert {p.name for p in aside.iterdir()} == {"bodies.zst", "pages.jsonl", "manifest.json", "discard.json"}
    past.rebuild(after_five_nights.rollbook().writer(), confirm=always)
    assert after_five_nights.tables() == of(*left).tables()
    back = undo_discard(after_five_nights.rollbook().writer(), night(number), confirm=always)
    assert (back.landing, back.verdict) == (1, Verdict.SYNCED)
    assert after_five_nights.tables() == before
    assert after_five_nights.rollbook().raw.discarded() == []


def test_a_discarded_landing_leaves_a_later_unproven_one(after_five_nights: House) -> None:
    after_five_nights.service.students = [*students(12), student(90)]
    after_five_nights.service.on(faults.moved_total(1), path="students", page=1, times=None)
    after_five_nights.sync()
    discard(after_five_nights.rollbook().writer(), night(5), 1, reason="", confirm=always)
    # The class that the first landing searched for was not current any more: the second did not ask about it.
    expected = of(1, 2, 3, 4).night(5, after_five_nights.service.students, classes(2), unproven=["students", "classes"])
    assert after_five_nights.tables() == expected.tables()


# --- what is asked, refused and said ---------------------------------------------------------------------------------


@pytest.mark.story
def test_it_shows_what_would_change_and_changes_nothing_unless_that_is_confirmed(after_five_nights: House) -> None:
    before, shown = after_five_nights.state(), list[Hold]()

    def refuse(what: Hold) -> bool:
        shown.append(what)
        return False

    with pytest.raises(HeldError, match="Nothing was changed") as held:
        discard(after_five_nights.rollbook().writer(), night(5), reason="", confirm=refuse)
    assert held.value.exit_code == 3
    moved = {c.table: (c.added, c.changed, c.removed) for c in shown[0].counts if c.added or c.changed or c.removed}
    assert moved["students"] == (1, 0, 1)
    assert moved["classes"] == (1, 0, 0)
    assert after_five_nights.state() == before
    assert after_five_nights.rollbook().raw.discarded() == []


@pytest.mark.parametrize(
    ("day", "landing", "says"),
    [
        (9, None, "Nothing was landed on 2026-11-28, so there is nothing to discard"),
        (5, 7, r"2026-11-24 has no landing 7; it has 1 \(synced\). Name one of them with --landing"),
    ],
)
def test_discarding_a_missing_landing_is_refused(
    after_five_nights: House, day: int, landing: int | None, says: str
) -> None:
    with pytest.raises(ArgumentError, match=says):
        discard(after_five_nights.rollbook().writer(), night(day), landing, reason="")


@pytest.mark.slow
def test_an_expired_day_can_be_neither_discarded_nor_put_back(after_five_nights: House) -> None:
    discard(after_five_nights.rollbook().writer(), night(2), reason="", confirm=always)
    after_five_nights.over["keep_days"] = 1
    after_five_nights.at(6).sync()
    after_five_nights.at(7).sync()
    raw = after_five_nights.rollbook().raw
    assert raw.days() == [night(6), night(7)]
    assert raw.discarded_days() == []
    refused: list[Callable[[date], object]] = [
        lambda day: discard(after_five_nights.rollbook().writer(), day, reason=""),
        lambda day: undo_discard(after_five_nights.rollbook().writer(), day),
    ]
    for work in refused:
        with pytest.raises(ArgumentError, match="has expired"):
            work(night(1))
    assert after_five_nights.tables() == of(1, 3, 4, 5).night(6, *TONIGHT[5]).night(7, *TONIGHT[5]).tables()


def syncs(house: House) -> list[tuple[object, ...]]:
    """The record of the night's syncs, as readers have it."""
    return house.query("SELECT outcome, verdict, proven FROM ops.syncs WHERE snapshot_date = '2026-11-25'")


def test_a_discard_of_a_held_landing_is_published_at_once(after_five_nights: House) -> None:
    with pytest.raises(HeldError):
        after_five_nights.night(6, students(2))
    after_five_nights.night(7, students(12))
    assert syncs(after_five_nights) == [("held", "held", True)]
    discard(after_five_nights.rollbook().writer(), night(6), reason="nonsense", confirm=always)
    assert syncs(after_five_nights) == [("discarded", "held", True)]
    undo_discard(after_five_nights.rollbook().writer(), night(6), confirm=always)
    assert syncs(after_five_nights) == [("held", "held", True)]


@pytest.mark.slow
def test_ops_and_the_status_say_what_was_discarded(after_five_nights: House) -> None:
    discard(after_five_nights.rollbook().writer(), night(5), reason="the clock was wrong", confirm=always)
    query = "SELECT outcome, verdict, reason FROM ops.syncs WHERE snapshot_date = '2026-11-24'"
    assert after_five_nights.query(query) == [("discarded", "synced", "the clock was wrong")]
    assert status_of(after_five_nights.rollbook()).discarded[0].reason == "the clock was wrong"
    undo_discard(after_five_nights.rollbook().writer(), night(5), confirm=always)
    assert after_five_nights.query(query) == [("synced", "synced", "")]
    assert status_of(after_five_nights.rollbook()).discarded == ()


def test_the_record_of_syncs_follows_though_the_day_stays(after_five_nights: House) -> None:
    after_five_nights.sync()
    recorded = "SELECT landing, outcome FROM ops.syncs WHERE snapshot_date = DATE '2026-11-24' ORDER BY 1"
    discard(after_five_nights.rollbook().writer(), night(5), 1, reason="seen twice")
    assert after_five_nights.query(recorded) == [(1, "discarded"), (2, "synced")]
    killed = patch.object(Recovery, "recover_lake", side_effect=[None, KeyboardInterrupt])
    with killed, pytest.raises(KeyboardInterrupt):
        undo_discard(after_five_nights.rollbook().writer(), night(5))
    with after_five_nights.rollbook().writer().writing():
        pass
    assert after_five_nights.query(recorded) == [(1, "synced"), (2, "synced")]
