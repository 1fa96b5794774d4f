"""The pupils: who is listed on a day, under which name, in which places of the timetable, and which fields are omitted.

A school has a fixed number of seats. A seat's pupil stays for about two years; a new one follows two weeks later. Now
and then a pupil is not listed for some days and comes back. `work.py` has their activity.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from pipelines.sandbox.clock import day_of_school_day
from pipelines.sandbox.names import family_of, given_of, tradition_of
from pipelines.sandbox.rng import Flags, Ints, Rng
from pipelines.sandbox.timetable import GROUPS, Timetable

# In school days, staggered over the seats: with 500 students, in a fortnight nine join and nine leave, five are away
# for some days, and six change their name.
_SEAT = 560  # from one pupil's joining to the next one's
_SEAT_EMPTY = 10
_AWAY_EVERY = 800
_AWAY_LONGEST = 4
_AWAY_SHORTEST = 1
_NAME_LASTS = 800
_PLACE_LASTS = 4000
_PLACED_AFTER = 5  # newcomers are in no class until then
# In a school this small, a leaver with six classes would be a mass change: over five rows, and a tenth of the roster.
_SMALL = 50

# Fields that may be absent by the contract. Each is omitted for one pupil in fifty, for 16 weeks at a time.
OPTIONAL = (
    "first_name",
    "last_name",
    "profile_image",
    "classes",
    "activity_tracking",
    "summary.total_assessments",
    "summary.completed_assessments",
    "summary.last_activity_date",
)
_OMITTED_EVERY = 4000
_OMITTED_FOR = 80


@dataclass(frozen=True)
class Pupils:
    """The listed pupils by ascending id, one entry each. `places` has a column per group, -1 if the pupil has none."""

    student_id: Ints
    joined: Ints  # day number
    places: Ints
    tradition: Ints
    given: Ints
    family: Ints
    email_given: Ints  # an address changes with every other change of name
    email_family: Ints
    omitted: Ints  # bit n is set if OPTIONAL[n] is omitted


class Register:
    """All seats of a school, and which pupil has each on any day."""

    def __init__(self, rng: Rng, students: int, opened: int, first_school_day: int, timetable: Timetable) -> None:
        """Make enough seats for `students` to be listed on an ordinary day."""
        self._rng, self._opened, self._first, self._timetable = rng, opened, first_school_day, timetable
        listed = (_SEAT - _SEAT_EMPTY) / _SEAT * (1 - (_AWAY_SHORTEST + _AWAY_LONGEST) / 2 / _AWAY_EVERY)
        seats = ceil(students / listed)
        self._most_lessons = len(GROUPS) if students >= _SMALL else len(GROUPS) - 1
        self._seat = np.arange(seats)
        self._stride = 10 ** max(3, len(str(seats)))
        self._seat_phase = rng.spread("seat", seats, _SEAT)
        self._away_phase = rng.spread("away", seats, _AWAY_EVERY)
        self._name_phase = rng.spread("name", seats, _NAME_LASTS)
        self._place_phase = rng.spread("place", seats * len(GROUPS), _PLACE_LASTS).reshape(seats, len(GROUPS))

        # The name of the stream decides the draws: renaming it would change every sandbox.
        self._omission_phases = [rng.spread(f"silent {field}", seats, _OMITTED_EVERY) for field in OPTIONAL]

    def on(self, school_day: int) -> Pupils:
        """Return the pupils listed on the n-th school day (or on the weekend after it)."""
        since = school_day - self._first + 1
        occupant, stayed = np.divmod(since + self._seat_phase, _SEAT)
        absence, away_for = np.divmod(since + self._away_phase, _AWAY_EVERY)
        returns = _AWAY_SHORTEST + self._rng.below("away", self._seat, _AWAY_LONGEST - _AWAY_SHORTEST + 1, absence)
        seat = self._seat[(stayed < _SEAT - _SEAT_EMPTY) & (away_for >= returns)]

        student_id = (10 + occupant[seat]) * self._stride + seat
        order = np.argsort(student_id)
        seat, student_id = seat[order], student_id[order]
        joined = np.maximum(day_of_school_day(school_day - stayed[seat]), self._opened)
        names = (since + self._name_phase[seat]) // _NAME_LASTS
        tradition = tradition_of(self._rng, student_id)
        return Pupils(
            student_id=student_id,
            joined=joined,
            places=self._places(student_id, seat, since, placed=stayed[seat] >= _PLACED_AFTER),
            tradition=tradition,
            given=self._given(student_id, tradition, names),
            family=family_of(self._rng, student_id, tradition, names),
            email_given=self._given(student_id, tradition, names // 2 * 2),
            email_family=family_of(self._rng, student_id, tradition, names // 2 * 2),
            omitted=self._omitted(seat, since),
        )

    def _given(self, student_id: Ints, tradition: Ints, names: Ints) -> Ints:
        """Return the given names: every fourth change of name also changes the given name."""
        return given_of(self._rng, student_id, tradition, names // 4)

    def _places(self, student_id: Ints, seat: Ints, since: int, *, placed: Flags) -> Ints:
        """Return each pupil's place in each group, -1 for none: four to six places, each changed from time to time."""
        lessons = 4 + self._rng.below("lessons", student_id, self._most_lessons - 3)
        columns = []
        for group, (start, size) in enumerate(
            zip(self._timetable.group_starts.tolist(), self._timetable.group_sizes.tolist(), strict=True)
        ):
            moves = (since + self._place_phase[seat, group]) // _PLACE_LASTS
            place = start + self._rng.below(f"place {group}", student_id, size, moves)
            columns.append(np.where(placed & (group < lessons), place, -1))
        return np.stack(columns, axis=1)

    def _omitted(self, seat: Ints, since: int) -> Ints:
        bits = np.zeros_like(seat)
        for bit, phase in enumerate(self._omission_phases):
            bits |= np.where((since + phase[seat]) % _OMITTED_EVERY < _OMITTED_FOR, 1 << bit, 0)
        return bits
