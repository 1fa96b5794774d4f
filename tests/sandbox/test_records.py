"""Records have the contract's shape, and agree with one another."""

from collections import Counter, defaultdict
from datetime import date
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

import pytest

from pipelines.sandbox import Day, Institution
from tests.sandbox.rows import days_until

FORTNIGHT = days_until(date(2026, 11, 20), 14)


class Field(NamedTuple):
    """One field of the contract: its type (DATE for a date), whether it may be absent, whether it may be null."""

    type: Any
    optional: bool = False
    nullable: bool = False


DATE = "date"
CLASS_ENTRY = {"class_id": Field(int), "class_title": Field(str), "course_name": Field(str)}
SUMMARY = {
    "total_assignments": Field(int),
    "completed_assignments": Field(int),
    "completion_rate": Field(float),
    "average_score": Field(float, nullable=True),
    "total_assessments": Field(int, optional=True),
    "completed_assessments": Field(int, optional=True),
    "total_time_minutes": Field(float),
    "last_activity_date": Field(DATE, optional=True),
}
ACTIVITY = {
    "first_login_date": Field(DATE, nullable=True),
    "last_activity_date": Field(DATE, nullable=True),
    "days_since_last_activity": Field(int, nullable=True),
    "assignment_submission_count": Field(int),
    "assignment_missing_count": Field(int),
    "has_ever_logged_in": Field(bool),
}
STUDENT = {
    "id": Field(int),
    "email": Field(str),
    "name": Field(str),
    "first_name": Field(str, optional=True),
    "last_name": Field(str, optional=True),
    "reference_id": Field(str),
    "profile_image": Field(str, optional=True),
    "registration_date": Field(DATE),
    "is_registered": Field(int),
    "classes": Field([CLASS_ENTRY], optional=True),
    "summary": Field(SUMMARY),
    "activity_tracking": Field(ACTIVITY, optional=True),
}
COURSE = {"course_id": Field(int), "course_name": Field(str)}
CLASS = {
    "class_id": Field(int),
    "class_title": Field(str),
    "class_code": Field(str),
    "class_status": Field(int),
    "class_room": Field(str),
    "class_dateadded": Field(DATE),
    "course": Field(COURSE),
    "teacher": Field({"teacher_id": Field(int), "name": Field(str), "email": Field(str)}),
    "student_count": Field(int),
    "summary": Field(
        {
            "average_completion_rate": Field(float),
            "average_score": Field(float),
            "total_engagement_minutes": Field(float),
        }
    ),
    "assignment_activity": Field(
        {
            "has_assignments": Field(bool),
            "assignment_count": Field(int),
            "first_assignment_date": Field(DATE, nullable=True),
            "last_assignment_date": Field(DATE, nullable=True),
            "students_enrolled": Field(int),
            "students_with_submissions": Field(int),
            "students_without_submissions": Field(int),
        }
    ),
}
DETAIL = STUDENT | {
    "classes": Field([CLASS]),
    "courses": Field([COURSE]),
    "assignments": Field(
        [
            {
                "assignment_id": Field(int),
                "title": Field(str),
                "class_id": Field(int, nullable=True),
                "is_completed": Field(bool),
                "score": Field(float, nullable=True),
            }
        ]
    ),
}
Sightings = defaultdict[str, Counter[str]]


@pytest.fixture(scope="module")
def fortnight() -> list[Day]:
    institution = Institution(500, seed=1)
    return [institution.on(day) for day in FORTNIGHT]


@pytest.fixture(scope="module")
def today(fortnight: list[Day]) -> Day:
    return fortnight[-1]


def check(value: Any, shape: Any, path: str, seen: Sightings) -> None:
    """Asserts the shape, exactly, and counts for each field how often it was absent, null and stated."""
    if isinstance(shape, dict):
        assert type(value) is dict, path
        assert value.keys() <= shape.keys(), path
        for name, field in shape.items():
            check_field(value, name, field, f"{path}.{name}", seen)
    elif isinstance(shape, list):
        assert type(value) is list, path
        seen[path]["empty" if not value else "filled"] += 1
        for item in value:
            check(item, shape[0], f"{path}[]", seen)
    elif shape == DATE:
        assert date.fromisoformat(value).isoformat() == value, path
    else:
        assert type(value) is shape, (path, value)


