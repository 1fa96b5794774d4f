"""Searches belong to the proof: a list that lacks what a search finds is short, or the service hides a few (G2)."""

from __future__ import annotations

import pytest

from rollbook.landing.manifest import Verdict
from rollbook.night import past
from tests.support.nights import Expected, House, night
from tests.support.records import student, students
from tests.support.warehouses.holds import first_night
from tests.support.wire import faults

pytestmark = pytest.mark.nights

FINDING = "SELECT about, how_many, since, last_seen, description FROM data_quality WHERE kind = 'hidden'"


def hidden_since(house: House, number: int) -> list[object]:
    """For how long the searched students of a night are known as hidden."""
    return [a.hidden_since for a in house.landings(night(number))[-1].absences]


def test_a_few_hidden_students_stay_current_with_a_dated_finding(one_class: House) -> None:
    expected = first_night(one_class, students(60))
    one_class.service.hide(7, 8)
    for number in (2, 3):
        one_class.night(number, [*students(60), student(100 + number)])
    expected.night(2, [*students(60), student(102)], one_class.service.classes)
    assert one_class.tables() == expected.night(3, [*students(60), student(103)], one_class.service.classes).tables()
    assert one_class.query(FINDING) == [
        (
            "students",
            2,
            night(2),
            night(3),
            "2 students stay current because a search finds them, though the service has listed them nowhere since"
            f" {night(2)}",
        )
    ]
    assert [m.walks[0].walks for n in (2, 3) for m in one_class.landings(night(n))] == [2, 1]
    one_class.service.mend()
    one_class.night(4, students(60))
    assert one_class.query(FINDING) == []


@pytest.mark.story
def test_a_short_list_is_unproven_every_night_and_adds_newcomers(one_class: House) -> None:
    first_night(one_class, students(60))
    one_class.service.hide(*range(1, 21))
    for number in (2, 3):
        done = one_class.night(number, [*students(60), student(100 + number)])
        assert done.manifest.verdict is Verdict.UNPROVEN
        assert done.manifest.reason == (
            "students could not be proven complete (20 records are found by search and listed by no walk), so nothing"
            " was removed from them"
        )
    assert one_class.query("SELECT COUNT(*) FROM students") == [(62,)]
    assert {*hidden_since(one_class, 3)} == {None}


def test_the_day_of_a_hidden_student_is_kept_over_an_unproven_night(one_class: House) -> None:
    first_night(one_class, students(60))
    one_class.service.hide(7)
    one_class.night(2, students(60))
    one_class.service.on(faults.stated(page=9), path="students", times=3)
    one_class.night(3, students(60))
    one_class.night(4, students(60))
    assert hidden_since(one_class, 3) == []
    assert hidden_since(one_class, 4) == [night(2)]


def test_a_slip_of_the_list_removes_nobody_and_brings_who_joined(one_class: House) -> None:
    expected: Expected = first_night(one_class, students(60))
    tonight = [*students(60), student(99)]
    one_class.service.on(
        lambda request, reply: one_class.service.listed(request, students(40)), path="students", times=1
    )
    done = one_class.night(2, tonight)
    assert done.manifest.proven
    assert {a.answer for a in done.manifest.absences} == {"listed_again"}
    assert one_class.tables() == expected.night(2, tonight, one_class.service.classes).tables()
    past.rebuild(one_class.rollbook().writer())
    assert one_class.tables() == expected.tables()


def test_who_left_is_removed_where_an_empty_search_is_answered_404(one_class: House) -> None:
    expected = first_night(one_class, students(60))
    one_class.service.on(faults.no_match(404), path="students", search=True, times=None)
    done = one_class.night(2, students(58))
    assert (done.manifest.proven, {a.answer for a in done.manifest.absences}) == (True, {"removed"})
    assert one_class.tables() == expected.night(2, students(58), one_class.service.classes).tables()
    past.rebuild(one_class.rollbook().writer())
    assert one_class.tables() == expected.tables()


@pytest.mark.parametrize(
    ("held", "stored"),
    [
        ("zoe\u0301@school.example", "zo\u00e9@school.example"),  # decomposed
        ("o&#039;brien@school.example", "o'brien@school.example"),
        ("m&uuml;ller@school.example", "m\u00fcller@school.example"),
    ],
)
def test_a_search_finds_an_email_that_the_service_writes_differently(one_class: House, held: str, stored: str) -> None:
    """The service compares bytes, and the warehouse stores the composed letter, without HTML's references."""
    everybody = [*students(6), student(7, email=held, reference_id=None), *students(50, first=8)]
    first_night(one_class, everybody)
    one_class.service.hide(7)
    one_class.night(2, everybody)
    assert one_class.query("SELECT email FROM students WHERE student_id = 7") == [(stored,)]
    assert [a.answer for a in one_class.landings(night(2))[-1].absences] == ["found_by_search"]
