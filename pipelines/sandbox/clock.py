"""The school's calendar: terms and holidays, and dates as day numbers, school days and moments.

Days are numbered from a Monday. Administrative events (joining, moving, leaving, closing a class) happen from Monday to
Friday all year: these are the school days. Pupils work most in term, half as much at its weekends, and a fifth as much
in the holidays. So work is timed in moments: a day of a term has ten, a weekend day five, a day of the holidays two or
one. Knows nothing of pupils and classes.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pipelines.sandbox.rng import Ints

_MONDAY = date(2001, 1, 1).toordinal()
LAST_DATE = date(2100, 12, 31)  # the calendar ends here

MOMENTS_OF_A_SCHOOL_DAY = 10
_IN_TERM = (*(MOMENTS_OF_A_SCHOOL_DAY,) * 5, 5, 5)  # Monday to Sunday
_IN_HOLIDAYS = (2, 2, 2, 2, 2, 1, 1)

_TERMS = {"Spring": (2, 14), "Summer": (17, 28), "Autumn": (35, 51)}  # first and last ISO week
_WEEKS_OFF = {8, 43}  # within a term


class Term(NamedTuple):
    """A term, from its first Monday to its last Friday."""

    name: str
    first_day: date
    last_day: date


def terms(first: date, last: date) -> list[Term]:
    """Return the terms that have a day between these dates, oldest first."""
    found = [
        Term(f"{name} {year}", date.fromisocalendar(year, begins, 1), date.fromisocalendar(year, ends, 5))
        for year in range(first.year, last.year + 1)
        for name, (begins, ends) in _TERMS.items()
    ]
    return [term for term in found if term.first_day <= last and term.last_day >= first]


def is_holiday(day: date) -> bool:
    """Return whether there are no lessons in the week of this day."""
    week = day.isocalendar().week
    return week in _WEEKS_OFF or not any(begins <= week <= ends for begins, ends in _TERMS.values())


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
    """Return how many moments have passed by the end of each of these days; none before the calendar begins."""
    passed: Ints = _passed()[np.maximum(number, -1) + 1]
    return passed


def day_of_moment(moment: Ints) -> Ints:
    """Return the day numbers of these moments (counted from 0)."""
    days: Ints = np.searchsorted(_passed(), moment, side="right") - 1
    return days


@lru_cache(1)
def _passed() -> Ints:
    """Return how many moments have passed before each day of the calendar, and after the last one."""
    weeks = day_number(LAST_DATE) // 7 + 1
    of_days = [
        count for week in range(weeks) for count in (_IN_HOLIDAYS if is_holiday(date_of(7 * week)) else _IN_TERM)
    ]
    return np.concatenate([[0], np.cumsum(of_days)])


class IsoDates(dict[int, str]):
    """Day number to YYYY-MM-DD, each formatted once: a hundred thousand records share a few hundred dates."""

    def __missing__(self, number: int) -> str:
        text = self[number] = date_of(number).isoformat()
        return text
