"""The views over days and weeks on a scripted school, with nights of all kinds, against plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest

from rollbook.tables import of_set
from rollbook.views import catalog
from tests.support.models import states
from tests.support.models.states import States
from tests.support.nights import House, new_house, night
from tests.support.warehouses.scripted import NIGHTS, play

pytestmark = pytest.mark.timeout(400)  # eight whole syncs, once for all tests


@pytest.fixture(scope="module")
def scripted_school() -> Iterator[House]:
    with new_house(hold_changed_percent=100, hold_removed_percent=100) as house:
        play(house, NIGHTS)
        yield house


@pytest.fixture(scope="module")
def script() -> States:
    return states.played({night(number): played for number, played in NIGHTS.items()})


Rows = list[tuple[Any, ...]]


def expected(view: str, rows: list[dict[str, Any]]) -> Rows:
    columns = [name for name, _ in catalog.view(view).columns]
    return sorted((tuple(row.get(c) for c in columns) for row in rows), key=repr)


def asked(house: House, view: str, where: str = "TRUE") -> Rows:
    columns = ", ".join(name for name, _ in catalog.view(view).columns)
    return sorted(house.query(f"SELECT {columns} FROM {view} WHERE {where}"), key=repr)


VIEWS: dict[str, Callable[[States], list[dict[str, Any]]]] = {
    f.__name__: f
    for f in (
        *(states.student_daily, states.student_weekly, states.student_timeline),
        *(states.class_weekly, states.progress_weekly),
    )
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_says_what_the_script_implies(view: str, scripted_school: House, script: States) -> None:
    assert asked(scripted_school, view) == expected(view, VIEWS[view](script))


@pytest.mark.parametrize(
    ("view", "column", "value"),
    [
        ("student_daily", "snapshot_date", night(5)),
        ("student_daily", "student_id", 2),
        ("student_weekly", "week_begins", night(4)),
        ("student_weekly", "student_id", 2),
        ("class_weekly", "week_begins", night(11)),
        ("class_weekly", "class_id", 502),
        ("progress_weekly", "week_begins", night(11)),
        ("student_timeline", "student_id", 3),
        ("student_timeline", "snapshot_date", night(7)),
    ],
)
def test_a_filter_gives_the_same_rows(
    view: str, column: str, value: Any, scripted_school: House, script: States
) -> None:
    chosen = [row for row in VIEWS[view](script) if row.get(column) == value]
    literal = f"DATE '{value}'" if isinstance(value, date) else value
    assert chosen
    assert asked(scripted_school, view, f"{column} = {literal}") == expected(view, chosen)


def test_a_student_is_told_in_words(scripted_school: House) -> None:
    timeline = scripted_school.query(
        "SELECT snapshot_date, what, description FROM student_timeline WHERE student_id = 1 ORDER BY ALL LIMIT 9"
    )
    assert timeline == [
        (night(2), "assignments", "assignments completed 15 to 9"),
        (night(2), "completion", "completion 75 % to 45 %"),
        (night(2), "score", "score 81.5 to 60"),
        (night(2), "time", "minutes of learning 1210.5 to 1300"),
        (night(7), "assignments", "assignments completed 9 to 12"),
        (night(7), "completion", "completion 45 % to 62.5 %"),
        (night(7), "score", "score 60 to none"),
        (night(7), "time", "minutes of learning 1300 to 1210.5"),
        (night(11), "assignments", "assignments completed 12 to 14"),
    ]
    titles = "SELECT snapshot_date, description, class_id, class_title FROM student_timeline WHERE what = 'class' ORDER BY ALL"
    assert scripted_school.query(titles) == [
        (night(7), "class Algebra 1 to Algebra 2", 501, "Algebra 2"),
        (night(11), "class Algebra 2 to Algebra 1", 501, "Algebra 1"),
    ]
    kinds = {r[0] for r in scripted_school.query("SELECT what FROM student_timeline")}
    assert {"new", "gone", "back", "joined", "left", "details", "login"} <= kinds


def test_every_field_of_a_student_is_told() -> None:
    """A new view needs a line in student_timeline.sql."""
    columns = {c.name for t in of_set("students") for c in t.tracked}
    query = catalog.view("student_timeline").query
    assert {c for c in columns if f"('{c}'," not in query} == {"is_registered"}


LANDED_NOT = "no landing: nothing is known of these days by themselves"
STANDS = "was left out of the records, on the newest landed day of 0 students; what was known stands"


def test_every_finding_is_listed_once(scripted_school: House) -> None:
    assert scripted_school.query("FROM data_quality ORDER BY kind, about, since") == [
        (
            *("count mismatch", "classes", 1, night(11), night(25)),
            "student_count is not the number of students who list the class: 501",
        ),
        ("drift", "students", 1, night(7), night(7), "unknown field house (string)"),
        ("gap", None, 1, night(3), night(3), LANDED_NOT),
        ("gap", None, 3, night(8), night(10), LANDED_NOT),
        ("gap", None, 13, night(12), night(24), LANDED_NOT),
        (
            *("more completed than given", "student_summaries", 1, night(25), night(25)),
            "students completed more assignments or assessments than were given: 7",
        ),
        ("not stated", "student_activity", 2, night(1), night(11), f"activity_tracking {STANDS}"),
        ("not stated", "student_classes", 3, night(1), night(11), f"classes {STANDS}"),
        ("reject", "students", 1, night(6), night(6), "object missing required field name"),
        (
            *("unlisted class", "student_classes", 1, night(25), night(25)),
            "students list the class, the class list does not have it: 599",
        ),
        ("unproven", "students", 1, night(4), night(4), "not proven complete: nothing was removed on these nights"),
    ]
