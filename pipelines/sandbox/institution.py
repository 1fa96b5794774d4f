"""The made-up institution, day by day: joins pupils, work and classes into the rows of one day.

A day is a pure function of the seed, the size, the opening date and the date. Nothing is simulated forward or kept from
day to day, except a cache of class summaries, which are as of earlier days. The rates of events are in `pupils.py`,
`work.py` and `timetable.py`, the shapes of records in `records.py`. No HTTP here.

A class's summary is computed once a week, on a weekday of its own, from its pupils on that day. If it were computed
every night, all class summaries would change every morning; this way about a fifth change on a school day.
`Day.summarised` has the day of each class's summary. A closed class keeps its last summary and has nobody enrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import cached_property, lru_cache

import numpy as np

from pipelines.errors import ArgumentError
from pipelines.sandbox.clock import LAST_DATE, IsoDates, date_of, day_number, school_days
from pipelines.sandbox.names import FAMILY, GIVEN, family_first
from pipelines.sandbox.pupils import Pupils, Register
from pipelines.sandbox.records import ClassRow, Record, StudentRow, class_record, detail_record, student_record
from pipelines.sandbox.rng import Flags, Floats, Ints, Rng
from pipelines.sandbox.timetable import Classes, Timetable
from pipelines.sandbox.work import LIVELY, QUIET, Work, work_until

_KEPT_FIGURES = 64  # days; 20 are in use at a time
_ROWS_AT_ONCE = 5000

# Per place of the timetable: average completion rate, average score, total minutes.
_Figures = tuple[Floats, Floats, Floats]


class Institution:
    """A school of about `students` listed students that opened on `opened`. Equal arguments make equal schools.

    In a `quiet` school pupils seldom work: 2 to 3 % of the students change overnight, instead of four in ten.
    """

    def __init__(
        self, students: int = 500, seed: int = 1, opened: date = date(2023, 8, 1), *, quiet: bool = False
    ) -> None:
        """Raises ArgumentError for fewer than one student."""
        if students < 1:
            raise ArgumentError(f"A sandbox of {students} students cannot be made. Ask for at least 1.")
        self.students, self.seed, self.opened = students, seed, opened
        self._rng = Rng(seed)
        self._paces = QUIET if quiet else LIVELY
        start = day_number(opened)
        first_school_day = school_days(start - 1) + 1
        self.timetable = Timetable(self._rng, students, start, first_school_day)
        self._register = Register(self._rng, students, start, first_school_day, self.timetable)
        self._figures: Callable[[int], _Figures] = lru_cache(_KEPT_FIGURES)(self._compute_figures)

    def on(self, day: date) -> Day:
        """Return the institution at the end of that day.

        Raises ArgumentError for a day before it opened or after the calendar ends.
        """
        if day < self.opened:
            raise ArgumentError(f"The sandbox's school opened on {self.opened}. Ask for that day or a later one.")
        if day > LAST_DATE:
            raise ArgumentError(f"The sandbox's calendar ends on {LAST_DATE}. Ask for that day or an earlier one.")
        number = day_number(day)
        pupils, work = self._people(number)
        return Day(day, self.timetable, pupils, work, self.timetable.on(school_days(number)), self._figures)

    def _people(self, number: int) -> tuple[Pupils, Work]:
        pupils = self._register.on(school_days(number))
        return pupils, work_until(self._rng, self._paces, pupils.student_id, pupils.joined, number)

    def _compute_figures(self, number: int) -> _Figures:
        """Compute the class summaries as of one day, for the classes that were active then."""
        pupils, work = self._people(number)
        scored = ~np.isnan(work.score)
        count = _per_place(self.timetable, pupils, np.ones_like(work.minutes))
        count_scored = _per_place(self.timetable, pupils, scored.astype(float))
        rates = _per_place(self.timetable, pupils, work.completion_rate) / np.maximum(count, 1)
        scores = _per_place(self.timetable, pupils, np.where(scored, work.score, 0)) / np.maximum(count_scored, 1)
        minutes = _per_place(self.timetable, pupils, work.minutes)
        return np.round(rates, 2), np.round(scores, 2), np.round(minutes, 1)


class Day:
    """The records of one day. `students` and `classes` are in the order of the lists: by ascending id."""

    def __init__(
        self,
        day: date,
        timetable: Timetable,
        pupils: Pupils,
        work: Work,
        classes: Classes,
        figures: Callable[[int], _Figures],
    ) -> None:
        self.date = day
        self._timetable, self._pupils, self._work, self._classes = timetable, pupils, work, classes
        self._figures = figures
        self._iso = IsoDates()

    @cached_property
    def students(self) -> list[Record]:
        """The student list's records (contract, "Student")."""
        return list(self.student_records())

    @cached_property
    def classes(self) -> list[Record]:
        """The class list's records (contract, "Class")."""
        return list(self.class_records())

    @cached_property
    def rosters(self) -> dict[int, list[int]]:
        """Class id to the ids of its students, including those whose records omit their classes."""
        rosters: dict[int, list[int]] = {row.class_id: [] for row in self.class_rows}
        for row in self._all_student_rows():
            for own in row.classes:
                rosters[own.class_id].append(row.student_id)
        return rosters

    @property
    def summarised(self) -> dict[int, date]:
        """Class id to the day of its summary."""
        pairs = zip(self._classes.class_id.tolist(), self._classes.summarised.tolist(), strict=True)
        return {class_id: date_of(number) for class_id, number in pairs}

    @property
    def student_ids(self) -> list[int]:
        """The listed students' ids, in order."""
        ids: list[int] = self._pupils.student_id.tolist()
        return ids

    def detail(self, student_id: int) -> Record | None:
        """Return the single-student endpoint's record; None if the student is not listed."""
        at = np.flatnonzero(self._pupils.student_id == student_id)
        return next((detail_record(row) for row in self._student_rows(at)), None)

    def student_records(self) -> Iterator[Record]:
        """Yield the students one by one, without holding all in memory."""
        return map(student_record, self._all_student_rows())

    def class_records(self) -> Iterator[Record]:
        """Yield the classes one by one."""
        return map(class_record, self.class_rows)

    def enrolled_in(self, class_ids: Iterable[int]) -> list[int]:
        """Return the positions in `students` of the students in any of these classes; inactive classes have none."""
        wanted = set(class_ids)
        places = [place for place, row in self._active.items() if row.class_id in wanted]
        at: list[int] = np.flatnonzero(np.isin(self._pupils.places, places).any(axis=1)).tolist()
        return at

    @cached_property
    def class_rows(self) -> list[ClassRow]:
        """The listed classes, by ascending id."""
        timetable, classes = self._timetable, self._classes
        active = classes.is_active == 1
        enrolled = np.where(active, self._count(np.ones_like(self._work.has_visited))[classes.place], 0)
        submitters = np.where(active, self._count(self._work.submitted > 0)[classes.place], 0)
        rates, scores, minutes = self._summaries()
        rows = []
        for at, place in enumerate(classes.place.tolist()):
            course = timetable.courses[timetable.course_of[place]]
            assignments = int(classes.assignments[at])
            rows.append(
                ClassRow(
                    class_id=int(classes.class_id[at]),
                    class_title=f"{course.course_name}{timetable.section_of[place]}",
                    is_active=int(classes.is_active[at]),
                    opened=self._iso[int(classes.opened[at])],
                    room=int(classes.room[at]),
                    course=course,
                    teacher=timetable.teachers[int(classes.teacher[at])],
                    enrolled=int(enrolled[at]),
                    with_submissions=int(submitters[at]) if assignments else 0,
                    completion_rate=float(rates[at]),
                    score=float(scores[at]),
                    minutes=float(minutes[at]),
                    assignments=assignments,
                    first_assignment=self._iso[int(classes.first_assignment[at])] if assignments else None,
                    last_assignment=self._iso[int(classes.last_assignment[at])] if assignments else None,
                )
            )
        return rows

    def _count(self, which: Flags) -> Ints:
        return _per_place(self._timetable, self._pupils, which.astype(float)).astype(np.int64)

    def _summaries(self) -> _Figures:
        """Return each listed class's figures as of the day of its summary."""
        found = tuple(np.zeros(len(self._classes.place)) for _ in range(3))
        for number in np.unique(self._classes.summarised).tolist():
            at = np.flatnonzero(self._classes.summarised == number)
            for into, figures in zip(found, self._figures(number), strict=True):
                into[at] = figures[self._classes.place[at]]
        return found[0], found[1], found[2]

    @cached_property
    def _active(self) -> dict[int, ClassRow]:
        """The active class of each place of the timetable."""
        places = self._classes.place.tolist()
        return {place: row for place, row in zip(places, self.class_rows, strict=True) if row.is_active}

    def _all_student_rows(self) -> Iterator[StudentRow]:
        """Yield all rows, some thousands at a time: the lists behind them take as much memory as the records."""
        listed = np.arange(len(self._pupils.student_id))
        for start in range(0, len(listed), _ROWS_AT_ONCE):
            yield from self._student_rows(listed[start : start + _ROWS_AT_ONCE])

    def _student_rows(self, at: Ints) -> Iterator[StudentRow]:
        """Yield the rows of the students at these positions in the list."""
        pupils, work, active, iso = self._pupils, self._work, self._active, self._iso
        visited = work.has_visited[at].tolist()
        last_day = work.last_day[at].tolist()
        today = day_number(self.date)
        emails = zip(
            pupils.email_given[at].tolist(),
            pupils.email_family[at].tolist(),
            pupils.student_id[at].tolist(),
            strict=True,
        )
        columns = (
            pupils.student_id[at].tolist(),
            [GIVEN[name] for name in pupils.given[at].tolist()],
            [FAMILY[name] for name in pupils.family[at].tolist()],
            family_first(pupils.tradition[at]),
            [
                f"{GIVEN[given].spelled}.{FAMILY[family].spelled}.{own}@students.example.org"
                for given, family, own in emails
            ],
            [iso[number] for number in pupils.joined[at].tolist()],
            [[active[place] for place in own if place >= 0] for own in pupils.places[at].tolist()],
            pupils.omitted[at].tolist(),
            [iso[n] if seen else None for n, seen in zip(work.first_day[at].tolist(), visited, strict=True)],
            [iso[n] if seen else None for n, seen in zip(last_day, visited, strict=True)],
            [today - n if seen else None for n, seen in zip(last_day, visited, strict=True)],
            work.total[at].tolist(),
            work.completed[at].tolist(),
            work.completion_rate[at].tolist(),
            [None if score != score else score for score in work.score[at].tolist()],  # NaN is unequal to itself
            work.total_assessments[at].tolist(),
            work.completed_assessments[at].tolist(),
            work.minutes[at].tolist(),
            work.submitted[at].tolist(),
            work.missing[at].tolist(),
        )
        return map(StudentRow._make, zip(*columns, strict=True))


def _per_place(timetable: Timetable, pupils: Pupils, amounts: Floats) -> Floats:
    """Sum the pupils' amounts in each place of the timetable. One column at a time keeps memory small."""
    sums = np.zeros(timetable.places)
    for column in pupils.places.T:
        taken = column >= 0
        sums += np.bincount(column[taken], weights=amounts[taken], minlength=timetable.places)
    return sums
