"""A made-up school's year as a published file, without nights: the history of the records, day by day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from rollbook.sandbox import MadeUpInstitution
from rollbook.sandbox.institution import LONG_HOLIDAY, is_holiday
from rollbook.store import ops, schema
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
CLASSES = "student_classes"
DATES = {"registration_date", "last_activity_date", "valid_from", "valid_to"}

Row = dict[str, Any]


def school_days(first: date, last: date, *, with_holiday: bool = True) -> list[date]:
    """The days with lessons from one day to another, with the long holiday in spring or without."""
    days = (first + timedelta(days=n) for n in range((last - first).days + 1))
    more = () if with_holiday else LONG_HOLIDAY
    return [day for day in days if day.weekday() < 5 and (day.isocalendar().week in more or not is_holiday(day))]


def year(
    path: Path,
    institution: MadeUpInstitution,
    days: Sequence[date],
    terms: Iterable[Term] = (),
    thresholds: Iterable[Threshold] = editable.DEFAULTS,
) -> None:
    """Write a file that says what the institution's records said on some days, by the rules of history."""
    with duckdb.connect(str(path)) as con:
        schema.ensure(con)
        catalog.create_views(con)
        if days:
            con.executemany("INSERT INTO spans.days (snapshot_date) VALUES (?)", [[day] for day in days])
        for table, of_table in _history(institution, days).items():
            frame = pd.DataFrame(of_table)
            for name in DATES & {*frame}:
                frame[name] = pd.to_datetime(frame[name]).astype("datetime64[s]")
            con.register("rows", frame)
            con.execute(f"INSERT INTO history.{table} BY NAME FROM rows")
            con.unregister("rows")
        editable.fill(con, thresholds, terms)
        ops.stamp(con, datetime(2026, 11, 30, tzinfo=UTC))


def _history(institution: MadeUpInstitution, days: Sequence[date]) -> dict[str, list[Row]]:
    """The versions of each table's rows."""
    rows: dict[str, list[Row]] = defaultdict(list)
    current: dict[tuple[str, int, int], Row] = {}
    for day in days:
        stated = set()
        for record in institution.on(day).students:
            for table, class_id, values in _parts(record):
                key = table, record["id"], class_id
                stated.add(key)
                now = current.get(key)
                if values is not None and (now is None or any(now[name] != value for name, value in values.items())):
                    if now is not None:
                        now["valid_to"] = day
                    current[key] = {"student_id": record["id"], "valid_from": day, "valid_to": None} | values
                    rows[table].append(current[key])
            if "classes" not in record:
                stated |= {key for key in current if key[:2] == (CLASSES, record["id"])}
        for key in current.keys() - stated:
            current.pop(key)["valid_to"] = day
    return rows


def _parts(record: Row) -> Iterator[tuple[str, int, Row | None]]:
    """The table, the class and the values of each part of a student's record; None where they are not stated."""
    parts = (record, record["summary"], record.get("activity_tracking"))
    for (table, fields), part in zip(TRACKED.items(), parts, strict=True):
        yield table, 0, None if part is None else {field: part.get(field) for field in fields}
    for entry in record.get("classes", ()):
        yield CLASSES, entry["class_id"], entry
