"""The same seed, size, opening and day give the same records, always."""

import hashlib
import json
import os
import random
import subprocess
import sys
from datetime import date

import pytest

from pipelines.errors import ArgumentError
from pipelines.sandbox import Day, Institution
from pipelines.settings import ROOT
from tests.sandbox.rows import days_until

FORTNIGHT = days_until(date(2026, 11, 20), 14)
# Prints the digest of a day, as another process has it.
DIGEST = f"""
from datetime import date
from pipelines.sandbox import Institution
from tests.sandbox.test_same import digest
print(digest(Institution(300, seed=7).on(date.fromisoformat("{FORTNIGHT[-1]}"))))
"""


def digest(day: Day) -> str:
    records = [day.students, day.classes, day.detail(day.student_ids[0])]
    return hashlib.sha256(json.dumps(records).encode()).hexdigest()


def test_the_order_in_which_days_are_asked_for_changes_nothing() -> None:
    forwards = Institution(300, seed=7)
    expected = {day: digest(forwards.on(day)) for day in FORTNIGHT}
    assert len(set(expected.values())) == len(FORTNIGHT)

    shuffled = Institution(300, seed=7)
    order = FORTNIGHT * 2
    random.Random(5).shuffle(order)
    assert {day: digest(shuffled.on(day)) for day in order} == expected
    for day in FORTNIGHT[::-1]:
        assert digest(Institution(300, seed=7).on(day)) == expected[day]


def test_another_process_with_another_hash_seed_gives_the_same_records() -> None:
    expected = digest(Institution(300, seed=7).on(FORTNIGHT[-1]))
    for hash_seed in ("1", "2"):
        env = os.environ | {"PYTHONHASHSEED": hash_seed}
        printed = subprocess.check_output([sys.executable, "-c", DIGEST], cwd=ROOT, env=env, text=True, timeout=60)
        assert printed.strip() == expected


def test_another_seed_size_or_opening_makes_another_school() -> None:
    day = FORTNIGHT[-1]
    schools = [
        Institution(300, seed=7),
        Institution(300, seed=8),
        Institution(301, seed=7),
        Institution(300, seed=7, opened=date(2024, 8, 1)),
    ]
    assert len({digest(school.on(day)) for school in schools}) == len(schools)


@pytest.mark.parametrize("students", [1, 2, 10, 50, 500, 5000])
def test_about_as_many_students_are_listed_as_were_asked_for(students: int) -> None:
    institution = Institution(students)
    for day in days_until(date(2027, 1, 31), 40):
        assert abs(len(institution.on(day).student_ids) - students) <= max(2, students * 0.01)


def test_a_school_opens_on_any_weekday_and_cannot_be_asked_for_earlier_days() -> None:
    for opened in days_until(date(2026, 8, 9), 7):
        school = Institution(40, opened=opened)
        first = school.on(opened)
        dates = [student["registration_date"] for student in first.students]
        assert set(dates) == {opened.isoformat()}
        assert {record["class_dateadded"] for record in first.classes} == {opened.isoformat()}
        assert not any(student["summary"]["total_time_minutes"] > 600 for student in first.students)
        with pytest.raises(ArgumentError, match=f"opened on {opened}"):
            school.on(days_until(opened, 2)[0])


def test_a_school_of_nobody_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least 1"):
        Institution(0)
