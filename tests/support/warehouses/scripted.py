"""A scripted school with nights of all kinds, and a district in which three schools play such nights.

A night was never landed, a night is unproven, a night leaves things unstated, a night is refused in part; a whole week
has no landing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from rollbook.errors import HeldError
from tests.support.models.states import Night
from tests.support.nights import House, night
from tests.support.records import MISSING, Records, classes, entry, school_class, student, students, within
from tests.support.warehouses.district import District, new_district
from tests.support.wire import faults

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


def in_its_own_way(number: int, like: Night) -> Night:
    """A night of the scripted school at another one: its classes have other names, other counts and other last days."""
    listed = [
        school_class(501, student_count=number, class_title="Maths", **within("summary", average_score=60.0 + number)),
        school_class(
            502,
            class_status=0 if 5 < number < 9 else 1,
            student_count=2,
            course={"course_id": 71, "course_name": "Art"},
        ),
        *([school_class(599, student_count=1)] if number < 9 else []),
    ]
    return like._replace(classes=listed)


# The same students on other days: absent, refused and not stated when the first school lists them.
ODD = {
    number: in_its_own_way(number, NIGHTS[like])
    for number, like in ((2, 11), (3, 5), (4, 6), (6, 7), (9, 1), (11, 2), (13, 4))
}


def play(house: House, nights: Mapping[int, Night]) -> None:
    """Play nights, each with its own records."""
    for number, played in nights.items():
        if played.unproven:
            house.service.on(faults.moved_total(1), path="students", page=1, times=None)
        house.night(number, list(played.students), list(played.classes))
        house.service.mend()


# 007: a name that other engines read as a number. `yew` is in the registry and never synced.
SHARING, OTHER, LATER, NEVER, LARGE = "elm", "ash", "007", "yew", "oak"
SYNCED = (LATER, OTHER, SHARING)


@contextmanager
def scripted_district(sharing: Iterable[int], other: Mapping[int, Night], *others: str) -> Iterator[District]:
    """Institutions whose students and classes share their ids, with other limits, other first and newest days.

    `sharing` are the nights of one of them, `other` is what another one plays; `others` play nothing.
    """
    with new_district([SHARING, OTHER], LATER, NEVER, *others) as district:
        houses = {name: district.house(name) for name in (SHARING, OTHER, LATER)}
        for house in houses.values():
            house.over |= {"hold_changed_percent": 100, "hold_removed_percent": 100}
        folder = district.warehouse / OTHER
        folder.mkdir(parents=True)
        (folder / "thresholds.csv").write_text("name,value,meaning\ncompletion_below,80,\nleast_assignments,1,\n")
        (folder / "terms.csv").write_text(f"name,first_day,last_day\nWinter,{night(1)},{night(9)}\n")
        # In no class, and renamed in one institution while nothing changes in the other.
        nine = {n: student(9, classes=[]) if n < 7 else student(9, classes=MISSING, name="Nine") for n in sharing}
        play(houses[SHARING], {n: NIGHTS[n]._replace(students=[*NIGHTS[n].students, nine[n]]) for n in sharing})
        play(houses[OTHER], other)
        plain = student(9, classes=[])
        more = NIGHTS[5]._replace(students=[*NIGHTS[5].students, plain, *students(12, first=50)])
        play(houses[LATER], {5: NIGHTS[7]._replace(students=[*NIGHTS[7].students, plain]), 7: more})
        with pytest.raises(HeldError):
            houses[LATER].night(11, students(9, first=50), over={"hold_removed_percent": 10})
        yield district
