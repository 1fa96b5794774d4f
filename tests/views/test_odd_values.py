"""A number that nobody can mean costs the value, and stops no view or macro; a date that lies ahead is a finding."""

from __future__ import annotations

import duckdb

from rollbook.landing.records import MAX_ID
from rollbook.operations.data_quality import run_quality_checks
from rollbook.views import catalog, metrics
from tests.support.nights import House, new_house, night
from tests.support.records import classes, school_class, student, students, within

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


def test_a_day_of_activity_that_lies_ahead_is_a_finding_until_it_has_come() -> None:
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
