"""The accepted parts of a readable record: silence is not news (G5), through whole syncs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.nights import STUDENT_TABLES, Expected, House, Row, night
from tests.support.records import MISSING, Record, classes, entry, school_class, student, students, within
from tests.support.tiers import daily
from tests.support.warehouses.begun import begin
from tests.support.wire import faults

pytestmark = pytest.mark.nights

# --- what passes -----------------------------------------------------------------------------------------------------


def test_values_readable_without_loss_are_accepted(one_class: House) -> None:
    """100 for 100.0, an integral float for an integer, an id among them, and the bounds of a percentage."""
    odd = student(
        7.0,
        is_registered=1.0,
        classes=[entry(class_id=501.0)],
        **within("summary", total_assignments=20.0, completion_rate=100, average_score=0, total_time_minutes=7),
        **within("activity_tracking", days_since_last_activity=3.0),
    )
    plain = odd | {
        "id": 7,
        "is_registered": 1,
        "classes": [entry()],
        **within("summary", total_assignments=20, completion_rate=100.0, average_score=0.0, total_time_minutes=7.0),
        **within("activity_tracking", days_since_last_activity=3),
    }
    course = school_class(502, course={"course_id": 70.0, "course_name": "Algebra"})
    one_class.night(1, [odd, *students(3)], [course])
    assert one_class.query("SELECT COUNT(*) FROM ops.rejects") == [(0,)]
    assert one_class.tables() == Expected().night(1, [plain, *students(3)], [school_class(502)]).tables()


def test_missing_optional_values_are_null(one_class: House) -> None:
    may = ("first_name", "last_name", "reference_id", "profile_image")
    bare = student(2, **dict.fromkeys(may, MISSING), summary={}, activity_tracking={}, classes=[{"class_id": 501}])
    nulls = student(
        3,
        **dict.fromkeys(may),
        summary=dict.fromkeys(student(3)["summary"]),
        activity_tracking=dict.fromkeys(student(3)["activity_tracking"]),
        classes=[{"class_id": 501, "class_title": None, "course_name": None}],
    )
    fields = [f for f in school_class(1) if f not in ("class_id", "class_title", "summary", "assignment_activity")]
    hollow: dict[str, Any] = {"summary": {}, "assignment_activity": {}}
    listed = [
        school_class(501, **dict.fromkeys(fields, MISSING), **hollow),
        school_class(502, **dict.fromkeys(fields), **hollow),
        school_class(503, course={}, teacher={}),
        school_class(504, course={"course_id": None}, teacher={"name": None}),
    ]
    one_class.night(1, [bare, nulls], listed)
    assert one_class.tables() == Expected().night(1, [bare, nulls], listed).tables()
    assert one_class.query("SELECT * FROM classes WHERE class_id < 503") == [
        (501, "Class 501", *[None] * 10),
        (502, "Class 502", *[None] * 10),
    ]
    assert one_class.query("SELECT * FROM student_activity") == [(2, *[None] * 6), (3, *[None] * 6)]


# --- what the contract does not know ---------------------------------------------------------------------------------


def test_unknown_fields_stay_out_and_are_told_once_a_sync(one_class: House) -> None:
    listed = [student(1), student(2), student(3)]
    more = [
        student(1, nickname="Pip", summary=student(1)["summary"] | {"rank": 3}),
        student(2, nickname=None, classes=[entry(room="B 12"), entry(class_id=502, room="B 13")]),
        student(3, nickname="Lee", guardians=[{"name": "Somebody"}]),
    ]
    one_class.service.school = {**one_class.service.school, "town": "Springfield"}
    one_class.service.cap = 1  # three pages, and yet one row a field and type
    one_class.night(1, more, [school_class(501, teacher=school_class(501)["teacher"] | {"phone": "123"})])
    listed[1]["classes"] = [entry(), entry(class_id=502)]
    assert one_class.tables() == Expected().night(1, listed, [school_class(501)]).tables()
    assert one_class.query("SELECT * FROM ops.drift ORDER BY ALL") == [
        (night(1), 1, "auth", "school.town", "string", 1),
        (night(1), 1, "classes", "teacher.phone", "string", 1),
        (night(1), 1, "students", "classes[].room", "string", 2),
        (night(1), 1, "students", "guardians", "array", 1),
        (night(1), 1, "students", "nickname", "null", 1),
        (night(1), 1, "students", "nickname", "string", 2),
        (night(1), 1, "students", "summary.rank", "integer", 1),
    ]


# --- the auth check --------------------------------------------------------------------------------------------------

ODD: list[Any] = [MISSING, None, 7, 7.5, True, [], ["a"], {}, {"en": "School"}]


@pytest.mark.parametrize("value", daily([*ODD, "N" * 100_000], ["a"]), ids=lambda v: str(v)[:9])
def test_odd_details_of_the_auth_check_fail_no_night(one_class: House, value: Any) -> None:
    """Odd values are NULL; the sets do not depend on the name of a key."""
    one_class.service.on(
        faults.institution(school={"id": 41, "name": value, "key": value}, api_key_name=value), path="auth"
    )
    one_class.night(1, students(3))
    shown = "7" if type(value) is int else None  # a number is text enough for a name
    assert one_class.query("SELECT * FROM institution") == [(41, shown, shown, shown)]
    assert one_class.query("SELECT proven, rejected FROM ops.syncs") == [(True, 0)]
    (manifest,) = one_class.landings(night(1))
    assert (manifest.school_id, manifest.school_name) == (41, None)
    one_class.night(2, students(3))
    assert one_class.query("SELECT * FROM institution") == [(41, "Made-up School", "made-up-school", "nightly")]


# --- silence ---------------------------------------------------------------------------------------------------------

QUIET: dict[str, Record] = {
    "missing": {"classes": MISSING, "activity_tracking": MISSING},
    "null": {"classes": None, "activity_tracking": None},
}


@pytest.mark.story
@pytest.mark.parametrize("how", daily(QUIET, "null"))
def test_unstated_values_stay(one_class: House, how: str) -> None:
    expected = Expected()
    later = within("activity_tracking", assignment_missing_count=4, days_since_last_activity=9)
    quiet = student(1, name="Pupil Renamed", **QUIET[how])
    nights = [student(1), quiet, student(1, name="Pupil Renamed", classes=[], **later), quiet]
    for number, record in enumerate(nights, start=1):
        shown = [record, *students(5, first=2)]
        one_class.night(number, shown)
        assert one_class.tables() == expected.night(number, shown, classes(1)).tables()
    assert one_class.query("SELECT COUNT(*) FROM student_classes WHERE student_id = 1") == [(0,)]
    assert one_class.query("SELECT days_since_last_activity FROM student_activity WHERE student_id = 1") == [(9,)]


@pytest.mark.parametrize("how", daily(QUIET, "missing"))
def test_a_removed_student_takes_the_child_rows_along_and_returns_without(one_class: House, how: str) -> None:
    expected = Expected()
    others = students(5, first=2)
    nights = [[student(1), *others], others, [student(1, **QUIET[how]), *others], [student(1), *others]]
    children: list[Row] = []
    for number, shown in enumerate(nights, start=1):
        one_class.night(number, shown)
        assert one_class.tables() == expected.night(number, shown, classes(1)).tables()
        counts = ", ".join(f"(SELECT COUNT(*) FROM {table} WHERE student_id = 1)" for table in STUDENT_TABLES)
        children += one_class.query(f"SELECT {counts}")
    assert children == [(1, 1, 1, 1), (0, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 1)]


def test_a_class_no_longer_listed_stays_in_the_students_records(one_class: House) -> None:
    begin(one_class, students(3), classes(3))
    one_class.night(2, students(3), classes(2, first=502))
    expected = Expected().night(1, students(3), classes(3)).night(2, students(3), classes(2, first=502))
    assert one_class.tables() == expected.tables()
    assert one_class.query("SELECT student_id, class_id FROM student_classes ORDER BY 1") == [
        (i, 501) for i in (1, 2, 3)
    ]
    assert one_class.query("SELECT class_id FROM classes ORDER BY 1") == [(502,), (503,)]