def check_field(record: dict[str, Any], name: str, field: Field, path: str, seen: Sightings) -> None:
    if name not in record:
        assert field.optional, f"{path} is absent"
        seen[path]["absent"] += 1
    elif record[name] is None:
        assert field.nullable, f"{path} is null"
        seen[path]["null"] += 1
    else:
        seen[path]["stated"] += 1
        check(record[name], field.type, path, seen)


def wanted_sightings(shape: Any, path: str) -> set[tuple[str, str]]:
    """Each optional field absent and stated, each nullable one null and stated."""
    if isinstance(shape, list):
        return wanted_sightings(shape[0], f"{path}[]")
    if not isinstance(shape, dict):
        return set()
    wanted = set()
    for name, field in shape.items():
        own = f"{path}.{name}"
        wanted |= {(own, "stated")} | wanted_sightings(field.type, own)
        wanted |= ({(own, "absent")} if field.optional else set()) | ({(own, "null")} if field.nullable else set())
    return wanted


def test_every_record_has_the_contracts_shape_and_every_absence_occurs(fortnight: list[Day]) -> None:
    seen: Sightings = defaultdict(Counter)
    for day in fortnight:
        for student in day.students:
            check(student, STUDENT, "student", seen)
        for record in day.classes:
            check(record, CLASS, "class", seen)
    occurred = {(path, how) for path, counts in seen.items() for how in counts}
    assert wanted_sightings(STUDENT, "student") | wanted_sightings(CLASS, "class") <= occurred
    assert seen["student.classes"]["empty"] > 0


def test_fields_that_may_be_absent_come_and_go_for_the_same_student(fortnight: list[Day]) -> None:
    def stated(student: dict[str, Any]) -> set[str]:
        return set(student) | {f"summary.{name}" for name in student["summary"]}

    came: set[str] = set()
    went: set[str] = set()
    for before, after in pairwise(fortnight):
        known = {student["id"]: stated(student) for student in before.students}
        for student in after.students:
            if student["id"] in known:
                came |= stated(student) - known[student["id"]]
                went |= known[student["id"]] - stated(student)
    optional = {"first_name", "last_name", "profile_image", "classes", "activity_tracking"} | {
        f"summary.{name}" for name, field in SUMMARY.items() if field.optional
    }
    assert came == went == optional


def test_the_detail_is_the_lists_record_and_more(today: Day) -> None:
    seen: Sightings = defaultdict(Counter)
    classes = {record["class_id"]: record for record in today.classes}
    for student in today.students:
        detail = today.detail(student["id"])
        assert detail is not None
        check(detail, DETAIL, "detail", seen)
        extra = {name: detail.pop(name) for name in ("classes", "courses", "assignments")}
        assert detail == {name: value for name, value in student.items() if name != "classes"}
        assert extra["classes"] == [classes[own["class_id"]] for own in extra["classes"]]
        if "classes" in student:
            assert [own["class_id"] for own in extra["classes"]] == [own["class_id"] for own in student["classes"]]
        assert {own["course_id"]: own for own in extra["courses"]} == {
            own["course"]["course_id"]: own["course"] for own in extra["classes"]
        }
        check_assignments(student["summary"], extra["assignments"])
    assert today.detail(-1) is None
    assert today.detail(max(today.student_ids) + 1) is None


def check_assignments(summary: dict[str, Any], assignments: list[dict[str, Any]]) -> None:
    assert len(assignments) == summary["total_assignments"]
    assert sum(own["is_completed"] for own in assignments) == summary["completed_assignments"]
    scores = [own["score"] for own in assignments if own["score"] is not None]
    assert (fmean(scores) if scores else None) == pytest.approx(summary["average_score"], abs=0.01)
    assert all(0 <= score <= 100 for score in scores)


