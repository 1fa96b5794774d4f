"""The views over days and weeks on a scripted school, with nights of all kinds, against plain Python.

A night was never landed, a night is unproven, a night leaves things unstated, a night is refused in part; a whole week
has no landing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest

from rollbook.tables import of_set
from rollbook.views import catalog
from tests.support.models import states
from tests.support.models.states import Night, States
from tests.support.nights import House, new_house, night
from tests.support.records import MISSING, Records, classes, entry, school_class, student, within
from tests.support.wire import faults

pytestmark = pytest.mark.timeout(400)  # eight whole syncs, once for all tests

ALGEBRA, BIOLOGY = entry(), entry(class_id=502, class_title="Biology", course_name="Science")
GONE = entry(class_id=599, class_title="Not in the class list")


def progress(completed: int, rate: float, **over: Any) -> dict[str, Any]:
    """A student's summary."""
    return within("summary", completed_assignments=completed, completion_rate=rate, **over)


OVERDONE = progress(21, 100.0)
FIRST: Records = [
    student(1),
    student(2, classes=[ALGEBRA, BIOLOGY]),
    student(3, classes=[]),
    student(4, classes=MISSING, activity_tracking=MISSING, **progress(0, 0, total_assignments=0, average_score=None)),
    student(5, **within("summary", last_activity_date=None)),
    student(6, classes=[ALGEBRA, GONE]),
]
SECOND: Records = [
    student(1, **progress(9, 45.0, average_score=60.0, total_time_minutes=1300)),
    student(2, classes=[BIOLOGY]),
    student(3, classes=[ALGEBRA], name="Pupil Renamed"),
    FIRST[3],
    student(
        5,
        summary=FIRST[4]["summary"],
        **within("activity_tracking", has_ever_logged_in=False, last_activity_date=None, first_login_date=None),
    ),
    FIRST[5],
]
# A class that has no assignments yet: a service states 0 for it.
NEW = {"average_completion_rate": 0.0, "average_score": 0.0, "total_engagement_minutes": 0.0}
OPENED = school_class(504, summary=NEW, **within("assignment_activity", has_assignments=False, assignment_count=0))
CLASSES = [*classes(2), school_class(503, class_status=0, student_count=7), OPENED]
# A number left out is a night without a sync. Night 1 is a Friday; nights 2 and 3 end the week.
NIGHTS: dict[int, Night] = {
    1: Night(FIRST, CLASSES),
    2: Night(SECOND, CLASSES),
    # 3 was never landed. Unproven: student 2 is not on the pages, and stays.
    4: Night([*SECOND[:1], *SECOND[2:]], CLASSES, unproven=("students",)),
    # Unstated: nothing of the classes of 1, nothing of the activity of 2.
    5: Night([{**SECOND[0], "classes": None}, {**SECOND[1], "activity_tracking": None}, *SECOND[2:]], CLASSES),
    # Refused: the record of 3, in which the classes would have been none.
    6: Night([*SECOND[:2], student(3, classes=[], name=MISSING), *SECOND[3:]], CLASSES, refused=(3,)),
    # 2 is gone, 7 is new, 4 says at last that there is no class, 5 logs in, and Biology has another name.
    7: Night(
        [
            student(1, **progress(12, 62.5, average_score=None)),
            SECOND[2],
            {**FIRST[3], "classes": []},
            FIRST[4],
            student(6, classes=[entry(class_title="Algebra 2"), GONE]),
            student(7, classes=[BIOLOGY], house="a field that nobody declared"),
        ],
        [school_class(501, student_count=4), school_class(502, class_title="Biology"), OPENED, school_class(505)],
    ),
    # The next week; 2 is back, without a word of classes or activity.
    11: Night(
        [
            student(1, **progress(14, 70.0)),
            student(2, classes=MISSING, activity_tracking=MISSING),
            SECOND[2],
            FIRST[3],
            student(6),
            student(7, **progress(20, 100.0)),
        ],
        [
            school_class(501, student_count=5),
            school_class(502, summary={**CLASSES[1]["summary"], "average_score": 90.0}),
            school_class(504),
            # A new term has begun in 505.
            school_class(505, **within("assignment_activity", assignment_count=2)),
        ],
    ),
    # After a week without a landing.
    25: Night([student(1), FIRST[5], student(7, classes=[], **OVERDONE)], [school_class(501, student_count=9)]),
}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with new_house(hold_changed_percent=100, hold_removed_percent=100) as house:
        for number, played in NIGHTS.items():
            if played.unproven:
                house.service.on(faults.moved_total(1), path="students", page=1, times=None)
            house.night(number, list(played.students), list(played.classes))
            house.service.mend()
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
def test_a_view_says_what_the_script_implies(view: str, house: House, script: States) -> None:
    assert asked(house, view) == expected(view, VIEWS[view](script))


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
def test_a_filter_gives_the_same_rows(view: str, column: str, value: Any, house: House, script: States) -> None:
    chosen = [row for row in VIEWS[view](script) if row.get(column) == value]
    literal = f"DATE '{value}'" if isinstance(value, date) else value
    assert chosen
    assert asked(house, view, f"{column} = {literal}") == expected(view, chosen)


def test_a_student_is_told_in_words(house: House) -> None:
    timeline = house.query(
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
    assert house.query(titles) == [
        (night(7), "class Algebra 1 to Algebra 2", 501, "Algebra 2"),
        (night(11), "class Algebra 2 to Algebra 1", 501, "Algebra 1"),
    ]
    kinds = {r[0] for r in house.query("SELECT what FROM student_timeline")}
    assert {"new", "gone", "back", "joined", "left", "details", "login"} <= kinds


def test_every_field_of_a_student_is_told() -> None:
    """A new view needs a line in student_timeline.sql."""
    columns = {c.name for t in of_set("students") for c in t.tracked}
    query = catalog.view("student_timeline").query
    assert {c for c in columns if f"('{c}'," not in query} == {"is_registered"}


LANDED_NOT = "no landing: nothing is known of these days by themselves"
STANDS = "was left out of the records, on the newest landed day of 0 students; what was known stands"


def test_every_finding_is_listed_once(house: House) -> None:
    assert house.query("FROM data_quality ORDER BY kind, about, since") == [
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
