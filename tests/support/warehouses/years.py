"""A made-up school's year as a published file, without nights: the history of the records, day by day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from rollbook.sandbox import MadeUpInstitution
from rollbook.sandbox.institution import is_holiday
from rollbook.store import schema
from rollbook.views import catalog, editable
from rollbook.views.editable import Term, Threshold

# The columns that who is to watch depends on; a student's own, and those of the summary and of activity tracking.
TRACKED = {
    "students": ("name", "registration_date", "is_registered"),
    "student_summaries": (
        *("total_assignments", "completed_assignments", "completion_rate", "average_score", "last_activity_date"),
    ),
    "student_activity": ("assignment_missing_count", "has_ever_logged_in", "last_activity_date"),
}
DATES = {"registration_date", "last_activity_date"}


def school_days(first: date, last: date) -> list[date]:
    """The days with lessons from one day to another."""
    days = (first + timedelta(days=n) for n in range((last - first).days + 1))
    return [day for day in days if day.weekday() < 5 and not is_holiday(day)]


def year(
    path: Path,
    institution: MadeUpInstitution,
    days: Sequence[date],
    terms: Iterable[Term] = (),
    thresholds: Iterable[Threshold] = editable.DEFAULTS,
) -> None:
    """Write a file that says what the institution's records said on some days, by the rules of history."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    open_rows: dict[tuple[str, int], dict[str, Any]] = {}
    for day in days:
        stated = set()
        for record in institution.on(day).students:
            parts = (record, record["summary"], record.get("activity_tracking"))
            for (table, fields), part in zip(TRACKED.items(), parts, strict=True):
                key = table, record["id"]
                stated.add(key)
                if part is None:  # unstated: what was known stays
                    continue
                values = {field: part.get(field) for field in fields}
                now = open_rows.get(key)
                if now is None or {field: now[field] for field in fields} != values:
                    if now is not None:
                        now["valid_to"] = day
                    now = {"student_id": record["id"], "valid_from": day, "valid_to": None} | values
                    open_rows[key] = now
                    rows[table].append(now)
        for key in open_rows.keys() - stated:
            open_rows.pop(key)["valid_to"] = day
    with duckdb.connect(str(path)) as con:
        schema.ensure(con)
        catalog.create_views(con)
        editable.fill(con, thresholds, terms)
        con.executemany("INSERT INTO spans.days (snapshot_date) VALUES (?)", [[day] for day in days])
        for table, of_table in rows.items():
            frame = pd.DataFrame(of_table)
            for name in DATES & {*frame} | {"valid_from", "valid_to"}:
                frame[name] = pd.to_datetime(frame[name]).astype("datetime64[s]")
            con.register("rows", frame)
            con.execute(f"INSERT INTO history.{table} BY NAME FROM rows")
            con.unregister("rows")