def test_a_students_numbers_agree_with_one_another(fortnight: list[Day]) -> None:
    for day in fortnight:
        for student in day.students:
            check_summary(student["summary"])
            if "activity_tracking" in student:
                check_activity(student, day.date)
            assert student["is_registered"] == 1
            assert student["registration_date"] <= day.date.isoformat()


def check_summary(summary: dict[str, Any]) -> None:
    total, completed = summary["total_assignments"], summary["completed_assignments"]
    assert 0 <= completed <= total
    assert summary["completion_rate"] == (round(100 * completed / total, 2) if total else 0)
    assert (summary["average_score"] is None) >= (completed == 0)
    assert summary["average_score"] is None or 0 <= summary["average_score"] <= 100
    assert 0 <= summary.get("completed_assessments", 0) <= summary.get("total_assessments", 10**6)
    assert summary["total_time_minutes"] >= 0


def check_activity(student: dict[str, Any], today: date) -> None:
    activity, summary = student["activity_tracking"], student["summary"]
    dates = [activity["first_login_date"], activity["last_activity_date"], activity["days_since_last_activity"]]
    assert activity["assignment_submission_count"] >= summary["completed_assignments"]
    assert activity["assignment_missing_count"] >= 0
    if not activity["has_ever_logged_in"]:
        assert dates == [None, None, None]
        assert "last_activity_date" not in summary
        assert (summary["completed_assignments"], summary["total_time_minutes"]) == (0, 0.0)
        return
    first, last = (date.fromisoformat(text) for text in dates[:2])
    assert student["registration_date"] <= first.isoformat() <= last.isoformat() <= today.isoformat()
    assert activity["days_since_last_activity"] == (today - last).days
    assert summary.get("last_activity_date", last.isoformat()) == last.isoformat()
    assert summary["total_time_minutes"] > 0


def test_ids_emails_references_and_codes_are_unique_and_lists_are_in_order(fortnight: list[Day]) -> None:
    owner: dict[str, int] = {}
    for day in fortnight:
        for field in ("id", "email", "reference_id"):
            assert len({student[field] for student in day.students}) == len(day.students)
        for field in ("class_id", "class_code"):
            assert len({record[field] for record in day.classes}) == len(day.classes)
        assert [student["id"] for student in day.students] == sorted(day.student_ids) == day.student_ids
        assert [record["class_id"] for record in day.classes] == sorted(record["class_id"] for record in day.classes)
        for student in day.students:  # nor does anybody take over another's, on another day
            for name in (student["email"], student["reference_id"]):
                assert owner.setdefault(name, student["id"]) == student["id"]
            assert student["email"].isascii()
            assert student["email"].endswith("@students.example.org")


def test_rosters_counts_and_class_lists_agree(fortnight: list[Day]) -> None:
    for day in fortnight:
        classes = {record["class_id"]: record for record in day.classes}
        rosters = day.rosters
        assert rosters.keys() == classes.keys()
        listed: dict[int, set[int]] = {class_id: set() for class_id in classes}
        silent = set()
        for student in day.students:
            if "classes" not in student:
                silent.add(student["id"])
            for entry in student.get("classes", []):
                own = classes[entry["class_id"]]
                assert own["class_status"] == 1
                assert entry["class_title"] == own["class_title"]
                assert entry["course_name"] == own["course"]["course_name"]
                listed[entry["class_id"]].add(student["id"])
        for class_id, record in classes.items():
            assert listed[class_id] == set(rosters[class_id]) - silent
            assert record["student_count"] == len(rosters[class_id])
        assert silent & {student_id for roster in rosters.values() for student_id in roster}


