"""Nights whose files repeat the night before: nothing changes, unless the proofs do."""

from __future__ import annotations

import pytest

from tests.support.nights import CLASS_TABLES, STUDENT_TABLES, Expected, House
from tests.support.records import classes, student, students
from tests.support.wire import faults

pytestmark = pytest.mark.nights


def test_a_night_counts_what_it_changes_and_what_it_leaves_alone(one_class: House) -> None:
    one_class.night(1, students(9), classes(2))
    changed = [student(1, email="another@school.example"), *students(8, first=2)]
    done = one_class.night(2, changed)
    rows = {c.table: (c.before, c.added, c.changed, c.removed) for c in done.counts}
    nine, two = dict.fromkeys(STUDENT_TABLES, (9, 0, 0, 0)), dict.fromkeys(CLASS_TABLES, (2, 0, 0, 0))
    assert rows == {
        "institution": (1, 0, 0, 0),
        "student_details": (0, 0, 0, 0),
        **nine,
        **two,
        "students": (9, 0, 1, 0),
    }
    assert one_class.tables() == Expected().night(1, students(9), classes(2)).night(2, changed, classes(2)).tables()


@pytest.mark.story
def test_a_proven_night_removes_whom_an_unproven_one_only_missed(one_class: House) -> None:
    left = students(8)
    expected = Expected().night(1, students(9), classes(2)).night(2, left, classes(2), unproven=["students"])
    one_class.night(1, students(9), classes(2))
    one_class.service.on(faults.stated(total_count=9), path="students", times=None)
    one_class.night(2, left)
    assert one_class.tables() == expected.tables()
    one_class.service.mend()
    one_class.night(3, left)
    assert one_class.tables() == expected.night(3, left, classes(2)).tables()
