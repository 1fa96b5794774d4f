"""Whose values count in a group's figures, and which groups may be shown together, over all weeks.

A student who leaves a class would be disclosed by differencing: the average of all, and a week later of all but one. So
a group's figures cover its *cohort*: the students who were in it when it was first shown. Students who leave still
count, with their last known values; new ones do not count yet. A group gets a new cohort once k or more students differ
between the two, and only if no combination with any cohort ever shown concerns fewer than k students.

Each *family* has its own cohorts, because other students have a value: all listed students, those with a completion,
those with a score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from pipelines.privacy.disclosure.span import Cell
from pipelines.privacy.disclosure.suppression import separable

LEVELS = ("school", "course", "class")
# A cohort represents its group while the two share at least this fraction of the larger one.
SHARED = 0.75


@dataclass(frozen=True, order=True)
class Group:
    """The school, a course or a class, by its id; None for a school that never stated its id."""

    level: str
    id: int | None

    @property
    def rank(self) -> int:
        """Suppression order, highest first: classes, courses, the school."""
        return LEVELS.index(self.level)


@dataclass(frozen=True)
class Cohort:
    """The students who count for a group in one family, from the week that begins on `since`; released with `k`."""

    family: str
    group: Group
    since: date
    k: int
    students: frozenset[int]


class Places:
    """Students' positions in arrays: from 0, ordered by id."""

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = sorted(set(ids))
        self._of = {student: at for at, student in enumerate(self.ids)}

    def __len__(self) -> int:
        return len(self.ids)

    def cell(self, students: Iterable[int], rank: int) -> Cell:
        """These students as a cell."""
        return Cell(np.array(sorted(self._of[s] for s in students), dtype=np.int64), rank)


def choose(
    family: str, week: date, k: int, past: Sequence[Cohort], present: Mapping[Group, frozenset[int]]
) -> tuple[dict[Group, Cohort], list[Cohort]]:
    """Choose a cohort for each group that may be shown; returns these by group, and the new ones among them.

    `past` are all cohorts of the family ever shown, oldest first; `present` are the groups' students now.
    """
    latest = {cohort.group: at for at, cohort in enumerate(past)}
    # Largest first, then by id. Nothing here depends on a value.
    large = sorted((g for g in present if len(present[g]) >= k), key=lambda g: (g.rank, -len(present[g]), g.id or 0))
    asking = [g for g in large if g not in latest or len(past[latest[g]].students ^ present[g]) >= k]
    usable, begun = set(range(len(past))), set[int]()
    if asking or any(cohort.k < k for cohort in past):
        places = Places(s for group in (*(c.students for c in past), *(present[g] for g in asking)) for s in group)
        usable, begun = separable(
            [places.cell(c.students, c.group.rank) for c in past],
            [places.cell(present[g], g.rank) for g in asking],
            len(places),
            k,
        )
    new = [Cohort(family, asking[at], week, k, present[asking[at]]) for at in sorted(begun)]
    chosen = {g: past[at] for g in large if (at := latest.get(g)) in usable and _represents(past[at], present[g], k)}
    return chosen | {cohort.group: cohort for cohort in new}, new


def _represents(cohort: Cohort, present: frozenset[int], k: int) -> bool:
    """Whether a cohort still represents its group: k students or more, most of them the same."""
    shared = len(cohort.students & present)
    return len(cohort.students) >= k and shared >= SHARED * max(len(cohort.students), len(present))
