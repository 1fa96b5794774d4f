"""Whose figures a group's are, and which groups may be shown beside each other, over all weeks.

A class that one student leaves would give that student away: the average of all, and a week later of all but one. So
the figures of a group are those of its *cohort*: the students who were in it when it was first shown. Who leaves stays
in it with what was last known; who comes does not count yet. A group gets a new cohort when k students or more are not
in both, and only if no combination with any cohort that was ever shown concerns fewer than k students.

A *family* is what has cohorts of its own, because it knows values of other students: all who are listed, who have a
completion, who have a score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from pipelines.privacy.disclosure.span import Cell
from pipelines.privacy.disclosure.suppression import separable

LEVELS = ("school", "course", "class")
# A cohort speaks for its group as long as this share of the students is in both.
SHARED = 0.75


@dataclass(frozen=True, order=True)
class Group:
    """The school, a course or a class, by its id; a school that never said its id has none."""

    level: str
    id: int | None

    @property
    def rank(self) -> int:
        """Which go first where one must: classes, then courses."""
        return LEVELS.index(self.level)


@dataclass(frozen=True)
class Cohort:
    """The students who count for a group, in one family, since the week that begins on `since`; released with `k`."""

    family: str
    group: Group
    since: date
    k: int
    students: frozenset[int]


class Places:
    """Students' positions in arrays: each is counted from 0, in the order of the ids."""

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = sorted(set(ids))
        self._of = {student: at for at, student in enumerate(self.ids)}

    def __len__(self) -> int:
        return len(self.ids)

    def cell(self, students: Iterable[int], rank: int) -> Cell:
        """Some students as a cell."""
        return Cell(np.array(sorted(self._of[s] for s in students), dtype=np.int64), rank)


def choose(
    family: str, week: date, k: int, past: Sequence[Cohort], present: Mapping[Group, frozenset[int]]
) -> tuple[dict[Group, Cohort], list[Cohort]]:
    """Choose a cohort for each group of which anything may be shown; returns them, and those of them that are new.

    `past` are the family's cohorts that were ever shown, the oldest first; `present` are the groups' students now.
    """
    latest = {cohort.group: at for at, cohort in enumerate(past)}
    # The more students, the earlier; of as many, by id. Nothing here depends on a value.
    large = sorted((g for g in present if len(present[g]) >= k), key=lambda g: (g.rank, -len(present[g]), g.id or 0))
    asking = [g for g in large if g not in latest or len(past[latest[g]].students ^ present[g]) >= k]
    usable, begun = set(range(len(past))), set[int]()
    if asking or any(cohort.k < k for cohort in past):
        places = Places(s for those in (*(c.students for c in past), *(present[g] for g in asking)) for s in those)
        usable, begun = separable(
            [places.cell(c.students, c.group.rank) for c in past],
            [places.cell(present[g], g.rank) for g in asking],
            len(places),
            k,
        )
    new = [Cohort(family, asking[at], week, k, present[asking[at]]) for at in sorted(begun)]
    chosen = {g: past[at] for g in large if (at := latest.get(g)) in usable and _speaks(past[at], present[g], k)}
    return chosen | {cohort.group: cohort for cohort in new}, new


def _speaks(cohort: Cohort, present: frozenset[int], k: int) -> bool:
    """Whether a cohort is still about the group: of k students or more, and most of them the same."""
    shared = len(cohort.students & present)
    return len(cohort.students) >= k and shared >= SHARED * max(len(cohort.students), len(present))
