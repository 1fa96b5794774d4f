"""The made-up institution, day by day: a day is a pure function of the seed, the size, the opening date and the date.

Every random choice comes from Philox, numpy's counter-based generator, with the seed and the purpose as the key. So
nothing is simulated forward or kept from day to day, and days can be asked for in any order. Everything is computed for
all seats of the school at once. No HTTP here. To add a field, add a line to `_students` or `_classes`.

**Pupils.** A school has a fixed number of seats. A fifth of the seats is vacated in July, by pupils who have finished
school, and taken in August. Between, a seat's pupil stays for about two years, and a new pupil follows two weeks later.
Now and then a pupil is not listed for some days and comes back. A few get another id and keep their name, email and
reference id; a few get the id of the pupil who had the seat before.

**Classes.** A school has a fixed number of places in the timetable, each of which always has an active class. In August
everybody is promoted: all classes close and new classes open, with other pupils. Electives are shorter. When a class
closes, the successor opens in the same place on the same day with the same pupils. A closed class stays listed as
inactive for three weeks and then disappears. A summary is computed once a week, on a weekday of the place's own.

**Work.** Nearly everybody works on every day of lessons, a few at a weekend, and nobody in the holidays. Each class
sets a piece of work in four of five weeks with lessons, due a week later. Most pupils hand in 75 to 99 % of it in the
end, some of that late; some pupils always miss most, and a few hardly ever come. All counts begin again with the school
year, in the last week of August. The best have extra credit, so that their score is above 100.

**Who turns.** In each school year a tenth of the seats has a pupil who turns on some day (`TURNS`): stops all work,
slips over weeks, leaves one subject, or works little for some weeks, until somebody has spoken to them. Half are ill
for a few days, some classes have a lull of two weeks, and some teachers mark late: the work counts as missing until
then. The records say nothing of all that; `turned` and `ill` do, for tests of a rule. Chance belongs to a pupil and a
piece, so that a school `without` the lulls, the late marking or the long holiday differs in nothing else.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from datetime import date
from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from rollbook.errors import ArgumentError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Record = dict[str, Any]
Columns = dict[str, Any]  # arrays with one entry for each seat of the school, or for each place of the timetable

# Share of pupils, and how many moments apart their visits are. The rest never visit.
_PACES = ((0.79, 10), (0.11, 14), (0.07, 35), (0.015, 400))
_FIRST_VISIT_WITHIN = 150  # moments: three weeks of term

# In school days, spread over the seats: with 500 students, in a fortnight nine join and nine leave, five are away for
# some days, and six change their name.
_SEAT = 560  # from a pupil's joining to the next pupil's
_SEAT_EMPTY = 10
_AWAY_EVERY = 800
_NAME_LASTS = 800
_PLACE_LASTS = 4000
_PLACED_AFTER = 5  # newcomers are in no class until then
_TEACHER_STAYS = 1200
_LISTED_AFTER_CLOSING = 15
_CLASSES_OF_A_TEACHER = 5
_YEAR_GROUPS = 5  # one of them leaves each July
_HAVE_ANOTHER_ID, _HAVE_A_USED_ID, _HAVE_EXTRA_CREDIT = 0.01, 0.05, 0.02  # shares of the pupils
# Shares of the seats, of all pupils who are ill once in a school year, of places, and of the work that comes late.
_TURN, _ALWAYS_FAIL, _ARE_ILL, _HAVE_LULL, _MARKED_LATE, _COMES_LATE = 0.1, 0.07, 0.5, 0.3, 0.1, 0.08
TURNS = ("stops", "slips", "one subject", "recovers")
_POINTS_A_DAY = 0.06  # by which the share of a slipping pupil's work that is handed in falls
_TURN_AFTER, _TURN_BEFORE = 20, 170  # days of lessons in a school year
_DUE_AFTER, _MARKED_EVERY = 5, 15  # days of lessons
_NEVER = 10_000  # days of lessons
_TURNS = 4096  # more than a seat's or a place's changes of a kind

# Fields that may be absent by the contract. Each is omitted for one pupil in fifty, for 16 weeks at a time.
_OPTIONAL = (
    *("first_name", "last_name", "profile_image", "classes", "activity_tracking"),
    *("summary.total_assessments", "summary.completed_assessments", "summary.last_activity_date"),
)
_OMITTED_EVERY = 4000
_OMITTED_FOR = 80


# Four lessons for all pupils, two for some. Electives are small and short, so that in a school of 500 a class opens or
# closes every other day without moving a tenth of the pupils each time. A pupil has at most one class of a group. For
# each group: the share of the pupils who take it, pupils in a class, and the school days from opening to closing (None:
# the school year's).
_GROUPS = (*((1.0, 25, None),) * 4, (2 / 3, 25, None), (1 / 3, 5, 100))
_MIN_OF_A_GROUP = 6  # so that an event affects only a small share of a tiny school
# In so small a school, a leaver with six classes would be a mass change: over five rows, and a tenth of the roster.
_SMALL = 50

_SUBJECTS = [
    *("Mathematics", "English", "Biology", "History", "Chemistry", "Geography", "Physics", "French", "Art and Design"),
    *("Computing", "Spanish", "Music", "Economics", "Latin", "Physical Education", "Philosophy", "German"),
    *("Robotics", "Choir", "Pottery", "Chess", "Film Studies", "Astronomy", "Debating", "Gardening", "Photography"),
]


class Day(NamedTuple):
    """The records of one day, in the order of the lists: by id, ascending."""

    date: date
    students: list[Record]
    classes: list[Record]


class Turn(NamedTuple):
    """What happens to a pupil in a school year: one of TURNS, or "always" for one who never hands in much. `until` is
    exclusive; None means that it lasts.
    """

    kind: str
    since: date
    until: date | None = None


class _Slot(NamedTuple):
    """For each seat, a place of the timetable, and the one that its pupil had until a day number."""

    place: Ints
    before: Ints
    moved: Ints


class MadeUpInstitution:
    """A school of about `students` listed students that opened on `opened`. Equal arguments make equal schools.

    `without` leaves out what happens to many at once: "lull", "late marking", "holiday" (the one in spring).
    """

    def __init__(
        self,
        students: int = 500,
        seed: int = 1,
        opened: date = date(2023, 8, 1),
        without: Collection[str] = (),
    ) -> None:
        self.seed, self.opened, self._without = seed, opened, frozenset(without)
        self._moments, self._lessons = _calendar("holiday" not in self._without)
        self._start = day_number(opened)
        self._opening_year = int(year_of(self._start))
        self._first = int(SCHOOL_DAYS[self._start - 1]) + 1  # the first school day
        seats = ceil(students / ((_SEAT - _SEAT_EMPTY) / _SEAT * (1 - 2.5 / _AWAY_EVERY)))
        self._seats = np.arange(seats)
        self._groups_taken = len(_GROUPS) - (students < _SMALL)
        self._seat_phase = self._spread("seat", seats, _SEAT)
        self._away_phase = self._spread("away", seats, _AWAY_EVERY)
        self._name_phase = self._spread("name", seats, _NAME_LASTS)
        self._place_phase = self._spread("place", seats * len(_GROUPS), _PLACE_LASTS).reshape(len(_GROUPS), seats)
        self._omitted_phase = [self._spread(f"omitted {field}", seats, _OMITTED_EVERY) for field in _OPTIONAL]

        self._sizes = [max(_MIN_OF_A_GROUP, round(students * share / size)) for share, size, _ in _GROUPS]
        places = sum(self._sizes)
        self._places = np.arange(places)
        self._lasts = np.repeat([lasts or 0 for _, _, lasts in _GROUPS], self._sizes)
        # Spread over all classes that last as long, or a fortnight might have no closing class.
        self._class_phase = np.zeros(places, dtype=np.int64)
        for lasts in set(filter(None, self._lasts.tolist())):
            alike = self._lasts == lasts
            self._class_phase[alike] = self._spread(f"class {lasts}", int(alike.sum()), lasts)
        self._teacher_phase = self._spread("class teacher", places, _TEACHER_STAYS)
        self._teachers = self._make_teachers(max(2, places // _CLASSES_OF_A_TEACHER))
        self._figures = lru_cache(8)(self._figures_on)  # five weekdays are in use at a time

    def on(self, day: date) -> Day:
        """Return the records at the end of that day.

        Raises ArgumentError for a day before the school opened or after the calendar ends.
        """
        if day < self.opened:
            raise ArgumentError(f"The sandbox's school opened on {self.opened}. Ask for that day or a later one.")
        if day > LAST_DATE:
            raise ArgumentError(f"The sandbox's calendar ends on {LAST_DATE}. Ask for that day or an earlier one.")
        today = day_number(day)
        pupils, work = self._people(today)
        classes = self._classes(today, pupils, work)
        active = {place: each for place, each in classes if each["class_status"]}
        students = self._students(today, pupils, work, active)
        return Day(day, students, sorted((each for _, each in classes), key=lambda each: int(each["class_id"])))

    def failing(self, day: date) -> set[int]:
        """Return the ids of the listed pupils who hand in less than usual on a day: always, or since they turned.

        The records do not say so. A method that predicts failing students can be measured against the truth.
        """
        return {own for own, turn in self.turned(day).items() if turn.since <= day < (turn.until or date.max)}

    def turned(self, day: date) -> dict[int, Turn]:
        """Return what happens in the school year of a day to the pupils who are listed on that day, by id."""
        year = int(year_of(day_number(day)))
        pupils, work = self._people(day_number(day))
        turns = {}
        for seat in np.flatnonzero(pupils["listed"] & (work["turns"] | work["always"])).tolist():
            kind, since, until = (work[name][seat] for name in ("turn", "turn_since", "turn_until"))
            turns[int(pupils["id"][seat])] = (
                Turn("always", date_of(int(_YEARS[year])))
                if work["always"][seat]
                else Turn(
                    TURNS[kind], self._date_of(year, since), self._date_of(year, until) if until < _NEVER else None
                )
            )
        return turns

    def ill(self, day: date) -> dict[int, tuple[date, date]]:
        """Return, for the listed pupils who are ill once in the school year of a day, from when to when, inclusive."""
        year = int(year_of(day_number(day)))
        pupils, work = self._people(day_number(day))
        seats = np.flatnonzero(pupils["listed"] & (work["well_from"] > work["ill_from"])).tolist()
        return {
            int(pupils["id"][at]): (
                self._date_of(year, work["ill_from"][at]),
                self._date_of(year, work["well_from"][at] - 1),
            )
            for at in seats
        }

    def _date_of(self, year: int, lesson: Ints) -> date:
        """Return the date of a school year's day of lessons, counted from 0."""
        return date_of(int(np.searchsorted(self._lessons, self._lessons[_YEARS[year]] + lesson)))

    def _draw(self, purpose: str, size: int | tuple[int, ...], turn: Ints | int = 0) -> Floats:
        """Return as many numbers between 0 and 1 as asked; another turn gives another number."""
        turns = np.broadcast_to(turn, size)
        drawn = np.empty(size)
        for one in np.unique(turn).tolist():
            key = np.array([self.seed % 2**64, crc32(purpose.encode())], dtype=np.uint64)
            numbers = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, one])).random(size)
            np.copyto(drawn, numbers, where=turns == one)
        return drawn

    def _spread(self, purpose: str, size: int, period: int) -> Ints:
        """Return a phase in 0 .. period - 1 for each, shuffled and evenly spaced.

        Even spacing ensures that a small school has a leaver in every fortnight and a mass change in no night.
        """
        ranks: Ints = np.argsort(np.argsort(self._draw(purpose, size), kind="stable"))
        return ranks * period // size

    def _make_teachers(self, count: int) -> list[Record]:
        shares = [self._draw(f"teacher's {purpose}", count) for purpose in ("tradition", "given", "family")]
        return [
            {"teacher_id": own, "name": person.name, "email": f"{person.spelled}.{own}@staff.example.org"}
            for own, person in enumerate(people(*shares), start=70_001)
        ]

    def _people(self, today: int) -> tuple[Columns, Columns]:
        """Return the pupils of all seats, and their work, at the end of a day."""
        school_day, seats = int(SCHOOL_DAYS[today]), len(self._seats)
        since = school_day - self._first + 1
        moved_in, stayed = np.divmod(since + self._seat_phase, _SEAT)
        away = (since + self._away_phase) % _AWAY_EVERY < 1 + self._seats % 4
        # The seats that are taken in August: how often each was, when each was last, and whether the July before has
        # come.
        year = year_of(today)
        promoted = (year + self._seats) // _YEAR_GROUPS - (self._opening_year + self._seats) // _YEAR_GROUPS
        taken = np.where(promoted > 0, _YEARS[year - (year + self._seats) % _YEAR_GROUPS], self._start)
        finished = ((year + 1 + self._seats) % _YEAR_GROUPS == 0) & (today >= _FINISHED[year])
        occupant = moved_in + promoted
        joined = np.maximum(day_of_school_day(school_day - stayed), taken)
        here = np.minimum(stayed, np.where(promoted > 0, school_day - SCHOOL_DAYS[taken], stayed))
        groups_taken = 4 + (self._draw("groups", seats, occupant) * (self._groups_taken - 3)).astype(int)
        slots, start = [], 0
        for group, size in enumerate(self._sizes):
            moves = (since + self._place_phase[group]) // _PLACE_LASTS
            moved = day_of_school_day(moves * _PLACE_LASTS - self._place_phase[group] + self._first - 1)
            of_year = 40 * (year - self._opening_year) if _GROUPS[group][2] is None else 0
            now, before = (
                start + (self._draw(f"place {group}", seats, occupant * _TURNS + turn + of_year) * size).astype(int)
                for turn in (moves, np.maximum(moves - 1, 0))
            )
            slots.append(_Slot(now, before, moved))
            start += size
        places = [
            np.where((here >= _PLACED_AFTER) & (group < groups_taken), slot.place, -1)
            for group, slot in enumerate(slots)
        ]
        size = 10 ** max(3, len(str(seats)))
        number = (10 + occupant) * size + self._seats
        has_used_id = (self._draw("used id", seats, occupant) < _HAVE_A_USED_ID) & (occupant > 0)
        own_id = np.where(has_used_id, number - size, number)
        # Another id from some week of their stay on.
        changes_id = self._draw("another id", seats, occupant) < _HAVE_ANOTHER_ID
        has_another_id = changes_id & (here >= 5 + 100 * self._draw("another id from", seats, occupant))
        pupils = {
            "id": np.where(has_another_id, own_id + 500 * size, own_id),
            "number": number,
            "listed": (stayed < _SEAT - _SEAT_EMPTY) & ~away & ~finished,
            "occupant": occupant,
            "joined": joined,
            "names": (since + self._name_phase) // _NAME_LASTS,
            "places": np.stack(places, axis=1),
        }
        return pupils, self._work(occupant, joined, slots[: len(_GROUPS)], groups_taken, today)

    def _work(self, occupant: Ints, joined: Ints, slots: list[_Slot], groups_taken: Ints, today: int) -> Columns:
        def draw(purpose: str) -> Floats:
            return self._draw(purpose, len(occupant), occupant)

        kind, limits = draw("pace"), np.cumsum([share for share, _ in _PACES])
        apart = np.array([moments for _, moments in (*_PACES, _PACES[-1])])
        pace = apart[np.searchsorted(limits, kind, side="right")]
        phase = (draw("phase") * pace).astype(int)
        year = int(year_of(today))
        begins, moments = self._lessons[_YEARS[year]], self._moments
        now, joined_at = self._lessons[today] - begins, self._lessons[joined] - begins
        happens = self._happens(occupant, year, joined_at, kind >= limits[-2])
        # Nobody visits while ill, or after all work has stopped.
        is_ill = (happens["ill_from"] <= now) & (now < happens["well_from"])
        stays_away = np.where(is_ill, happens["ill_from"], _NEVER)
        stops = happens["turns"] & (happens["turn"] == TURNS.index("stops"))
        stays_away = np.minimum(stays_away, np.where(stops, happens["turn_since"], _NEVER))
        last_lesson = np.minimum(stays_away, now + 1)
        until = np.where(
            stays_away <= now, moments[np.searchsorted(self._lessons, begins + last_lesson) - 1], moments[today]
        )
        # Newcomers log in within three weeks at any pace; the paced visits count from there.
        first = moments[joined - 1] + (draw("first visit") * _FIRST_VISIT_WITHIN).astype(int)
        has_visited = (first < until) & (kind < limits[-1])
        latest = (until - 1 - phase) // pace
        paced = latest - (first - phase) // pace
        visits = np.where(has_visited, 1 + paced, 0)
        last_day = np.searchsorted(moments, np.where(paced > 0, latest * pace + phase, first), side="right")

        total, completed, missing = self._counts(occupant, slots, groups_taken, joined_at, happens, year, int(now))
        assigned = np.where((kind >= limits[-1]) & (draw("given") < 0.5), 6 + (9 * draw("unit size")).astype(int), 0)
        total = np.where(has_visited, total, assigned)
        completed, missing = (np.where(has_visited, count, 0) for count in (completed, missing))
        usual = np.where(happens["always"], 32 + 20 * draw("skill"), 58 + 35 * draw("skill"))
        usual = np.where(draw("extra credit") < _HAVE_EXTRA_CREDIT, 99 + 8 * draw("skill"), usual)
        unscored = (completed == 0) | (draw("unscored") < 0.02)
        return happens | {
            "has_visited": has_visited,
            "first_day": np.searchsorted(moments, first, side="right"),
            "last_day": last_day,
            "total": total,
            "completed": completed,
            "rate": np.round(100 * completed / np.maximum(total, 1), 2),
            "score": np.where(unscored, np.nan, np.round(usual + 5 * np.sin(completed / 9 + phase), 1)),
            "total_assessments": np.where(has_visited, 1 + total // 10, 0),
            "completed_assessments": completed // 10,
            "minutes": np.round((15 + 45 * draw("stamina")) * visits, 1),
            "submitted": completed,
            "missing": missing,
        }

    def _happens(self, occupant: Ints, year: int, joined_at: Ints, is_rare: npt.NDArray[np.bool_]) -> Columns:
        """Return who fails always, turns or is ill in a school year, and when, in its days of lessons."""
        seats = len(occupant)

        def draw(purpose: str) -> Floats:
            return self._draw(f"{purpose} {year}", seats, occupant)

        always_in_seat = np.argsort(np.argsort(self._draw("struggles", seats))) < round(_ALWAYS_FAIL * seats)
        # The same number in each year: the first of all seats by lot.
        rank = np.argsort(np.argsort(self._draw("turns", seats, year) + always_in_seat))
        since = _TURN_AFTER + (draw("turns from") * (_TURN_BEFORE - _TURN_AFTER)).astype(int)
        turn, always = rank % len(TURNS), always_in_seat | is_rare
        lasts = np.where(turn == TURNS.index("recovers"), 15 + (10 * draw("recovers after")).astype(int), _NEVER)
        ill_from = (draw("ill from") * _TURN_BEFORE).astype(int)
        ill_for = np.where(draw("ill") < _ARE_ILL, 3 + (5 * draw("ill for")).astype(int), 0)
        return {
            "always": always,
            "turns": (rank < round(_TURN * seats)) & (since >= joined_at + _TURN_AFTER) & ~always,
            "turn": turn,
            "turn_since": since,
            "turn_until": np.minimum(since + lasts, _NEVER),
            "subject": (4 * draw("subject")).astype(int),  # one of the four lessons for all
            "ill_from": ill_from,
            "well_from": ill_from + ill_for,
        }

    def _counts(
        self,
        occupant: Ints,
        slots: list[_Slot],
        groups_taken: Ints,
        joined_at: Ints,
        happens: Columns,
        year: int,
        now: int,
    ) -> tuple[Ints, Ints, Ints]:
        """Return each seat's pieces of work of a school year by one of its days: set, completed and missing."""
        seats, week = len(occupant), np.arange(now // 5 + 1)[:, None]
        reliability = np.where(happens["always"], 0.22, 0.99 - 0.24 * self._draw("diligence", seats, occupant) ** 2)
        slowness = (5 * self._draw("slowness", seats, occupant)).astype(int)
        who = np.flatnonzero(happens["turns"])
        total, completed, missing = (np.zeros(seats, dtype=int) for _ in range(3))
        for group, slot in enumerate(slots):
            moved = self._lessons[slot.moved] - self._lessons[_YEARS[year]]
            place = np.where(5 * week < moved, slot.before, slot.place)
            given = 5 * week + place % 5
            counts = ((week + place // 5) % 5 != 4) & (group < groups_taken) & (given >= joined_at) & (given <= now)
            drawn = self._draw(f"piece {group}", counts.shape, occupant * _TURNS + year)
            lateness = drawn * 4096 % 1 / _COMES_LATE
            at = given + np.where(lateness < 1, _DUE_AFTER + 1 + (6 * lateness).astype(int), slowness)
            chance = np.broadcast_to(reliability, at.shape).copy()
            chance[:, who] = self._chance(
                reliability[who], group, at[:, who], given[:, who] + _DUE_AFTER, {k: v[who] for k, v in happens.items()}
            )
            if "lull" not in self._without:
                has_lull, begins = self._of_place("lull", year) < _HAVE_LULL, 3 + 30 * self._of_place("lull from", year)
                weeks = week - np.where(has_lull, begins, 99)[place]
                chance *= np.where((weeks >= 0) & (weeks < 2), 0.2, 1)
            is_ill = (happens["ill_from"] <= at) & (at < happens["well_from"])
            at = np.where(is_ill, happens["well_from"] + slowness, at)
            if "late marking" not in self._without:
                is_late = (self._of_place("marks late", year) < _MARKED_LATE)[place]
                at = np.where(is_late, (at // _MARKED_EVERY + 1) * _MARKED_EVERY, at)
            done = counts & (drawn < chance) & (at <= now)
            total += counts.sum(axis=0)
            completed += done.sum(axis=0)
            missing += (counts & ~done & (given + _DUE_AFTER <= now)).sum(axis=0)
        return total, completed, missing

    def _chance(self, reliability: Floats, group: int, at: Ints, due: Ints, happens: Columns) -> Floats:
        """Return the chances that pieces of a group's classes are handed in by pupils who turn, which would be on a day
        `at`.
        """
        since = happens["turn_since"]
        works = [
            np.where(at < since, reliability, 0),
            reliability - _POINTS_A_DAY * np.maximum(due - since, 0),
            np.where((due >= since) & (happens["subject"] == group), 0, reliability),
            np.where((due >= since) & (due < happens["turn_until"]), 0.1 * reliability, reliability),
        ]
        chance: Floats = np.choose(happens["turn"], works)
        return chance

    def _of_place(self, purpose: str, year: int) -> Floats:
        return self._draw(purpose, len(self._places), year)

    def _figures_on(self, today: int) -> Floats:
        """Return, for each place, the average rate, the average score and the pupils' minutes on a day."""
        pupils, work = self._people(today)
        scored = ~np.isnan(work["score"])
        count = self._per_place(pupils, np.ones(len(scored)))
        rate = self._per_place(pupils, work["rate"]) / np.maximum(count, 1)
        of_scored = np.maximum(self._per_place(pupils, scored), 1)
        score = self._per_place(pupils, np.where(scored, work["score"], 0)) / of_scored
        return np.round([rate, score, self._per_place(pupils, work["minutes"])], 1)

    def _per_place(self, pupils: Columns, amounts: npt.NDArray[Any]) -> Floats:
        """Sum the listed pupils' amounts in each place. One column at a time keeps memory small."""
        sums = np.zeros(len(self._places))
        for column in pupils["places"].T:
            taken = (column >= 0) & pupils["listed"]
            sums += np.bincount(column[taken], weights=amounts[taken], minlength=len(sums))
        return sums

    def _classes(self, today: int, pupils: Columns, work: Columns) -> list[tuple[int, Record]]:
        """Return the records of the classes, each with the place."""
        school_day = int(SCHOOL_DAYS[today])
        since = school_day - self._first + 1
        year = int(year_of(today))
        first, before = (int(SCHOOL_DAYS[_YEARS[each]]) for each in (year, year - 1))
        of_year = self._lasts == 0
        lasts = np.where(of_year, first - before, self._lasts)
        turn, age = np.divmod(since + self._class_phase, lasts)
        turn = np.where(of_year, year - self._opening_year, turn)
        age = np.where(of_year, school_day - first, age)
        teacher = self._places // _CLASSES_OF_A_TEACHER + (since + self._teacher_phase) // _TEACHER_STAYS
        summarised = np.maximum(day_of_school_day(school_day - (school_day - self._places) % 5), self._start)
        figures = np.empty((3, len(self._places)))
        for number in np.unique(summarised).tolist():
            figures[:, summarised == number] = self._figures(number)[:, summarised == number]
        columns = (
            *(turn, age, lasts, teacher % len(self._teachers), *figures),
            self._per_place(pupils, np.ones(len(self._seats))).astype(int),
            self._per_place(pupils, work["has_visited"]).astype(int),
        )
        people = []
        for place, (turn_, age_, lasted, teacher_, *of_pupils) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            opened = school_day - age_
            people.append((place, self._class(place, turn_, opened, school_day, teacher_, of_pupils)))
            if turn_ and age_ < min(_LISTED_AFTER_CLOSING, since):
                closed = self._class(place, turn_ - 1, opened - lasted, opened - 1, teacher_, [*of_pupils[:3], 0, 0])
                people.append((place, closed | {"class_status": 0}))
        return people

    def _class(self, place: int, turn: int, opened: int, last: int, teacher: int, of_pupils: list[Any]) -> Record:
        """Return one class's record (contract, "Class"); `opened` and `last` are counts of school days.

        The first assignment comes one to two weeks after opening, the rest two to four weeks apart. One class in 25 has
        none.
        """
        rate, score, minutes, enrolled, submitters = of_pupils
        class_id = (5 + turn) * 10 ** max(3, len(str(len(self._places)))) + place
        level, subject = divmod(place // 4, len(_SUBJECTS))
        course = {"course_id": 201 + place // 4, "course_name": f"{_SUBJECTS[subject]} {level + 1}"}
        opened = max(opened, self._first - 1)
        first, apart = opened + 4 + place % 7, 10 + place % 11
        assignments = 1 + (last - first) // apart if place % 25 and last >= first else 0
        with_submissions = submitters if assignments else 0
        return {
            "class_id": class_id,
            "class_title": f"{course['course_name']}{'ABCD'[place % 4]}",
            "class_code": f"{_SUBJECTS[subject][:3].upper()}-{class_id}",
            "class_status": 1,
            "class_room": f"{'NESW'[place % 4]}{100 + (place + turn) % 240}",
            "class_dateadded": self._iso(opened),
            "course": course,
            "teacher": self._teachers[teacher],
            "student_count": enrolled,
            "summary": {
                "average_completion_rate": rate if assignments else 0.0,
                "average_score": score if assignments else 0.0,
                "total_engagement_minutes": minutes,
            },
            "assignment_activity": {
                "has_assignments": assignments > 0,
                "assignment_count": assignments,
                "first_assignment_date": self._iso(first) if assignments else None,
                "last_assignment_date": self._iso(first + (assignments - 1) * apart) if assignments else None,
                "students_enrolled": enrolled,
                "students_with_submissions": with_submissions,
                "students_without_submissions": enrolled - with_submissions,
            },
        }

    def _iso(self, school_day: int) -> str:
        """Return the date of a school day, none before the school opened (which may have been at a weekend)."""
        return _iso(max(int(np.searchsorted(SCHOOL_DAYS, school_day)), self._start))

    def _students(self, today: int, pupils: Columns, work: Columns, active: dict[int, Record]) -> list[Record]:
        """Return the listed students' records (contract, "Student")."""
        listed = np.flatnonzero(pupils["listed"])
        listed = listed[np.argsort(pupils["id"][listed])]
        since = int(SCHOOL_DAYS[today]) - self._first + 1
        omitted = [(since + phase[listed]) % _OMITTED_EVERY < _OMITTED_FOR for phase in self._omitted_phase]
        turns = (pupils["occupant"], pupils["occupant"], pupils["occupant"] * _TURNS + pupils["names"])
        shares = [
            self._draw(purpose, len(self._seats), turn)[listed]
            for purpose, turn in zip(("tradition", "given", "family"), turns, strict=True)
        ]
        entries = {
            place: {
                "class_id": own["class_id"],
                "class_title": own["class_title"],
                "course_name": own["course"]["course_name"],
            }
            for place, own in active.items()
        }
        columns = [pupils[name][listed].tolist() for name in ("id", "number", "joined", "places")]
        amounts = {name: column[listed].tolist() for name, column in work.items()}
        rows = zip(*columns, people(*shares), np.stack(omitted, axis=1).tolist(), strict=True)
        records = []
        for at, (own, number, joined, places, person, omits) in enumerate(rows):
            visited = amounts["has_visited"][at]
            last_day = amounts["last_day"][at]
            score = amounts["score"][at]
            record: Record = {
                "id": own,
                "email": f"{person.spelled}.{number}@students.example.org",
                "name": person.name,
                "first_name": person.first_name,
                "last_name": person.last_name,
                "reference_id": f"SIS-{number:07d}",
                "profile_image": f"https://images.example.org/{number}.jpg?day={today}&signature={number * today:x}",
                "registration_date": _iso(joined),
                "is_registered": 1,
                "classes": [entries[place] for place in places if place >= 0],
                "summary": {
                    "total_assignments": amounts["total"][at],
                    "completed_assignments": amounts["completed"][at],
                    "completion_rate": amounts["rate"][at],
                    "average_score": None if score != score else score,  # NaN is unequal to itself
                    "total_assessments": amounts["total_assessments"][at],
                    "completed_assessments": amounts["completed_assessments"][at],
                    "total_time_minutes": amounts["minutes"][at],
                },
                "activity_tracking": {
                    "first_login_date": _iso(amounts["first_day"][at]) if visited else None,
                    "last_activity_date": _iso(last_day) if visited else None,
                    "days_since_last_activity": today - last_day if visited else None,
                    "assignment_submission_count": amounts["submitted"][at],
                    "assignment_missing_count": amounts["missing"][at],
                    "has_ever_logged_in": visited,
                },
            }
            if visited:  # the contract lets the field be absent, not null
                record["summary"]["last_activity_date"] = _iso(last_day)
            for field, is_omitted in zip(_OPTIONAL, omits, strict=True):
                if is_omitted:
                    part, _, name = field.rpartition(".")
                    (record[part] if part else record).pop(name, None)
            records.append(record)
        return records


@lru_cache(4096)
def _iso(number: int) -> str:
    """Format each date once: a hundred thousand records share a few hundred."""
    return date_of(number).isoformat()


# --- the calendar -----------------------------------------------------------------------------------------------------

# Days are numbered from a Monday. Administrative events (joining, moving, leaving, closing a class) happen from Monday
# to Friday all year, on school days. Pupils work on the days with lessons, a tenth as much at the weekends between, and
# not in the holidays. So work is timed in moments: a day of a term has ten, a weekend day one, a day of the holidays
# none.

_MONDAY = date(2001, 1, 1)
LAST_DATE = date(2100, 12, 31)  # the calendar ends here

_TERMS = {"Spring": (2, 14), "Summer": (17, 28), "Autumn": (35, 51)}  # first and last ISO week
_WEEKS_OFF = {8, 43}  # within a term
LONG_HOLIDAY = {15, 16}  # between spring and summer


def terms(first: date, last: date) -> list[tuple[str, date, date]]:
    """Return the terms that have a day between two dates, oldest first: name, first Monday, last Friday."""
    days = [
        (f"{name} {year}", date.fromisocalendar(year, begins, 1), date.fromisocalendar(year, ends, 5))
        for year in range(first.year, last.year + 1)
        for name, (begins, ends) in _TERMS.items()
    ]
    return [(name, begins, ends) for name, begins, ends in days if begins <= last and ends >= first]


def is_holiday(day: date) -> bool:
    """Return whether there are no lessons in the week of a day."""
    week = day.isocalendar().week
    return week in _WEEKS_OFF or not any(begins <= week <= ends for begins, ends in _TERMS.values())


def day_number(day: date) -> int:
    """Return the days since the Monday from which all days are counted."""
    return (day - _MONDAY).days


def date_of(number: int) -> date:
    """Return the date of a day number."""
    return date.fromordinal(number + _MONDAY.toordinal())


@lru_cache(2)
def _calendar(with_holiday: bool) -> tuple[Ints, Ints]:
    """Return how many moments, and how many days of lessons, have passed by the end of each day, by day number."""
    weeks = [date_of(7 * week) for week in range(day_number(LAST_DATE) // 7 + 1)]
    has_lessons = [
        not is_holiday(day) or (day.isocalendar().week in LONG_HOLIDAY and not with_holiday) for day in weeks
    ]
    of_day = np.repeat(has_lessons, 7) * np.tile((10, 10, 10, 10, 10, 1, 1), len(weeks))
    return np.cumsum(of_day), np.cumsum(of_day == 10)


SCHOOL_DAYS: Ints = np.cumsum(np.arange(day_number(LAST_DATE) // 7 * 7 + 7) % 7 < 5)
# The days on which the school years begin, with the first week of autumn.
_YEARS: Ints = np.array([0, *(day_number(date.fromisocalendar(y, _TERMS["Autumn"][0], 1)) for y in range(2001, 2101))])
# The days on which each school year's leavers are listed no more: the Mondays after the summer term.
_FINISHED: Ints = np.array(
    [day_number(date.fromisocalendar(y, _TERMS["Summer"][1] + 1, 1)) for y in range(2001, 2101)] + [len(SCHOOL_DAYS)]
)


def year_of(day: Ints | int) -> Ints:
    """Return the numbers of the school years of some days."""
    return np.searchsorted(_YEARS, day, side="right") - 1


def day_of_school_day(count: Ints) -> Ints:
    """Return the day numbers of the n-th school days, counted from 1."""
    return np.searchsorted(SCHOOL_DAYS, count)


# --- names ------------------------------------------------------------------------------------------------------------

# The names refer to no real person, and are as awkward as a school's: accents, apostrophes, hyphens, spaces, particles,
# family names that come first, and scripts that a spreadsheet garbles when it guesses the wrong encoding.


class Person(NamedTuple):
    """Somebody's name: in full, in parts, and as an email address spells it."""

    name: str
    first_name: str
    last_name: str
    spelled: str


class _Tradition(NamedTuple):
    """Given and family names that go together. A name without ASCII equivalent has the ASCII spelling after a bar."""

    weight: int  # per cent of all people
    family_first: bool
    given: str
    family: str


def _read(text: str) -> list[tuple[str, str]]:
    """Return names as shown, and as spelled in an email address."""
    names_spelt = []
    for entry in text.split():
        shown, _, spelled = entry.replace("~", " ").partition("|")
        plain = unicodedata.normalize("NFKD", spelled or shown).encode("ascii", "ignore").decode().lower()
        names_spelt.append((shown, "".join(letter for letter in plain if letter.isalnum() or letter == "-")))
    return names_spelt


_TRADITIONS = (
    _Tradition(
        weight=66,
        family_first=False,
        given="Ada Alice Amara Anna Arthur Beatrix Ben Bruno Carl Cecily Clara Conor Dana Daniel Dora Edith Edwin Ella "
        "Elsie Emil Esther Ethan Eva Felix Fiona Flora Frank Freda George Greta Hannah Harold Hazel Henry Hugo Ida "
        "Iris Isaac Ivy Jack Jane Jasper Joan Jonah Judith Julia Kate Kit Laura Leo Lena Lily Louis Lucy Mabel Marcus "
        "Martha Max Maya Milo Nell Nora Oliver Oscar Otis Owen Paula Penny Peter Phoebe Quentin Rachel Ralph Robin "
        "Rosa Rowan Ruth Sam Silas Simon Stella Susan Tess Theo Thomas Toby Ursula Vera Victor Violet Walter Wendy "
        "Wilma Winifred Anne-Marie Jean-Luc Mary-Ann",
        family="Abbott Aldridge Appleby Ashdown Barlow Beckett Bellweather Birch Bramley Brook Burrows Calloway Carver "
        "Chandler Clearwater Coldwell Cooper Crane Dalby Dunmore Eastwood Elmsworth Fairbank Falconer Farrow Fenwick "
        "Fletcher Foxley Garland Goodall Greenhalgh Grove Hale Hargrove Hartley Hawthorn Hazelton Heron Holloway "
        "Ingleby Kestrel Kingsley Lambourne Langley Larkin Linden Lockwood Marlow Mayfield Meadows Merriweather "
        "Millbrook Moorcroft Nettleton Newbold Oakley Orchard Palmer Partridge Pemberton Penrose Pickering Quill "
        "Radley Ravenhill Redfern Rivers Rowntree Sandford Saxby Shepherd Silverton Sparrow Stonebridge Summers "
        "Swift Tanner Thistlewood Thornbury Underhill Vale Wainwright Waverley Westbrook Whitlock Wildgoose Winterton "
        "Woodruff Wren Yarrow O'Brannigan O'Dunlin D'Arbelle Smith-Linden Fox-Hale",
    ),
    _Tradition(
        weight=22,
        family_first=False,
        given="André Anaïs Béla Björk Čeněk Chloé Damián Élodie Emilía Fátima François Gülşen Hélène İpek|Ipek Inés "
        "Jörg João Jürgen Kärt Léa Łucja|Lucja Màiri Martín Mélisande Nuño Océane Øyvind|Oyvind Özge Renée Şirin Siân "
        "Søren|Soren Tiên Ünal Věra Zoë Žofie",
        family="Ångsund Bäckström Brûlard Castañar Çelimli Dvořákov Éluère Fjärdholm García-Olmo Grönlid Hồ-Thị "
        "Iñigueta Jørnsund|Joernsund Kowalówna Lefèvrine Łąkowska|Lakowska Márquezal Müllenberg Nuñezal Ólafsdal "
        "Özdemirli Peñalta Quiñonel Řezníčkov Sæbøstad|Saeboestad Straßwald|Strasswald Tō-Kearney Ušakovs "
        "van~der~Heyde Vējonis Weißdorn|Weissdorn Gündüzlü Żurawska",
    ),
    _Tradition(
        weight=7,
        family_first=True,
        given="美咲|misaki 大翔|hiroto 陽菜|hina 蓮|ren 小明|xiaoming 雪|xue 志遠|zhiyuan 芳|fang 하늘|haneul "
        "서연|seoyeon 민준|minjun 지우|jiwoo",
        family="佐野|sano 森本|morimoto 高瀬|takase 林|lin 欧阳|ouyang 方|fang 陸|lu 김|kim 남궁|namgung 윤|yun 한|han",
    ),
    _Tradition(
        weight=5,
        family_first=False,
        given="Ольга|olga Мирон|miron Зоряна|zoriana Νίκη|niki Αλέξης|alexis Φωτεινή|foteini ليلى|layla سامي|sami "
        "नीला|nila आरव|arav",
        family="Соловейко|soloveiko Вишневська|vyshnevska Береза|bereza Θαλασσινός|thalassinos Αμπελάς|ampelas "
        "النجار|alnajjar البستاني|albustani गुलमोहर|gulmohar",
    ),
)


_POOLS = [(each.family_first, _read(each.given), _read(each.family)) for each in _TRADITIONS]
_LIMITS = np.cumsum([tradition.weight for tradition in _TRADITIONS])[:-1] / 100


def people(tradition: Floats, given: Floats, family: Floats) -> list[Person]:
    """Return one person for each three shares between 0 and 1: of the traditions, and of a tradition's names."""
    names = []
    traditions = np.searchsorted(_LIMITS, tradition, side="right").tolist()
    for at, own, shared in zip(traditions, given.tolist(), family.tolist(), strict=True):
        family_first, given_names, family_names = _POOLS[at]
        first_name, first = given_names[int(own * len(given_names))]
        last_name, last = family_names[int(shared * len(family_names))]
        name = f"{last_name} {first_name}" if family_first else f"{first_name} {last_name}"
        names.append(Person(name, first_name, last_name, f"{first}.{last}"))
    return names
