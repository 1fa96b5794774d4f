"""What the sandbox's tests share: a day's records cut into Rollbook's tables, and the days of a fortnight."""

from datetime import date, timedelta
from itertools import pairwise
from typing import Any

from pipelines.sandbox import Day, Institution
from tests.support.nights import SET_OF, Row, class_rows, student_rows

Record = dict[str, Any]
Tables = dict[str, dict[Row, Row]]

CLOCK_DRIVEN = "days_since_last_activity"


def days_until(end: date, count: int) -> list[date]:
    """The `count` days that end with `end`, oldest first."""
    return [end - timedelta(days=back) for back in reversed(range(count))]


def tables_of(day: Day) -> Tables:
    """The tracked columns of every table, by key."""
    tables: Tables = {name: {} for name in SET_OF}
    for record in day.students:
        for table, rows in student_rows(record).items():
            tables[table] |= rows or {}
    for record in day.classes:
        for table, rows in class_rows(record).items():
            tables[table] |= rows or {}
    return tables


def tracked_students(day: Day) -> dict[int, Record]:
    """Whole student records by id, without what changes by the clock alone."""
    return {
        student["id"]: student | {"activity_tracking": without(student.get("activity_tracking", {}), CLOCK_DRIVEN)}
        for student in day.students
    }


def without(record: Record, *names: str) -> Record:
    return {name: value for name, value in record.items() if name not in names}


def changed_keys(before: dict[Any, Any], after: dict[Any, Any]) -> set[Any]:
    """The keys of both whose records differ."""
    return {key for key in before.keys() & after.keys() if before[key] != after[key]}


def nights(institution: Institution, days: list[date]) -> list[tuple[Day, Day]]:
    """Each day with the one before it."""
    played = [institution.on(day) for day in days]
    return list(pairwise(played))
