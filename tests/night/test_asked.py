"""A landing takes out only those whom it asked about, whatever is approved, discarded or put back later (G2)."""

from __future__ import annotations

import pytest

from rollbook.features.why.provenance import trace
from rollbook.landing.manifest import Verdict
from rollbook.night import past
from rollbook.night.discard import discard, undo_discard
from rollbook.night.past import always
from tests.support.nights import House, night
from tests.support.records import Records, student, students
from tests.support.warehouses.holds import first_night, is_held

pytestmark = pytest.mark.nights


def renamed(records: Records) -> Records:
    """So many changes that the night is held."""
    return [record | {"name": f"Renamed {record['id']}"} for record in records]


def listed(house: House) -> set[int]:
    """The students whom readers have."""
    return {number for (number,) in house.query("SELECT student_id FROM students")}


def spans(house: House, student_id: int) -> list[tuple[object, ...]]:
    """The versions of a student, as days from night 1 on."""
    day = f"date_diff('day', DATE '{night(1)}', {{}}) + 1"
    columns = f"{day.format('valid_from')}, {day.format('valid_to')}"
    return house.query(f"SELECT {columns} FROM history.students WHERE student_id = {student_id} ORDER BY valid_from")


def answers(house: House, number: int) -> dict[int, str]:
    """The answers to a night's searches."""
    return {a.id: a.answer for a in house.landings(night(number))[-1].absences}


def test_a_late_approval_keeps_whom_a_newer_list_hides(house: House) -> None:
    first_night(house, students(20))
    is_held(house, 2, [*renamed(students(20)), student(100)])
    house.service.hide(100)
    house.night(3, [*students(20), student(100)])
    assert answers(house, 3) == {100: "still_known"}
    house.at(3).approve()
    assert 100 in listed(house)
    assert spans(house, 100) == [(2, None)]
    house.night(4)
    assert answers(house, 4) == {100: "found_by_search"}
    assert spans(house, 100) == [(2, None)]
    before = house.tables()
    past.rebuild(house.rollbook().writer(), confirm=always)
    assert house.tables() == before


def test_a_later_search_removes_whom_only_a_held_night_states(house: House) -> None:
    first_night(house, students(20))
    is_held(house, 2, [*renamed(students(20)), student(100)])
    house.night(3, students(20))
    assert answers(house, 3) == {100: "removed"}
    house.approve()
    assert (100 in listed(house), spans(house, 100)) == (False, [(2, 3)])
    said = dict(trace(house.warehouse, "students", (100,)).lines)
    assert said["row"] == f"students 100: removed on {night(3)}"
    assert said["searched"] == "by reference_id, email: removed"


def test_without_spare_searches_a_late_approval_leaves_asking_to_the_next_night(house: House) -> None:
    first_night(house, students(20))
    is_held(house, 2, [*renamed(students(20)), student(100)])
    house.night(3, students(20), over={"verify_most": 0})
    assert (house.landings(night(3))[-1].proven, answers(house, 3)) == (True, {})
    house.approve()
    assert spans(house, 100) == [(2, None)]
    house.night(4)
    assert (answers(house, 4), spans(house, 100)) == ({100: "removed"}, [(2, 4)])


def test_the_searches_for_the_current_come_first(house: House) -> None:
    first_night(house, students(20))
    is_held(house, 2, [*renamed(students(20)), *students(3, first=100)])
    house.night(3, students(18), over={"verify_most": 3})
    assert answers(house, 3) == {19: "removed", 20: "removed", 100: "removed"}


def test_a_discarded_search_takes_its_removal_along_until_the_next_search(house: House) -> None:
    first_night(house, students(20))
    house.night(2, students(19))
    house.night(3, students(19))
    assert (answers(house, 2), answers(house, 3), spans(house, 20)) == ({20: "removed"}, {}, [(1, 2)])
    discard(house.rollbook().writer(), night(2), reason="a wrong list", confirm=always)
    assert spans(house, 20) == [(1, None)]
    house.night(4, students(19))
    assert (answers(house, 4), spans(house, 20)) == ({20: "removed"}, [(1, 4)])
    undo_discard(house.rollbook().writer(), night(2), confirm=always)
    assert spans(house, 20) == [(1, 2)]
    house.night(5, students(20))
    discard(house.rollbook().writer(), night(4), reason="a wrong list", confirm=always)
    assert spans(house, 20) == [(1, 2), (5, None)]


def test_a_discarded_newcomer_is_searched_for_before_the_discard_is_undone(house: House) -> None:
    first_night(house, students(20))
    house.night(2, [*students(20), student(100), student(101)])
    discard(house.rollbook().writer(), night(2), reason="a wrong list", confirm=always)
    house.service.hide(100)
    house.night(3, [*students(20), student(100)])
    assert answers(house, 3) == {100: "still_known", 101: "removed"}
    assert not {100, 101} & listed(house)
    undo_discard(house.rollbook().writer(), night(2), confirm=always)
    assert (spans(house, 100), spans(house, 101)) == ([(2, None)], [(2, 3)])


@pytest.mark.story
def test_approving_all_held_nights_removes_none_whom_a_search_finds(house: House) -> None:
    first_night(house, students(60))
    is_held(house, 2, renamed([*students(60), *students(9, first=100)]))
    house.service.hide(*range(100, 109))
    everybody = renamed([*students(60), *students(9, first=100)])
    is_held(house, 3, [record | {"email": f"n{record['id']}@school.example"} for record in everybody])
    for number in (2, 3):
        house.at(3).approve(night(number))
    assert {*range(100, 109)} <= listed(house)


@pytest.mark.story
def test_a_search_for_whom_a_held_night_states_never_holds_or_unproves(house: House) -> None:
    first_night(house, students(20))
    is_held(house, 2, [*renamed(students(20)), *students(9, first=100)])
    house.service.hide(*range(100, 109))
    house.night(3, [*students(20), *students(9, first=100)])
    newest = house.landings(night(3))[-1]
    assert (newest.verdict, newest.reason, newest.walks[0].walks) == (Verdict.SYNCED, "", 1)
    assert {*answers(house, 3).values()} == {"still_known"}
    assert len(listed(house)) == 20


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_a_years_end_is_approved_once_and_goes_in_any_order(house: House, order: tuple[int, int]) -> None:
    first_night(house, students(60))
    over = {"verify_most": 5}
    for number in (2, 3):
        is_held(house, number, students(30), over=over)
    assert house.landings(night(2))[-1].unverified == {"students": tuple(range(31, 61))}
    for number in order:
        house.at(3).approve(night(number), over=over)
    assert (len(listed(house)), spans(house, 31)) == (30, [(1, 2)])
    said = dict(trace(house.warehouse, "students", (31,)).lines)
    assert said["searched"] == "not at all: too many had vanished, and a person approved of that"
