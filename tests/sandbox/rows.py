"""What the sandbox's tests share: a day's records cut into Rollbook's tables, and the days of a fortnight.

The cutting is written out by hand here, so that it owes nothing to the code it is used to judge.
"""

from collections.abc import Hashable
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

from pipelines.sandbox import Day, Institution

Record = dict[str, Any]
Tables = dict[str, dict[Hashable, Record]]

CLOCK_DRIVEN = "days_since_last_activity"


def days_until(end: date, count: int) -> list[date]:
    """The `count` days that end with `end`, oldest first."""
    return [end - timedelta(days=back) for back in reversed(range(count))]


def tables_of(day: Day) -> Tables:
    """The tracked columns of every table, by key."""
    tables: Tables = {
        name: {}
        for name in (
            *("students", "student_summaries", "student_activity", "student_classes"),
            *("classes", "class_summaries", "class_assignment_activity"),
        )
    }
    for student in day.students:
        own = student["id"]
        tables["students"][own] = without(student, "classes", "summary", "activity_tracking")
        tables["student_summaries"][own] = student["summary"]
        if "activity_tracking" in student:
            tables["student_activity"][own] = without(student["activity_tracking"], CLOCK_DRIVEN)
        for entry in student.get("classes", []):
            tables["student_classes"][own, entry["class_id"]] = entry
    for record in day.classes:
        own = record["class_id"]
        tables["classes"][own] = without(record, "summary", "assignment_activity")
        tables["class_summaries"][own] = record["summary"]
        tables["class_assignment_activity"][own] = record["assignment_activity"]
    return tables


def tracked_students(day: Day) -> dict[int, Record]:
    """Whole student records by id, without what changes by the clock alone."""
    return {
        student["id"]: student | {"activity_tracking": without(student.get("activity_tracking", {}), CLOCK_DRIVEN)}
        for student in day.students
    }


def without(record: Record, *names: str) -> Record:
    return {name: value for name, value in record.items() if name not in names}


def changed_keys(before: dict[Any, Record], after: dict[Any, Record]) -> set[Any]:
    """The keys of both whose records differ."""
    return {key for key in before.keys() & after.keys() if before[key] != after[key]}


def nights(institution: Institution, days: list[date]) -> list[tuple[Day, Day]]:
    """Each day with the one before it."""
    played = [institution.on(day) for day in days]
    return list(pairwise(played))
