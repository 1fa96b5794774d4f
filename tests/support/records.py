"""Made-up records in the contract's exact shape, one call each. A test names only its changes."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]
Records = list[Record]

MISSING: Any = object()


def student(ident: Any, **over: Any) -> Record:
    """One item of the student list; a field given as MISSING is left out."""
    record = {
        "id": ident,
        "email": f"pupil.{ident}@school.example",
        "name": f"Pupil Number{ident}",
        "first_name": "Pupil",
        "last_name": f"Number{ident}",
        "reference_id": f"R-{ident}",
        "profile_image": f"https://img.school.example/{ident}.png",
        "registration_date": "2025-09-01",
        "is_registered": 1,
        "classes": [{"class_id": 501, "class_title": "Algebra 1", "course_name": "Algebra"}],
        "summary": {
            "total_assignments": 20,
            "completed_assignments": 15,
            "completion_rate": 75.0,
            "average_score": 81.5,
            "total_assessments": 4,
            "completed_assessments": 3,
            "total_time_minutes": 1210.5,
            "last_activity_date": "2026-11-19",
        },
        "activity_tracking": {
            "first_login_date": "2025-09-02",
            "last_activity_date": "2026-11-19",
            "days_since_last_activity": 1,
            "assignment_submission_count": 15,
            "assignment_missing_count": 5,
            "has_ever_logged_in": True,
        },
    }
    return _over(record, over)


def school_class(ident: Any, **over: Any) -> Record:
    """One item of the class list; a field given as MISSING is left out."""
    record = {
        "class_id": ident,
        "class_title": f"Class {ident}",
        "class_code": f"C-{ident}",
        "class_status": 1,
        "class_room": "B 12",
        "class_dateadded": "2025-08-15",
        "course": {"course_id": 70, "course_name": "Algebra"},
        "teacher": {"teacher_id": 9, "name": "Terry Teacher", "email": "terry@school.example"},
        "student_count": 3,
        "summary": {"average_completion_rate": 74.5, "average_score": 80.0, "total_engagement_minutes": 3600.0},
        "assignment_activity": {
            "has_assignments": True,
            "assignment_count": 20,
            "first_assignment_date": "2025-09-05",
            "last_assignment_date": "2026-11-15",
            "students_enrolled": 3,
            "students_with_submissions": 2,
            "students_without_submissions": 1,
        },
    }
    return _over(record, over)


def students(count: int, first: int = 1) -> Records:
    """Students with the ids from `first` on."""
    return [student(i) for i in range(first, first + count)]


def classes(count: int, first: int = 501) -> Records:
    """Classes with the ids from `first` on."""
    return [school_class(i) for i in range(first, first + count)]


def within(field: str, **over: Any) -> Record:
    """An override of some fields of an object inside a record."""
    whole = school_class(1) if field in ("course", "teacher", "assignment_activity") else student(1)
    return {field: {k: v for k, v in (whole[field] | over).items() if v is not MISSING}}


def entry(**over: Any) -> Record:
    """One class entry of a student."""
    whole = {"class_id": 501, "class_title": "Algebra 1", "course_name": "Algebra"} | over
    return {k: v for k, v in whole.items() if v is not MISSING}


def _over(record: Record, over: Record) -> Record:
    return {key: value for key, value in (record | over).items() if value is not MISSING}
