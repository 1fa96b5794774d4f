"""One bad record costs one record, and too many of them the sync (G9), through whole syncs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pipelines.errors import ContractChangedError
from pipelines.landing.manifest import Verdict
from pipelines.sync.whole import always
from tests.support.nights import Expected, House, night
from tests.support.records import MISSING, Record, classes, entry, school_class, student, students, within
from tests.support.warehouses.begun import begin
from tests.support.warehouses.erasures import erase
from tests.support.wire import faults

# --- the rules -------------------------------------------------------------------------------------------------------

REQUIRED = "object missing required field"
ACTIVITY, MISSED, ASSIGNMENTS = "activity_tracking", "assignment_missing_count", "assignment_activity"
# What is wrong with a student, and the reason in words.
STUDENTS: list[tuple[Record, str]] = [
    ({"email": MISSING}, f"{REQUIRED} email"),
    ({"email": None}, "email: expected str, got null"),
    ({"email": 5}, "email: expected str, got int"),
    ({"name": MISSING}, f"{REQUIRED} name"),
    ({"name": None}, "name: expected str, got null"),
    ({"name": ["Pupil"]}, "name: expected str, got array"),
    ({"registration_date": MISSING}, f"{REQUIRED} registration_date"),
    ({"registration_date": None}, "registration_date: expected date, got null"),
    ({"registration_date": "2025-02-30"}, "registration_date: not a date (YYYY-MM-DD)"),
    ({"registration_date": "01.09.2025"}, "registration_date: not a date (YYYY-MM-DD)"),
    ({"registration_date": "2025-09-01T08:00:00"}, "registration_date: not a date (YYYY-MM-DD)"),
    ({"registration_date": ""}, "registration_date: not a date (YYYY-MM-DD)"),
    ({"registration_date": 20250901}, "registration_date: expected date, got int"),
    ({"is_registered": MISSING}, f"{REQUIRED} is_registered"),
    ({"is_registered": None}, "is_registered: expected int, got null"),
    ({"is_registered": "1"}, "is_registered: expected int, got str"),
    ({"is_registered": True}, "is_registered: expected int, got bool"),
    ({"is_registered": 0.5}, "is_registered: expected int, got float"),
    ({"summary": MISSING}, f"{REQUIRED} summary"),
    ({"summary": None}, "summary: expected object, got null"),
    ({"summary": []}, "summary: expected object, got array"),
    ({"first_name": 7}, "first_name: expected str | null, got int"),
    ({"reference_id": 1007}, "reference_id: expected str | null, got int"),
    ({"profile_image": {}}, "profile_image: expected str | null, got object"),
    (within("summary", total_assignments="20"), "summary.total_assignments: expected int | null, got str"),
    (within("summary", total_assignments=20.5), "summary.total_assignments: expected int | null, got float"),
    (within("summary", total_assignments=10**11 + 1), "summary.total_assignments: expected int <= 100000000000"),
    (within("summary", total_assignments=2.0**53), "summary.total_assignments: expected int | null, got float"),
    (within("summary", total_time_minutes=1.764e12), "summary.total_time_minutes: expected float <= 100000000000.0"),
    (within("summary", completion_rate="75"), "summary.completion_rate: expected float | null, got str"),
    (within("summary", completion_rate=100.1), "summary.completion_rate: expected float <= 100.0"),
    (within("summary", completion_rate=-0.1), "summary.completion_rate: expected float >= 0.0"),
    (within("summary", average_score=101), "summary.average_score: expected float <= 100.0"),
    (within("summary", total_time_minutes=True), "summary.total_time_minutes: expected float | null, got bool"),
    (within("summary", last_activity_date="yesterday"), "summary.last_activity_date: not a date (YYYY-MM-DD)"),
    ({"activity_tracking": []}, "activity_tracking: expected object | null, got array"),
    (within(ACTIVITY, has_ever_logged_in=1), f"{ACTIVITY}.has_ever_logged_in: expected bool | null, got int"),
    (within(ACTIVITY, first_login_date="0000-00-00"), f"{ACTIVITY}.first_login_date: not a date (YYYY-MM-DD)"),
    (within(ACTIVITY, assignment_missing_count=""), f"{ACTIVITY}.{MISSED}: expected int | null, got str"),
    ({"classes": {}}, "classes: expected array | null, got object"),
    ({"classes": [501]}, "classes[0]: expected object, got int"),
    ({"classes": [entry(class_id=MISSING)]}, f"classes[0]: {REQUIRED} class_id"),
    ({"classes": [entry(class_id=None)]}, "classes[0].class_id: expected int, got null"),
    ({"classes": [entry(class_id="501")]}, "classes[0].class_id: expected int, got str"),
    ({"classes": [entry(class_id=0)]}, "classes[0].class_id: expected int >= 1"),
    ({"classes": [entry(class_id=2**63)]}, "classes[0].class_id: expected int <= 9223372036854775807"),
    ({"classes": [entry(), entry(class_id=502), entry()]}, "classes: the same class_id twice"),
    ({"classes": [entry(), entry(class_title="Another")]}, "classes: the same class_id twice"),
]  # fmt: skip
CLASSES: list[tuple[Record, str]] = [
    ({"class_title": MISSING}, f"{REQUIRED} class_title"),
    ({"class_title": None}, "class_title: expected str, got null"),
    ({"class_status": "active"}, "class_status: expected int | null, got str"),
    ({"class_dateadded": "soon"}, "class_dateadded: not a date (YYYY-MM-DD)"),
    ({"student_count": 2.5}, "student_count: expected int | null, got float"),
    ({"course": "Algebra"}, "course: expected object | null, got str"),
    (within("course", course_id=0), "course.course_id: expected int >= 1"),
    (within("teacher", teacher_id=-9), "teacher.teacher_id: expected int >= 1"),
    (within("teacher", email=9), "teacher.email: expected str | null, got int"),
    ({"summary": MISSING}, f"{REQUIRED} summary"),
    ({"summary": None}, "summary: expected object, got null"),
    ({"summary": {"average_completion_rate": 100.5}}, "summary.average_completion_rate: expected float <= 100.0"),
    ({"assignment_activity": MISSING}, f"{REQUIRED} assignment_activity"),
    ({"assignment_activity": None}, "assignment_activity: expected object, got null"),
    (within(ASSIGNMENTS, has_assignments="no"), f"{ASSIGNMENTS}.has_assignments: expected bool | null, got str"),
]  # fmt: skip


def test_each_rule_refuses_its_record_and_what_was_known_of_it_stays(house: House) -> None:
    """All rules at once: every fifth record breaks one. Nothing else is lost, and one who is gone is still removed."""
    good_students = students(5 * len(STUDENTS) + 1)
    good_classes = classes(5 * len(CLASSES), first=1001)
    begin(house, good_students, good_classes)
    # Everybody has a new name tonight; that of a refused record is not taken over.
    tonight = [student(s["id"], name="Pupil Renamed") if s["id"] % 2 else s for s in good_students]
    tonight = [student(s["id"], **(s | STUDENTS[i // 5][0])) if i % 5 == 0 else s for i, s in enumerate(tonight[:-1])]
    there = [school_class(c["class_id"], **CLASSES[i // 5][0]) if i % 5 == 0 else c for i, c in enumerate(good_classes)]
    house.night(2, tonight, there)

    refused = [s["id"] for s in tonight[::5]] + [c["class_id"] for c in there[::5]]
    expected = Expected().night(1, good_students, good_classes).night(2, tonight, there, refused=refused)
    assert house.tables() == expected.tables()
    assert len(house.tables()["main.students"]) == 5 * len(STUDENTS)
    listed = house.query(
        'SELECT snapshot_date, landing, set_name, page, "position", id, reason, record FROM ops.rejects'
        " ORDER BY set_name DESC, page, 5"
    )
    rejected = [
        (night(2), 1, name, 1 + i // 100, 1 + i % 100, records[i][key], rules[i // 5][1], text(records[i]))
        for name, key, rules, records in (
            ("students", "id", STUDENTS, tonight),
            ("classes", "class_id", CLASSES, there),
        )
        for i in range(0, len(records), 5)
    ]
    assert listed == rejected
    counts = "outcome, proven, rejected, verified, removed"
    assert house.query(f"SELECT {counts} FROM ops.syncs WHERE snapshot_date = DATE '{night(2)}'") == [
        ("synced", True, len(rejected), 1, 1)
    ]


def text(record: Record) -> str:
    return msgspec.json.encode(record).decode()


BAD_IDS: list[tuple[Any, str]] = [
    (MISSING, f"{REQUIRED} id"),
    (None, "id: expected int, got null"),
    (0, "id: expected int >= 1"),
    (-7, "id: expected int >= 1"),
    (2**63, "id: expected int <= 9223372036854775807"),
    ("7", "id: expected int, got str"),
    (7.5, "id: expected int, got float"),
    (True, "id: expected int, got bool"),
]


def test_an_id_that_cannot_be_read_refuses_the_record_and_leaves_the_set_unproven(house: House) -> None:
    """Nobody can tell whose record it is, so nobody is removed tonight; student 1 is, tomorrow."""
    house.over = {"walks": 1}
    begin(house, students(60))
    odd = [student(900, id=value) for value, _ in BAD_IDS]
    house.night(2, [*students(60)[1:], *odd])
    expected = (
        Expected().night(1, students(60), classes(1)).night(2, students(60)[1:], classes(1), unproven=["students"])
    )
    assert house.tables() == expected.tables()
    listed = house.query('SELECT set_name, page, "position", id, reason, record FROM ops.rejects ORDER BY 3')
    assert listed == [
        ("students", 1, 60 + i, None, reason, text(record))
        for i, (record, (_, reason)) in enumerate(zip(odd, BAD_IDS, strict=True))
    ]
    house.night(3, students(60)[1:])
    assert house.tables() == expected.night(3, students(60)[1:], classes(1)).tables()


def test_a_refused_record_found_by_search_is_not_a_removal(house: House) -> None:
    """The walk missed the student, and the record that the search found is refused: what was known stays."""
    begin(house, students(8))
    broken = student(5, email=None)
    house.service.on(faults.records(lambda data: [s for s in data if s["id"] != 5]), path="students", times=None)
    house.service.on(faults.stated(total_count=7), path="students", times=None)
    house.night(2, [broken if s["id"] == 5 else s for s in students(8)])
    expected = Expected().night(1, students(8), classes(1)).night(2, students(8), classes(1), refused=[5])
    assert house.tables() == expected.tables()
    assert house.query("SELECT found_by_search, removed, rejected FROM ops.syncs ORDER BY snapshot_date") == [
        (0, 0, 0),
        (1, 0, 1),
    ]


# --- when it is too many ---------------------------------------------------------------------------------------------


def test_more_than_five_and_a_fifth_refused_means_the_contract_has_changed(house: House) -> None:
    begin(house, students(10), classes(1))
    before = house.state()
    with pytest.raises(ContractChangedError) as caught:
        house.night(2, [student(i, email=None) if i <= 6 else student(i) for i in range(1, 11)])
    assert caught.value.exit_code == 1
    assert "6 of 10 students were refused" in caught.value.message
    assert house.state() == before
    (manifest,) = house.landings(night(2))
    assert (manifest.verdict, manifest.reason) == (Verdict.FAILED, caught.value.message)
    house.night(3, students(10))  # the failed night is recorded with the next publish, and counts for nothing
    expected = Expected().night(1, students(10), classes(1)).night(3, students(10), classes(1))
    assert house.tables() == expected.tables()
    assert house.query("SELECT id FROM ops.rejects ORDER BY 1") == [(i,) for i in range(1, 7)]


def test_a_day_with_as_many_refused_as_may_be_can_be_made_again_after_an_erasure(house: House) -> None:
    """It leaves fewer records, of which the refused ones are more than a fifth."""
    house.night(1, [student(i, email=None) if i <= 8 else student(i) for i in range(1, 41)], classes(1))
    erase(house, 40)
    before = house.tables()
    house.rollbook().rebuild(confirm=always)
    assert house.tables() == before
