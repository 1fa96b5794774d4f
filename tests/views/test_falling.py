"""The falling students, over a year of the sandbox, against the sandbox's own knowledge of who hands in little."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from typing import Any

import duckdb
import pandas as pd
import pytest

from rollbook.sandbox import MadeUpInstitution
from rollbook.store import schema
from rollbook.views import catalog, editable
from tests.support.tiers import weekly

pytestmark = pytest.mark.nights

# A school year, seen every fifth day: each fall is compared with the day ten days before.
DAYS = [date(2026, 8, 1) + timedelta(days=n) for n in range(0, 365, 5)]
WITHIN = timedelta(days=next(t.value for t in editable.DEFAULTS if t.name == "falling_days"))
TRACKED = {
    "students": ("name", "registration_date"),
    "student_summaries": (
        *("total_assignments", "completed_assignments", "completion_rate", "average_score", "last_activity_date"),
    ),
    "student_activity": ("assignment_missing_count", "has_ever_logged_in", "last_activity_date"),
}


def falls_said(institution: MadeUpInstitution) -> list[tuple[int, date]]:
    """The students and days whom the view calls falling, from a history of the records."""
    by_student: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for day in DAYS:
        for record in institution.on(day).students:
            parts = (record, record["summary"], record.get("activity_tracking", {}))
            span = {"student_id": record["id"], "valid_from": day, "valid_to": day + timedelta(days=5)}
            for (table, fields), part in zip(TRACKED.items(), parts, strict=True):
                by_student[table].append(span | {field: part.get(field) for field in fields})
    with duckdb.connect() as con:
        schema.ensure(con)
        editable.fill(con, editable.DEFAULTS, ())
        catalog.create_views(con)
        con.executemany("INSERT INTO spans.days (snapshot_date) VALUES (?)", [[day] for day in DAYS])
        for table, rows in by_student.items():
            con.register("rows", pd.DataFrame(rows))
            con.execute(f"INSERT INTO history.{table} BY NAME FROM rows")
        return con.execute("SELECT student_id, snapshot_date FROM watch_daily WHERE is_falling").fetchall()


@pytest.mark.parametrize(("students", "seed"), [(250, 1), weekly(500, 2), weekly(120, 3)])
def test_most_falling_students_are_found_and_few_others(students: int, seed: int) -> None:
    """A fall stays in sight for falling_days. A student who always hands in little does not fall, and is not looked for
    here. Most who are said to fall were ill, or are in a class that is marked late.
    """
    institution = MadeUpInstitution(students, seed=seed)
    fails: dict[int, set[date]] = defaultdict(set)
    does_well: set[int] = set()
    for day in DAYS:
        failing = institution.failing(day)
        does_well |= {record["id"] for record in institution.on(day).students} - failing
        for student in failing:
            fails[student].add(day)
    said = falls_said(institution)
    rightly = [
        student for student, day in said if any(day - WITHIN <= other <= day for other in fails.get(student, ()))
    ]
    fell = fails.keys() & does_well
    assert len(fell) > students / 10
    assert len(rightly) >= 0.25 * len(said)
    assert len(fell & set(rightly)) >= 0.2 * len(fell)
