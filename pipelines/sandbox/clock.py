"""The school's calendar: converts between dates, day numbers, school days and moments.

Days are numbered from a Monday. Whatever the school decides (who joins, moves, leaves; which class closes) happens on
school days, Monday to Friday; there are no holidays. Pupils also work at weekends, half as much. So work is timed in
moments: a school day has ten, a weekend day five. Pupils and classes are unknown here.
"""

from __future__ import annotations

from datetime import date

import numpy as np

from pipelines.sandbox.rng import Ints

_MONDAY = date(2001, 1, 1).toordinal()

MOMENTS_OF_A_SCHOOL_DAY = 10
_MOMENTS_OF_A_WEEKEND_DAY = 5
_MOMENTS_OF_A_SCHOOL_WEEK = 5 * MOMENTS_OF_A_SCHOOL_DAY
_MOMENTS_OF_A_WEEK = _MOMENTS_OF_A_SCHOOL_WEEK + 2 * _MOMENTS_OF_A_WEEKEND_DAY


def day_number(day: date) -> int:
    """Return the days since the Monday from which all days are counted."""
    return day.toordinal() - _MONDAY


def date_of(number: int) -> date:
    """Return the date of a day number."""
    return date.fromordinal(number + _MONDAY)


def school_days(number: int) -> int:
    """Return the number of school days up to and including this day."""
    week, weekday = divmod(number, 7)
    return week * 5 + min(weekday + 1, 5)


def day_of_school_day(count: Ints) -> Ints:
    """Return the day numbers of the n-th school days; the inverse of `school_days`."""
    week, weekday = np.divmod(count - 1, 5)
    days: Ints = week * 7 + weekday
    return days


def moments(number: Ints) -> Ints:
    """Return how many moments have passed by the end of each of these days."""
    week, weekday = np.divmod(number, 7)
    in_school = np.minimum(weekday + 1, 5) * MOMENTS_OF_A_SCHOOL_DAY
    at_weekend = np.maximum(weekday - 4, 0) * _MOMENTS_OF_A_WEEKEND_DAY
    passed: Ints = week * _MOMENTS_OF_A_WEEK + in_school + at_weekend
    return passed


def day_of_moment(moment: Ints) -> Ints:
    """Return the day numbers of these moments (counted from 0)."""
    week, rest = np.divmod(moment, _MOMENTS_OF_A_WEEK)
    weekend = 5 + (rest - _MOMENTS_OF_A_SCHOOL_WEEK) // _MOMENTS_OF_A_WEEKEND_DAY
    weekday = np.where(rest < _MOMENTS_OF_A_SCHOOL_WEEK, rest // MOMENTS_OF_A_SCHOOL_DAY, weekend)
    days: Ints = week * 7 + weekday
    return days


class IsoDates(dict[int, str]):
    """Day number to YYYY-MM-DD, each formatted once: a hundred thousand records share a few hundred dates."""

    def __missing__(self, number: int) -> str:
        text = self[number] = date_of(number).isoformat()
        return text
