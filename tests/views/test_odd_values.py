"""A number that nobody can mean costs its record, and stops no view or macro."""

from __future__ import annotations

import duckdb

from pipelines.landing.records import MAX_ID
from pipelines.operations.data_quality import run_quality_checks
from pipelines.views import catalog, metrics
from tests.support.nights import House, new_house, night
from tests.support.records import classes, school_class, student, students, within

# Near the largest id, where a sum or a difference of two would leave its type.
FIRST_ID = MAX_ID - 1000


def ask_views(house: House) -> None:
    """Ask every view, measure and macro; what cannot answer raises."""
    asked = [*(f"FROM {v.name}" for v in catalog.views()), *(m.query for m in metrics.METRICS)]
    for days in (f"DATE '{night(8)}'", "DATE '0001-01-01'", "DATE '9999-12-31'"):
        given = {"day": days, "from_day": "DATE '0001-01-01'", "to_day": days, "students": f"[{FIRST_ID}]"}
        for macro in catalog.macros():
            call = f"{macro.name}({', '.join(given[name] for name in macro.parameters)})"
            asked.append(f"FROM {call}" if macro.kind == "MACRO TABLE" else f"SELECT {call}")
    with duckdb.connect(house.published, read_only=True) as con:
        for query in asked:
            con.execute(query).fetchall()
    run_quality_checks(house.published)


def test_a_mistaken_number_costs_its_record_and_no_view() -> None:
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
        total = [(night(n), 20, 20 * 1210.5 + (100 if n == 4 else 0)) for n in (1, 2, 3, 4)]
        assert house.query("SELECT snapshot_date, students, total_time_minutes FROM progress_daily ORDER BY 1") == total
        refused = house.query(
            "SELECT about, how_many, description FROM data_quality WHERE kind = 'reject' ORDER BY ALL"
        )
        assert refused[-1] == ("students", 1, "summary.total_time_minutes: expected float >= -100000000000.0")
        ask_views(house)
