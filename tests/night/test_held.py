"""What `rollbook held` says would go is what an approval then takes away; nothing changes before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rollbook.errors import ArgumentError, BehindError
from rollbook.night import approvals
from rollbook.night.held import Going, going
from tests.support.nights import House, new_house, night
from tests.support.processes.machines import left_over
from tests.support.records import classes, school_class, student, students
from tests.support.warehouses.holds import is_held

pytestmark = pytest.mark.nights

LISTED = [{"class_id": 502, "class_title": "Class 502", "course_name": "Algebra"}]


@pytest.fixture
def empty_school() -> Iterator[House]:
    with new_house() as house:
        yield house


def look(house: House, **of: Any) -> Going:
    rollbook = house.rollbook()
    return going(rollbook.place, approvals.to_approve(rollbook.place, **of)[-1], rollbook.settings)


def test_it_names_who_would_go_by_class_and_changes_nothing(empty_school: House) -> None:
    both = [*students(10), *(student(number, classes=LISTED) for number in range(11, 21))]
    empty_school.night(1, both, [*classes(1), school_class(502, class_title="Class 502")])
    empty_school.service.classes = classes(1)
    is_held(empty_school, 2, [*students(6), student(11, classes=LISTED)])
    before, left = empty_school.state(), left_over(empty_school.warehouse)
    would = look(empty_school)
    assert empty_school.state() == before
    assert left_over(empty_school.warehouse) == left
    gone = [*range(7, 11), *range(12, 21)]
    assert sorted(i for i, _ in would.students) == gone
    assert dict(would.students)[7] == "Pupil Number7"
    assert would.classes == (("Class 502", 10, 9, True), (classes(1)[0]["class_title"], 10, 4, False))
    (of_students,) = (count for count in would.counts if count.table == "students")
    assert (of_students.before, of_students.removed) == (20, len(gone))
    was = set(empty_school.query("SELECT student_id FROM students"))
    empty_school.approve()
    assert {i for (i,) in was - set(empty_school.query("SELECT student_id FROM students"))} == {*gone}


def test_of_a_day_before_the_newest_it_shows_what_readers_would_lose(empty_school: House) -> None:
    empty_school.night(1, students(20), classes(1))
    is_held(empty_school, 2, students(8))
    empty_school.night(3, students(20))
    would = look(empty_school, day=night(2))
    assert (would.students, would.classes) == ((), ())  # they came back


def test_it_says_that_nothing_is_held_or_the_file_is_behind(empty_school: House) -> None:
    empty_school.night(1, students(20), classes(1))
    with pytest.raises(ArgumentError, match="Nothing is held"):
        look(empty_school)
    is_held(empty_school, 2, students(8))
    empty_school.lose_published()
    with pytest.raises(BehindError):
        look(empty_school)
