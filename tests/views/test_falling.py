"""Who is falling, over a year of the sandbox, against the sandbox's own knowledge of who hands in little."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from typing import Any

import duckdb
import pandas as pd
import pytest

from pipelines.sandbox import Institution
from pipelines.store import schema
from pipelines.views import catalog, editable
from tests.support.tiers import slow

SUMMER = date(2026, 8, 1)
TRACKED = {
    "students": ("name", "registration_date"),
    "summary": ("total_assignments", "completed_assignments", "completion_rate", "average_score", "last_activity_date"),
    "activity_tracking": ("assignment_missing_count", "has_ever_logged_in", "last_activity_date"),
}
HISTORY = {"students": "students", "summary": "student_summaries", "activity_tracking": "student_activity"}


def versions(institution: Institution, days: list[date]) -> dict[str, pd.DataFrame]:
    """The history of the students' tables, from the records of these days."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    current: dict[tuple[str, int], dict[str, Any]] = {}
    for day in days:
        listed = {record["id"]: record for record in institution.on(day).students}
        for (part, number), version in list(current.items()):
            if number not in listed:
                version["valid_to"] = day
                del current[part, number]
        for number, record in listed.items():
            for part, fields in TRACKED.items():
                values = record if part == "students" else record.get(part)
                if values is None:  # not stated: what was known stands
                    continue
                row = {"student_id": number} | {field: values.get(field) for field in fields}
                before = current.get((part, number))
                if before is None or any(before[name] != value for name, value in row.items()):
                    if before:
                        before["valid_to"] = day
                    current[part, number] = row | {"valid_from": day, "valid_to": None}
                    found[part].append(current[part, number])
    return {HISTORY[part]: pd.DataFrame(rows) for part, rows in found.items()}


def flagged(institution: Institution, days: list[date]) -> dict[int, set[date]]:
    """On which days the view says that a student is falling, by student."""
    with duckdb.connect() as con:
        schema.ensure(con)
        editable.fill(con, editable.DEFAULTS, ())
        catalog.create_views(con)
        con.executemany("INSERT INTO spans.days (snapshot_date) VALUES (?)", [[day] for day in days])
        for table, frame in versions(institution, days).items():
            con.register("found", frame)
            kept = "* REPLACE (CAST(valid_from AS DATE) AS valid_from, CAST(valid_to AS DATE) AS valid_to)"
            con.execute(f"INSERT INTO history.{table} BY NAME SELECT {kept} FROM found")
            con.unregister("found")
        rows = con.execute("SELECT student_id, snapshot_date FROM watch_daily WHERE is_falling").fetchall()
    found: dict[int, set[date]] = defaultdict(set)
    for student, day in rows:
        found[student].add(day)
    return found


@pytest.mark.parametrize(("students", "seed", "apart"), [(250, 1, 5), slow(500, 2, 1), slow(120, 3, 1)])
def test_most_who_are_said_to_fall_do_and_most_who_do_are_said_to(students: int, seed: int, apart: int) -> None:
    """A fall stays in sight for falling_days. Who always hands in little does not fall, so is not looked for here."""
    institution = Institution(students, seed=seed)
    days = [SUMMER + timedelta(days=n) for n in range(0, 365, apart)]
    fails: dict[int, set[date]] = defaultdict(set)
    listed: dict[int, int] = defaultdict(int)
    for day in days:
        for student in institution.failing(day):
            fails[student].add(day)
        for record in institution.on(day).students:
            listed[record["id"]] += 1
    said = flagged(institution, days)
    within = timedelta(days=next(t.value for t in editable.DEFAULTS if t.name == "falling_days"))
    told = [(student, day) for student, on in said.items() for day in on]
    rightly = [student for student, day in told if any(day - within <= other <= day for other in fails[student])]
    fell = {student for student, on in fails.items() if on and len(on) < listed[student]}
    assert len(fell) > students / 10
    assert len(rightly) >= 0.8 * len(told)
    assert len(fell & set(rightly)) >= 0.5 * len(fell)
