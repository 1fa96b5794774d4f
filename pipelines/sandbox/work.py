"""The pupils' work up to a given day: visits, assignments, scores, minutes. No names, no classes, no records.

A pupil visits once in each stretch of `pace` moments, at a moment drawn for that stretch. So the number of visits up to
any moment takes one division and one draw, without a simulation from the opening day on. A school week has sixty
moments, so most pupils visit every week, and few in the holidays.

The summary's assignments are those of a pupil's current unit that have been set so far. A unit takes five to nine
visits; then the next one begins with nothing completed, which is how a completion rate falls. Most pupils complete
nearly all; one in fifteen struggles, completes a third, and scores low. Submitted and missing assignments are counted
over all units. A unit's size is the difference of two running totals with jitter, so that the total and the unit are
known without summing over the units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.sandbox.clock import MOMENTS_OF_A_SCHOOL_DAY, day_of_moment, moments
from pipelines.sandbox.rng import Flags, Floats, Ints, Rng

# Share of pupils, and how many school days apart their visits are on average. The remaining share never visits.
Paces = tuple[tuple[float, float], ...]
LIVELY: Paces = ((0.45, 2), (0.39, 3), (0.11, 7), (0.035, 40))
# 1.4 % of the pupils work on a school day; with everything else, 2 to 3 % change overnight: typical of a service that
# pupils seldom use, and the rate of the large benchmarks.
QUIET: Paces = ((0.06, 10), (0.60, 90), (0.31, 250))

_FIRST_VISIT_WITHIN = 15 * MOMENTS_OF_A_SCHOOL_DAY
_WITHOUT_SCORES = 0.02  # pupils whose teachers give no scores
_STRUGGLES = 0.07


@dataclass(frozen=True)
class Work:
    """One entry per pupil in every array. Days are day numbers, undefined where `has_visited` is false."""

    has_visited: Flags
    first_day: Ints
    last_day: Ints
    total: Ints
    completed: Ints
    completion_rate: Floats  # percent, two decimals; 0 when the total is 0
    score: Floats  # percent, one decimal; NaN if nothing is scored
    total_assessments: Ints
    completed_assessments: Ints
    minutes: Floats  # one decimal
    submitted: Ints
    missing: Ints


def work_until(rng: Rng, paces: Paces, pupil: Ints, joined: Ints, today: int) -> Work:
    """Return each pupil's work up to the end of today; `joined` has the day numbers of joining."""
    visits, first, last = _visits(rng, paces, pupil, joined, today)
    latest = np.maximum(visits - 1, 0)
    length = 5 + rng.below("unit length", pupil, 5)
    unit, step = np.divmod(latest, length)

    struggles = rng.share("struggles", pupil) < _STRUGGLES
    done = _Running(rng, "done", pupil, np.where(struggles, 2, 6) + rng.below("unit size", pupil, 9) // (1 + struggles))
    missed = _Running(rng, "missed", pupil, np.where(struggles, 6, 0) + rng.below("carelessness", pupil, 3))
    has_visited = visits > 0
    completed = np.where(has_visited, done.of_unit(unit) * (step + 1) // length, 0)
    overdue = missed.of_unit(unit) * (step + 1) // length
    # Assignments not yet due: two when the unit begins, then one now and then, none at its end.
    begins = (step == 0) | (completed + overdue == 0)
    open_one = (step + 1 < length) & (rng.share("open", pupil, visits) < 0.5)
    due = np.where(begins, 2, open_one)
    # Half of those who never visited have no assignments yet.
    given = has_visited | (rng.share("given", pupil) < 0.5)
    total = np.where(has_visited, completed + overdue + due, np.where(given, done.of_unit(unit), 0))

    skill = rng.share("skill", pupil)
    usual = np.where(struggles, 32 + 20 * skill, 58 + 35 * skill)
    score = np.round(usual + 10 * (rng.share("score", pupil, visits) - 0.5), 1)
    unscored = (completed == 0) | (rng.share("unscored", pupil) < _WITHOUT_SCORES)
    minutes = (15 + 45 * rng.share("stamina", pupil)) * (visits + 0.8 * rng.share("minutes", pupil, visits))
    return Work(
        has_visited=has_visited,
        first_day=first,
        last_day=last,
        total=total,
        completed=completed,
        completion_rate=np.round(100 * completed / np.maximum(total, 1), 2),
        score=np.where(unscored, np.nan, score),
        total_assessments=np.where(has_visited, 2 * unit + 2, 0),
        completed_assessments=np.where(has_visited, 2 * unit + (2 * step >= length), 0),
        minutes=np.where(has_visited, np.round(minutes, 1), 0.0),
        submitted=done.before(unit) + completed,
        missing=missed.before(unit) + np.where(has_visited, overdue, 0),
    )


def _visits(rng: Rng, paces: Paces, pupil: Ints, joined: Ints, today: int) -> tuple[Ints, Ints, Ints]:
    """Return each pupil's number of visits, and the days of the first and the last.

    The first is within three weeks of joining at any pace, so that newcomers do not take half a year to log in. The
    paced visits count from there.
    """
    kind = rng.share("pace", pupil)
    limits = np.cumsum([share for share, _ in paces])
    apart = np.array([round(days * MOMENTS_OF_A_SCHOOL_DAY) for _, days in (*paces, paces[-1])])
    pace = apart[np.searchsorted(limits, kind, side="right")]

    now = moments(np.full_like(joined, today))
    first = moments(joined - 1) + rng.below("first visit", pupil, _FIRST_VISIT_WITHIN)
    has_visited = (first < now) & (kind < limits[-1])
    paced_before = _paced(rng, pupil, pace, first + 1)
    paced = _paced(rng, pupil, pace, now)
    newest = _moment_of(rng, pupil, pace, paced - 1)
    visits = np.where(has_visited, 1 + paced - paced_before, 0)
    return visits, day_of_moment(first), day_of_moment(np.where(visits > 1, newest, first))


def _moment_of(rng: Rng, pupil: Ints, pace: Ints, stretch: Ints) -> Ints:
    return stretch * pace + rng.below("visit", pupil, pace, stretch)


def _paced(rng: Rng, pupil: Ints, pace: Ints, passed: Ints) -> Ints:
    """Return the number of paced visits in the first `passed` moments."""
    stretch = passed // pace
    return stretch + (_moment_of(rng, pupil, pace, stretch) < passed)


class _Running:
    """A running total over units that grows by `mean` per unit, give or take half of it, and never falls."""

    def __init__(self, rng: Rng, stream: str, pupil: Ints, mean: Ints) -> None:
        self._rng, self._stream, self._pupil, self._mean = rng, stream, pupil, mean
        self._start = self._jitter(np.zeros_like(pupil))

    def _jitter(self, unit: Ints) -> Ints:
        return self._rng.below(self._stream, self._pupil, self._mean // 2 + 1, unit)

    def before(self, unit: Ints) -> Ints:
        """Return the total of all units before this one."""
        return unit * self._mean + self._jitter(unit) - self._start

    def of_unit(self, unit: Ints) -> Ints:
        """Return what this unit adds."""
        return self.before(unit + 1) - self.before(unit)