def test_a_classs_assignment_activity_agrees_with_its_roster(fortnight: list[Day]) -> None:
    for day in fortnight:
        submitted = {
            student["id"]: student["activity_tracking"]["assignment_submission_count"] > 0
            for student in day.students
            if "activity_tracking" in student
        }
        for record in day.classes:
            check_assignment_activity(record, day.rosters[record["class_id"]], submitted, day.date.isoformat())


def check_assignment_activity(
    record: dict[str, Any], roster: list[int], submitted: dict[int, bool], today: str
) -> None:
    activity = record["assignment_activity"]
    with_submissions, without = activity["students_with_submissions"], activity["students_without_submissions"]
    assert activity["students_enrolled"] == record["student_count"] == with_submissions + without
    assert activity["has_assignments"] == (activity["assignment_count"] > 0)
    if activity["has_assignments"]:
        first, last = activity["first_assignment_date"], activity["last_assignment_date"]
        assert record["class_dateadded"] <= first <= last <= today
        assert (first == last) == (activity["assignment_count"] == 1)
        known = [submitted[student_id] for student_id in roster if student_id in submitted]
        assert sum(known) <= with_submissions <= sum(known) + len(roster) - len(known)
    else:
        dates = activity["first_assignment_date"], activity["last_assignment_date"]
        assert (dates, with_submissions) == ((None, None), 0)


def test_a_classs_summary_is_that_of_its_roster_on_the_day_it_was_last_worked_out(today: Day) -> None:
    institution = Institution(500, seed=1)
    earlier = {day: institution.on(day) for day in set(today.summarised.values())}
    students = {day: {own["id"]: own["summary"] for own in played.students} for day, played in earlier.items()}
    for record in today.classes:
        day = today.summarised[record["class_id"]]
        was_active = next(own for own in earlier[day].classes if own["class_id"] == record["class_id"])
        assert was_active["class_status"] == 1
        own = [students[day][student_id] for student_id in earlier[day].rosters[record["class_id"]]]
        scores = [summary["average_score"] for summary in own if summary["average_score"] is not None]
        rates = [summary["completion_rate"] for summary in own]
        assert record["summary"] == {
            "average_completion_rate": pytest.approx(fmean(rates) if rates else 0, abs=0.006),
            "average_score": pytest.approx(fmean(scores) if scores else 0, abs=0.006),
            "total_engagement_minutes": pytest.approx(sum(summary["total_time_minutes"] for summary in own), abs=0.06),
        }
        if record["class_status"] == 1:
            assert (today.date - day).days < 7


def test_closed_classes_have_nobody_and_open_ones_have_about_25(today: Day) -> None:
    closed = [record for record in today.classes if record["class_status"] == 0]
    assert closed
    assert {record["student_count"] for record in closed} == {0}
    sizes = [record["student_count"] for record in today.classes if record["student_count"] > 12]
    assert 20 < fmean(sizes) < 30
    per_student = Counter(student_id for roster in today.rosters.values() for student_id in roster)
    assert set(per_student.values()) == {4, 5, 6}


def test_courses_have_several_classes_and_teachers_take_several(today: Day) -> None:
    by_course = Counter(record["course"]["course_id"] for record in today.classes)
    by_teacher = Counter(record["teacher"]["teacher_id"] for record in today.classes)
    assert fmean(by_course.values()) > 2.5
    assert fmean(by_teacher.values()) > 3
    for part, key in (("course", "course_id"), ("teacher", "teacher_id")):
        known: dict[int, dict[str, Any]] = {}
        for record in today.classes:
            assert known.setdefault(record[part][key], record[part]) == record[part]


def test_names_come_with_accents_apostrophes_and_other_scripts(today: Day) -> None:
    names = [student["name"] for student in today.students]
    assert any("'" in name for name in names)
    assert any("é" in name or "ø" in name or "ü" in name for name in names)
    assert any("\u4e00" <= letter <= "\u9fff" for name in names for letter in name)
    for student in today.students:
        if "first_name" in student and "last_name" in student:
            both = (student["first_name"], student["last_name"])
            assert student["name"] in (" ".join(both), " ".join(both[::-1]))
