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


def test_a_late_approval_keeps_whom_a_newer_list_hides(one_class: House) -> None:
    first_night(one_class, students(20))
    is_held(one_class, 2, [*renamed(students(20)), student(100)])
    one_class.service.hide(100)
    one_class.night(3, [*students(20), student(100)])
    assert answers(one_class, 3) == {100: "still_known"}
    one_class.at(3).approve()
    assert 100 in listed(one_class)
    assert spans(one_class, 100) == [(2, None)]
    one_class.night(4)
    assert answers(one_class, 4) == {100: "found_by_search"}
    assert spans(one_class, 100) == [(2, None)]
    before = one_class.tables()
    past.rebuild(one_class.rollbook().writer(), confirm=always)
    assert one_class.tables() == before


def test_a_later_search_removes_whom_only_a_held_night_states(one_class: House) -> None:
    first_night(one_class, students(20))
    is_held(one_class, 2, [*renamed(students(20)), student(100)])
    one_class.night(3, students(20))
    assert answers(one_class, 3) == {100: "removed"}
    one_class.approve()
    assert (100 in listed(one_class), spans(one_class, 100)) == (False, [(2, 3)])
    said = dict(trace(one_class.warehouse, "students", (100,)).lines)
    assert said["row"] == f"students 100: removed on {night(3)}"
    assert said["searched"] == "by reference_id, email: removed"


def test_without_spare_searches_a_late_approval_leaves_asking_to_the_next_night(one_class: House) -> None:
    first_night(one_class, students(20))
    is_held(one_class, 2, [*renamed(students(20)), student(100)])
    one_class.night(3, students(20), over={"verify_most": 0})
    assert (one_class.landings(night(3))[-1].proven, answers(one_class, 3)) == (True, {})
    one_class.approve()
    assert spans(one_class, 100) == [(2, None)]
    one_class.night(4)
    assert (answers(one_class, 4), spans(one_class, 100)) == ({100: "removed"}, [(2, 4)])


def test_the_searches_for_the_current_come_first(one_class: House) -> None:
    first_night(one_class, students(20))
    is_held(one_class, 2, [*renamed(students(20)), *students(3, first=100)])
    one_class.night(3, students(18), over={"verify_most": 3})
    assert answers(one_class, 3) == {19: "removed", 20: "removed", 100: "removed"}


def test_a_discarded_search_takes_its_removal_along_until_the_next_search(one_class: House) -> None:
    first_night(one_class, students(20))
    one_class.night(2, students(19))
    one_class.night(3, students(19))
    assert (answers(one_class, 2), answers(one_class, 3), spans(one_class, 20)) == ({20: "removed"}, {}, [(1, 2)])
    discard(one_class.rollbook().writer(), night(2), reason="a wrong list", confirm=always)
    assert spans(one_class, 20) == [(1, None)]
    one_class.night(4, students(19))
    assert (answers(one_class, 4), spans(one_class, 20)) == ({20: "removed"}, [(1, 4)])
    undo_discard(one_class.rollbook().writer(), night(2), confirm=always)
    assert spans(one_class, 20) == [(1, 2)]
    one_class.night(5, students(20))
    discard(one_class.rollbook().writer(), night(4), reason="a wrong list", confirm=always)
    assert spans(one_class, 20) == [(1, 2), (5, None)]


def test_a_discarded_newcomer_is_searched_for_before_the_discard_is_undone(one_class: House) -> None:
    first_night(one_class, students(20))
    one_class.night(2, [*students(20), student(100), student(101)])
    discard(one_class.rollbook().writer(), night(2), reason="a wrong list", confirm=always)
    one_class.service.hide(100)
    one_class.night(3, [*students(20), student(100)])
    assert answers(one_class, 3) == {100: "still_known", 101: "removed"}
    assert not {100, 101} & listed(one_class)
    undo_discard(one_class.rollbook().writer(), night(2), confirm=always)
    assert (spans(one_class, 100), spans(one_class, 101)) == ([(2, None)], [(2, 3)])


@pytest.mark.story
def test_approving_all_held_nights_removes_none_whom_a_search_finds(one_class: House) -> None:
    first_night(one_class, students(60))
    is_held(one_class, 2, renamed([*students(60), *students(9, first=100)]))
    one_class.service.hide(*range(100, 109))
    everybody = renamed([*students(60), *students(9, first=100)])
    is_held(one_class, 3, [record | {"email": f"n{record['id']}@school.example"} for record in everybody])
    for number in (2, 3):
        one_class.at(3).approve(night(number))
    assert {*range(100, 109)} <= listed(one_class)


@pytest.mark.story
def test_a_search_for_whom_a_held_night_states_never_holds_or_unproves(one_class: House) -> None:
    first_night(one_class, students(20))
    is_held(one_class, 2, [*renamed(students(20)), *students(9, first=100)])
    one_class.service.hide(*range(100, 109))
    one_class.night(3, [*students(20), *students(9, first=100)])
    newest = one_class.landings(night(3))[-1]
    assert (newest.verdict, newest.reason, newest.walks[0].walks) == (Verdict.SYNCED, "", 1)
    assert {*answers(one_class, 3).values()} == {"still_known"}
    assert len(listed(one_class)) == 20


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_a_years_end_is_approved_once_and_goes_in_any_order(one_class: House, order: tuple[int, int]) -> None:
    first_night(one_class, students(60))
    over = {"verify_most": 5}
    for number in (2, 3):
        is_held(one_class, number, students(30), over=over)
    assert one_class.landings(night(2))[-1].unverified == {"students": tuple(range(31, 61))}
    for number in order:
        one_class.at(3).approve(night(number), over=over)
    assert (len(listed(one_class)), spans(one_class, 31)) == (30, [(1, 2)])
    said = dict(trace(one_class.warehouse, "students", (31,)).lines)
    assert said["searched"] == "not at all: too many had vanished, and a person approved of that"
