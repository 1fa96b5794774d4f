"""Turns the institution's rows into the contract's records. Adding a field to the sandbox is one line here.

The line goes into `student_record` or `class_record` and may use anything in the row:
`"house": ("Ash", "Elm", "Oak")[row.student_id % 3],`. If the field may be absent, add its name to `pupils.OPTIONAL`
too. Computes no values, and knows nothing of requests and pages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pipelines.sandbox.names import Name, full_name
from pipelines.sandbox.pupils import OPTIONAL
from pipelines.sandbox.timetable import Course, Teacher

Record = dict[str, Any]


class ClassRow(NamedTuple):
    """One class on one day. Dates are YYYY-MM-DD strings."""

    class_id: int
    class_title: str
    is_active: int
    opened: str
    room: int
    course: Course
    teacher: Teacher
    enrolled: int
    with_submissions: int
    completion_rate: float
    score: float
    minutes: float
    assignments: int
    first_assignment: str | None
    last_assignment: str | None


class StudentRow(NamedTuple):
    """One student on one day. Dates are YYYY-MM-DD strings, None for a student who has never logged in."""

    student_id: int
    given: Name
    family: Name
    family_first: bool
    email: str
    joined: str
    classes: list[ClassRow]
    omitted: int  # bit n is set if pupils.OPTIONAL[n] is omitted
    first_day: str | None
    last_day: str | None
    days_since: int | None
    total: int
    completed: int
    completion_rate: float
    score: float | None
    total_assessments: int
    completed_assessments: int
    minutes: float
    submitted: int
    missing: int


def student_record(row: StudentRow) -> Record:
    """Return an item of the student list (contract, "Student")."""
    record: Record = {
        "id": row.student_id,
        "email": row.email,
        "name": full_name(row.given, row.family, row.family_first),
        "first_name": row.given.shown,
        "last_name": row.family.shown,
        "reference_id": reference_of(row.student_id),
        "profile_image": f"https://images.example.org/students/{row.student_id}.jpg",
        "registration_date": row.joined,
        "is_registered": 1,
        "classes": [
            {"class_id": own.class_id, "class_title": own.class_title, "course_name": own.course.course_name}
            for own in row.classes
        ],
        "summary": {
            "total_assignments": row.total,
            "completed_assignments": row.completed,
            "completion_rate": row.completion_rate,
            "average_score": row.score,
            "total_assessments": row.total_assessments,
            "completed_assessments": row.completed_assessments,
            "total_time_minutes": row.minutes,
            "last_activity_date": row.last_day,
        },
        "activity_tracking": {
            "first_login_date": row.first_day,
            "last_activity_date": row.last_day,
            "days_since_last_activity": row.days_since,
            "assignment_submission_count": row.submitted,
            "assignment_missing_count": row.missing,
            "has_ever_logged_in": row.last_day is not None,
        },
    }
    if row.omitted:
        _omit(record, row.omitted)
    if row.last_day is None:
        record["summary"].pop("last_activity_date", None)  # the contract lets it be absent, not null
    return record


def class_record(row: ClassRow) -> Record:
    """Return an item of the class list (contract, "Class")."""
    return {
        "class_id": row.class_id,
        "class_title": row.class_title,
        "class_code": f"{row.course.course_name[:3].upper()}-{row.class_id}",
        "class_status": row.is_active,
        "class_room": f"{'NESW'[row.room % 4]}{100 + row.room}",
        "class_dateadded": row.opened,
        "course": row.course._asdict(),
        "teacher": row.teacher._asdict(),
        "student_count": row.enrolled,
        "summary": {
            "average_completion_rate": row.completion_rate,
            "average_score": row.score,
            "total_engagement_minutes": row.minutes,
        },
        "assignment_activity": {
            "has_assignments": row.assignments > 0,
            "assignment_count": row.assignments,
            "first_assignment_date": row.first_assignment,
            "last_assignment_date": row.last_assignment,
            "students_enrolled": row.enrolled,
            "students_with_submissions": row.with_submissions,
            "students_without_submissions": row.enrolled - row.with_submissions,
        },
    }


def detail_record(row: StudentRow) -> Record:
    """Return one student in full: the list's record, with whole classes, their courses, and the unit's assignments.

    The contract leaves this shape open ("courses, classes, individual assignments").
    """
    courses = {own.course.course_id: own.course._asdict() for own in row.classes}
    return student_record(row) | {
        "courses": list(courses.values()),
        "classes": [class_record(own) for own in row.classes],
        "assignments": [_assignment(row, number) for number in range(row.total)],
    }


def reference_of(student_id: int) -> str:
    """Return the institution's own student id."""
    return f"SIS-{student_id:07d}"


def _omit(record: Record, omitted: int) -> None:
    for bit, field in enumerate(OPTIONAL):
        if omitted >> bit & 1:
            part, _, name = field.rpartition(".")
            del (record[part] if part else record)[name]


def _assignment(row: StudentRow, number: int) -> Record:
    """Return one assignment. Pairs of scores are symmetric around the student's average, so their mean equals it."""
    is_completed = number < row.completed
    score = None
    if is_completed and row.score is not None:
        spread = round(min(5.0, row.score, 100 - row.score), 1)
        is_last_alone = number == row.completed - 1 and number % 2 == 0
        score = row.score if is_last_alone else round(row.score + (spread if number % 2 else -spread), 1)
    return {
        "assignment_id": row.student_id * 100 + number,
        "title": f"Assignment {number + 1}",
        "class_id": row.classes[number % len(row.classes)].class_id if row.classes else None,
        "is_completed": is_completed,
        "score": score,
    }
