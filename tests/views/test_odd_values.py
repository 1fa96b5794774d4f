"""A number that nobody can mean costs the value, and stops no view or macro; a date that lies ahead is a finding."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rollbook.errors import HeldError
from rollbook.features.export import oneroster
from rollbook.features.pages import progress
from rollbook.health.data_quality import run_quality_checks
from rollbook.landing.records import MAX_ID, MAX_NUMBER, MAX_TEXT
from rollbook.reading.formats import Format
from rollbook.reading.query import export
from rollbook.tables import Column, of_set
from rollbook.views import catalog, metrics
from tests.support.nights import House, new_house, night
from tests.support.records import Record, classes, entry, school_class, student, students, within
from tests.support.tiers import daily

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]

# Near the largest id, where a sum or a difference of two would leave the type.
FIRST_ID = MAX_ID - 1000


def ask_views(house: House) -> None:
    """Ask every view, measure and macro; what cannot answer raises."""
    queries = [*(f"FROM {v.name}" for v in catalog.views()), *(m.query for m in metrics.METRICS)]
    for days in (f"DATE '{night(8)}'", "DATE '9999-12-31'"):
        given = {"day": days, "from_day": days, "to_day": days, "students": f"[{FIRST_ID}]"}
        given |= {"since_epoch": "1", "since_number": "1"}
        for macro in catalog.macros():
            call = f"{macro.name}({', '.join(given[name] for name in macro.parameters)})"
            queries.append(f"FROM {call}" if macro.kind == "MACRO TABLE" else f"SELECT {call}")
    with duckdb.connect(house.published, read_only=True) as con:
        for query in queries:
            con.execute(query).fetchall()
    run_quality_checks(house.published)


def test_a_mistaken_number_costs_its_value_and_no_view() -> None:
    everybody, taught = students(20), classes(6)
    with new_house() as house:
        house.night(1, everybody, taught)
        for number, minutes, count in ((2, 1.764e12, 2**63 - 1), (3, -1e308, -(2**63))):
            odd = student(1, **within("summary", total_time_minutes=minutes))
            counted = student(2, **within("summary", completed_assignments=count))
            uncounted = within(
                "assignment_activity", students_with_submissions=count, students_without_submissions=count
            )
            places = [school_class(n, student_count=count) for n in (501, 502)]
            house.night(number, [odd, counted, *everybody[2:]], [*places, school_class(503, **uncounted), *taught[3:]])
        right = student(1, **within("summary", total_time_minutes=1310.5))
        house.night(4, [right, *everybody[1:]], taught)
        minutes_by_night = {1: 20 * 1210.5, 2: 19 * 1210.5, 3: 19 * 1210.5, 4: 20 * 1210.5 + 100}
        total = [(night(n), 20, minutes) for n, minutes in minutes_by_night.items()]
        assert house.query("SELECT snapshot_date, students, total_time_minutes FROM progress_daily ORDER BY 1") == total
        refused = house.query(
            "SELECT about, how_many, description FROM data_quality WHERE kind = 'refused value' ORDER BY ALL"
        )
        assert refused[-1] == ("student_summaries", 1, "total_time_minutes: out of range")
        ask_views(house)


def test_a_future_day_of_activity_is_a_finding_until_it_comes() -> None:
    """A pupil's own computer had the wrong clock. The day after is none: the service's zone may be ahead."""
    ahead = [
        student(1, **within("summary", last_activity_date="2062-11-20")),
        student(2, **within("activity_tracking", last_activity_date=f"{night(4)}", first_login_date="2062-01-01")),
        student(3, **within("summary", last_activity_date=f"{night(2)}")),
    ]
    findings = "SELECT about, since, description FROM data_quality WHERE kind = 'in the future' ORDER BY ALL"
    first_login = ("student_activity", night(1), "first_login_date lies after the landed day: 2")
    last_activity = ("student_summaries", night(1), "last_activity_date lies after the landed day: 1")
    with new_house(classes=classes(1)) as house:
        house.night(1, ahead)
        soon = ("student_activity", night(1), "last_activity_date lies after the landed day: 2")
        assert house.query(findings) == [first_login, soon, last_activity]
        house.night(4, ahead)
        assert house.query(findings) == [first_login, last_activity]


TEXTS = (
    None,
    "A",
    "<b>",
    "\u202eabc",
    "\U0001f3a8" * 40,
    "y" * MAX_TEXT,
    "=1+1",
    "a\tb\n\x00",
    "History",
    "{{x}}",
    "a/b'",
)
NUMBERS = (None, 0, 1, -1, MAX_NUMBER, -MAX_NUMBER, 2**31)
ALLOWED: dict[str, tuple[Any, ...]] = {
    "BIGINT": NUMBERS,
    "DOUBLE": (*NUMBERS, 1e-300, 99.999999999),
    "DATE": (None, "0001-01-02", "1899-12-29", str(night(1)), "9999-12-31"),
    "VARCHAR": TEXTS,
    "BOOLEAN": (None, True, False),
}


def any_value(column: Column, chance: random.Random) -> Any:
    """A value that the declarations take, often an extreme or none."""
    if chance.random() < 0.3:
        return None
    value = chance.choice((None, 7, MAX_ID) if column.id else (0, 1) if column.is_flag else ALLOWED[column.type])
    return abs(value) if column.percent and value is not None else value


def any_values(record: Record, set_name: str, chance: random.Random) -> Record:
    """The record with any values in the columns that may lack one."""
    for table in of_set(set_name):
        for column in table.columns if not table.is_list else ():
            if not column.required and column.name not in table.key:
                *above, last = (*filter(None, [table.path]), *column.path)
                holder = record
                for step in above:
                    holder = holder[step]
                holder[last] = any_value(column, chance)
    return record


@pytest.mark.parametrize("seed", daily([1, 4], 1))
def test_any_allowed_values_stop_no_view_page_or_export(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    chance, out = random.Random(seed), tmp_path / "out"
    with new_house(hold_removed_percent=100, hold_changed_percent=100, report_names=True, pseudonymous=True) as house:
        for number in (1, 2, 3, 8):
            listed = [
                any_values(
                    student(i, classes=[entry(class_id=501 + (i + k) % 15) for k in range(5)]), "students", chance
                )
                for i in (*range(1, 25), FIRST_ID)
                if chance.random() < 0.9
            ]
            try:
                house.night(number, listed, [any_values(school_class(c), "classes", chance) for c in range(501, 516)])
            except HeldError:  # most measures vanish
                house.approve()
        assert "could not be brought up to date" not in caplog.text, "the morning page, or the file without names"
        ask_views(house)
        for form in Format:
            for view in catalog.views():
                export(house.published, view.name, form, out, scratch=tmp_path)
        export(house.published, "roster", Format.XLSX, out, scratch=tmp_path, sheet_by="class_title")
        for since in (None, night(1)):
            oneroster.write(house.published, tmp_path / f"roster {since}", since)
        progress.make(house.published, tmp_path, progress.Chosen(), since=None, pdf=False, scratch=tmp_path)
