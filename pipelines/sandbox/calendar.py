"""The school's calendar: terms and holidays, and dates as day numbers, school days and moments.

Days are numbered from a Monday. Administrative events (joining, moving, leaving, closing a class) happen from Monday to
Friday all year: these are the school days. Pupils work most in term, half as much at its weekends, and a fifth as much
in the holidays. So work is timed in moments: a day of a term has ten, a weekend day five, a day of the holidays two or
one. Knows nothing of pupils and classes.
"""

from __future__ import annotations

from datetime import date

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_MONDAY = date(2001, 1, 1)
LAST_DATE = date(2100, 12, 31)  # the calendar ends here

_TERMS = {"Spring": (2, 14), "Summer": (17, 28), "Autumn": (35, 51)}  # first and last ISO week
_WEEKS_OFF = {8, 43}  # within a term


def terms(first: date, last: date) -> list[tuple[str, date, date]]:
    """Return the terms that have a day between these dates, oldest first: name, first Monday, last Friday."""
    found = [
        (f"{name} {year}", date.fromisocalendar(year, begins, 1), date.fromisocalendar(year, ends, 5))
        for year in range(first.year, last.year + 1)
        for name, (begins, ends) in _TERMS.items()
    ]
    return [(name, begins, ends) for name, begins, ends in found if begins <= last and ends >= first]


def is_holiday(day: date) -> bool:
    """Return whether there are no lessons in the week of this day."""
    week = day.isocalendar().week
    return week in _WEEKS_OFF or not any(begins <= week <= ends for begins, ends in _TERMS.values())


def day_number(day: date) -> int:
    """Return the days since the Monday from which all days are counted."""
    return (day - _MONDAY).days


def date_of(number: int) -> date:
    """Return the date of a day number."""
    return date.fromordinal(number + _MONDAY.toordinal())


def _moments_of_weeks() -> list[int]:
    weeks = range(day_number(LAST_DATE) // 7 + 1)
    return [
        moments
        for week in weeks
        for moments in ((2, 2, 2, 2, 2, 1, 1) if is_holiday(date_of(7 * week)) else (10, 10, 10, 10, 10, 5, 5))
    ]


# How many have passed by the end of each day, by day number.
MOMENTS: Ints = np.cumsum(_moments_of_weeks())
SCHOOL_DAYS: Ints = np.cumsum(np.arange(len(MOMENTS)) % 7 < 5)


def day_of_moment(moment: Ints) -> Ints:
    """Return the day numbers of these moments, counted from 0."""
    return np.searchsorted(MOMENTS, moment, side="right")


def day_of_school_day(count: Ints) -> Ints:
    """Return the day numbers of the n-th school days, counted from 1."""
    return np.searchsorted(SCHOOL_DAYS, count)
