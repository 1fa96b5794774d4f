"""The classes: which exist on a day, their titles, teachers and assignments.

A school has a fixed number of places in its timetable, each of which always has one active class. When a class closes,
its successor opens in the same place on the same day with the same pupils; the closed one stays listed as inactive for
three weeks and then disappears. `pupils.py` has the pupils of each place, `records.py` makes the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pipelines.sandbox.clock import day_of_school_day
from pipelines.sandbox.names import FAMILY, GIVEN, family_first, family_of, full_name, given_of, tradition_of
from pipelines.sandbox.rng import Ints, Rng

LISTED_AFTER_CLOSING = 15  # school days
_TEACHER_STAYS = 1200  # school days that a class keeps its teacher, on average
_ROOM_STAYS = 900
_CLASSES_OF_A_TEACHER = 5
_WITHOUT_ASSIGNMENTS = 0.04  # classes that never set any


class _Group(NamedTuple):
    """Places of which a pupil has at most one, like a lesson slot of the week."""

    taken_by: float  # share of the pupils
    size: int  # pupils in a class
    lasts: int  # school days from opening to closing
    elective: bool


# Four lessons for all pupils, two for some. Electives are small and short, so that in a school of 500 a class opens or
# closes every other day without moving a tenth of the pupils each time.
GROUPS = (_Group(1, 25, 2000, False),) * 4 + (_Group(2 / 3, 25, 2000, False), _Group(1 / 3, 5, 100, True))
_LEAST_OF_A_GROUP = 6  # so that one event affects only a small share of a tiny school

_SUBJECTS = [
    *("Mathematics", "English", "Biology", "History", "Chemistry", "Geography", "Physics", "French", "Art and Design"),
    *("Computing", "Spanish", "Music", "Economics", "Latin", "Physical Education", "Philosophy", "German"),
    *("Statistics", "Drama", "Civics", "Literature", "Environmental Science"),
]
_ELECTIVES = [
    *("Robotics", "Choir", "Pottery", "Chess", "Film Studies", "Astronomy", "Debating", "Gardening", "Photography"),
    *("Creative Writing", "Orchestra", "Cookery", "Sign Language", "Bookbinding", "Fencing", "Journalism"),
]


@dataclass(frozen=True)
class Classes:
    """The classes listed on a day, by ascending id: one entry each. Days are day numbers."""

    class_id: Ints
    place: Ints
    is_active: Ints  # 1 or 0
    opened: Ints
    teacher: Ints  # place in `Timetable.teachers`
    room: Ints
    summarised: Ints  # the day of the summary
    assignments: Ints
    first_assignment: Ints  # day; undefined without assignments
    last_assignment: Ints


class Course(NamedTuple):
    """A course; it has several classes."""

    course_id: int
    course_name: str


class Teacher(NamedTuple):
    """A teacher, with several classes."""

    teacher_id: int
    name: str
    email: str


class Timetable:
    """All places of a school, and the class in each on any day. Days are counted in school days."""

    def __init__(self, rng: Rng, students: int, opened: int, first_school_day: int) -> None:
        """`opened` is the day number of the opening, `first_school_day` the count of the first school day from it."""
        self._rng, self._opened, self._first = rng, opened, first_school_day
        sizes = [max(_LEAST_OF_A_GROUP, round(students * group.taken_by / group.size)) for group in GROUPS]
        self.group_sizes = np.array(sizes)
        self.group_starts = np.cumsum(self.group_sizes) - self.group_sizes
        self.places = int(self.group_sizes.sum())
        self._place = np.arange(self.places)
        self._group = np.repeat(np.arange(len(GROUPS)), self.group_sizes)
        self._lasts = np.array([group.lasts for group in GROUPS])[self._group]
        self._stride = 10 ** max(3, len(str(self.places)))
        self._phase = np.zeros(self.places, dtype=np.int64)
        for lasts in np.unique(self._lasts).tolist():  # spread together, or all groups would close on the same days
            alike = self._lasts == lasts
            self._phase[alike] = rng.spread(f"class {lasts}", int(alike.sum()), lasts)
        self._teacher_phase = rng.spread("class teacher", self.places, _TEACHER_STAYS)
        self._room_phase = rng.spread("class room", self.places, _ROOM_STAYS)
        self.courses, self.course_of, self.section_of = self._make_courses()
        self.teachers = self._make_teachers()

    def on(self, school_day: int) -> Classes:
        """Return the classes listed on the n-th school day (or on the weekend after it)."""
        since = school_day - self._first + 1
        turn, age = np.divmod(since + self._phase, self._lasts)
        opened = school_day - age
        still_listed = (age < LISTED_AFTER_CLOSING) & (turn > 0) & (opened >= self._first)
        now = self._part(self._place, turn, opened, np.full_like(opened, school_day), is_active=1)
        closed = self._part(
            self._place[still_listed],
            turn[still_listed] - 1,
            (opened - self._lasts)[still_listed],
            opened[still_listed] - 1,
            is_active=0,
        )
        both = {name: np.concatenate([closed[name], now[name]]) for name in now}
        order = np.argsort(both["class_id"])
        return Classes(**{name: values[order] for name, values in both.items()})

    def _part(self, place: Ints, turn: Ints, opened: Ints, last: Ints, *, is_active: int) -> dict[str, Ints]:
        """Return classes by place and turn, as of their `last` school day: today, or the day before they closed."""
        opened = np.maximum(opened, self._first - 1)  # `_day` turns it into the opening day, even at a weekend
        class_id = (5 + turn) * self._stride + place
        since = last - self._first + 1
        teacher_turn = (since + self._teacher_phase[place]) // _TEACHER_STAYS
        room_turn = (since + self._room_phase[place]) // _ROOM_STAYS
        own_teacher = (place // _CLASSES_OF_A_TEACHER) + teacher_turn
        # A class's summary is computed on one weekday of its own, and on the day it opens.
        summarised = np.maximum(last - (last - place) % 5, opened)
        assignments, first, latest = self._assignments(class_id, opened, last)
        return {
            "class_id": class_id,
            "place": place,
            "is_active": np.full_like(place, is_active),
            "opened": self._day(opened),
            "teacher": own_teacher % len(self.teachers),
            "room": 1 + self._rng.below("room", class_id, 240, room_turn),
            "summarised": self._day(summarised),
            "assignments": assignments,
            "first_assignment": self._day(first),
            "last_assignment": self._day(latest),
        }

    def _day(self, school_day: Ints) -> Ints:
        """Return the day numbers, none before the school opened (which may have been at a weekend)."""
        return np.maximum(day_of_school_day(school_day), self._opened)

    def _assignments(self, class_id: Ints, opened: Ints, last: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the number of each class's assignments, and the school days of the first and the latest.

        The first comes one to two weeks after opening, the others two to four weeks apart.
        """
        first = opened + 4 + self._rng.below("first assignment", class_id, 7)
        apart = 10 + self._rng.below("assignments", class_id, 11)
        sets_any = self._rng.share("sets any", class_id) >= _WITHOUT_ASSIGNMENTS
        count = np.where(sets_any & (last >= first), 1 + (last - first) // apart, 0)
        return count, first, first + np.maximum(count - 1, 0) * apart

    def _make_courses(self) -> tuple[list[Course], list[int], list[str]]:
        """Return the courses, each place's course (an index into them), and its letter within the course."""
        courses: list[Course] = []
        course_of: list[int] = []
        section_of: list[str] = []
        for group, size in zip(GROUPS, self.group_sizes.tolist(), strict=True):
            sections = 3 if group.elective else 4
            for local in range(size):
                if local % sections == 0:
                    courses.append(Course(201 + len(courses), _course_name(len(courses), group.elective)))
                course_of.append(len(courses) - 1)
                section_of.append("ABCD"[local % sections])
        return courses, course_of, section_of

    def _make_teachers(self) -> list[Teacher]:
        number = np.arange(max(2, self.places // _CLASSES_OF_A_TEACHER))
        teacher_id = 70_001 + number
        tradition = tradition_of(self._rng, teacher_id)
        given = given_of(self._rng, teacher_id, tradition).tolist()
        family = family_of(self._rng, teacher_id, tradition).tolist()
        teachers = []
        for at, first in zip(number.tolist(), family_first(tradition), strict=True):
            own, shared = GIVEN[given[at]], FAMILY[family[at]]
            email = f"{own.spelled}.{shared.spelled}.{70_001 + at}@staff.example.org"
            teachers.append(Teacher(70_001 + at, full_name(own, shared, first), email))
        return teachers


def _course_name(number: int, elective: bool) -> str:
    names = _ELECTIVES if elective else _SUBJECTS
    level, subject = divmod(number, len(names))
    return f"{names[subject]} {level + 1}"
