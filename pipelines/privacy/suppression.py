"""What can be computed from published sums, and which of them are suppressed so that it is about nobody in particular.

A cell is a set of students whose values are added up. Here an adversary knows who is in which cell, all sums before
they are rounded, and calculates: from A and B follows A - B, from a course and all of its classes but one that one. All
that follows is a linear combination of the cells. Nothing here knows of schools, weeks or files.

**No combination concerns fewer than k students** (`separable`). Let P be the orthogonal projection onto the
combinations of the cells, with a row and a column per student. A combination w that is zero but for the students S is
its own projection, so the part of P for S has the eigenvalue 1. No eigenvalue of a matrix exceeds its largest sum of
absolute values in a row. So if for every student the entry on the diagonal and the k - 2 largest others of its row (the
`exposure`) add up to less than 1, no such w exists for any S of fewer than k students. Of disjoint or nested cells this
asks that each part has k students or none, no more; of cells that overlap it may ask more than would be needed.

**All or nothing is not shown, nor what follows from others** (`protected`). Values lie between 0 and 1. Cells are
suppressed until there are other values, each at least MARGIN away from 0 and 1, that give all the same sums. From there
each student's value can be moved up and down without changing a sum, by moving the others' a little. No suppressed
cell follows from what is shown; of one that is small, or all or nothing, at least half does not. Cells that were shown
before count as if they were shown now, for an adversary who takes the values to be the same. Where values are 0 or 1,
all this is said of fractions. In whole numbers exact counts may still leave a single answer (seen in one random school
of twenty, with k = 3): there the rounding is what protects, which is tested and not proven.

An adversary who knows the values of all others in a cell gets the last one, from any average that was ever published;
only the rounding, which is added later, stands in the way of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CheckError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Below 1 by what the arithmetic of doubles, and the ridge, may be wrong by, many times over.
LIMIT = 0.95
# Added to the diagonal, so that a course with one class, the same cell twice, is no division by zero. It hides
# combinations with factors in the hundreds only, which rounding to whole points hides as well.
RIDGE = 1e-6
# How exact products of cells must come out again, in students.
EXACT = 1e-3
# How far from 0 and 1 all values can be, for the same sums.
MARGIN = 0.05
# Of a suppressed cell that says nothing about few students: as much must not follow as one student in two classes is.
OWN = 0.5
ATTEMPTS = 300
BLOCK = 10_000_000  # numbers held at a time


@dataclass(frozen=True)
class Cell:
    """Some students, as ascending positions. Of cells that give each other away, the highest `rank` goes first."""

    students: Ints
    rank: int = 0

    @property
    def size(self) -> int:
        """How many students."""
        return len(self.students)


class Span:
    """All linear combinations of some cells over `size` students."""

    def __init__(self, cells: Sequence[Cell], size: int) -> None:
        self.cells = cells
        self.size = size
        self._cells_of = _cells_of(cells, size)
        gram = np.zeros((len(cells) + 1, len(cells) + 1))
        for one in self._cells_of.T:
            for other in self._cells_of.T:
                np.add.at(gram, (one, other), 1.0)
        self._gram = gram
        self.left = np.ones(len(cells), dtype=bool)
        self._invert()

    def drop(self, cells: Iterable[int]) -> None:
        """Take cells out, by number; the others keep theirs."""
        self.left[list(cells)] = False
        self._invert()

    def _invert(self) -> None:
        # From the beginning each time. Of cells that follow from each other, the ridge makes numbers so large that
        # taking one out of the inverse would leave nothing but rounding errors.
        there = np.ix_(np.flatnonzero(self.left), np.flatnonzero(self.left))
        # The last row and column stand for "no cell" in `_cells_of`.
        self._inverse = np.zeros_like(self._gram)
        gram = self._gram[there]
        inverse = np.linalg.inv(gram + RIDGE * np.eye(len(gram)))
        # What is projected twice is projected once: where that fails, so does the proof.
        if gram.size and np.abs(gram @ inverse @ gram - gram).max() > EXACT:
            raise CheckError("What follows from the figures cannot be computed exactly enough. Nothing was released")
        self._inverse[there] = inverse

    @property
    def concerned(self) -> NDArray[np.bool_]:
        """Who is in any of the cells."""
        return np.asarray(np.append(self.left, False)[self._cells_of].any(axis=1))

    def sums(self, values: Floats) -> Floats:
        """Each cell's sum of values, one per student."""
        columns = self._cells_of.shape[1]
        weights = np.repeat(values, columns)
        return np.asarray(np.bincount(self._cells_of.ravel(), weights, len(self.cells) + 1)[:-1], dtype=np.float64)

    def factors(self, values: Floats) -> Floats:
        """The factors of the combination that comes nearest to `values`, one per cell."""
        return self.nearest(self.sums(values))

    def nearest(self, sums: Floats) -> Floats:
        """The factors of the combination that has these sums."""
        return np.asarray(self._inverse[:-1, :-1] @ sums)

    def combined(self, factors: Floats) -> Floats:
        """The combination with these factors, one number per student."""
        return np.asarray(np.append(factors, 0.0)[self._cells_of].sum(axis=1))

    def rest(self, values: Floats) -> Floats:
        """What of `values` does not follow from the cells: the values without their projection."""
        return values - self.combined(self.factors(values))

    def exposures(self, students: Ints, k: int) -> Floats:
        """Each student's exposure: of its row of P, the diagonal and the k - 2 largest other absolute values."""
        found = np.zeros(len(students))
        step = max(1, BLOCK // max(1, self.size, len(self.cells)))
        for start in range(0, len(students), step):
            some = students[start : start + step]
            factors = self._inverse[self._cells_of[some]].sum(axis=1).T.copy()
            rows = np.zeros((self.size, len(some)))
            for cell in self._cells_of.T:
                rows += factors[cell]
            own = rows[some, np.arange(len(some))]
            rows = np.abs(rows.T)
            rows[np.arange(len(some)), some] = 0
            others = min(k - 2, self.size)
            most = np.partition(rows, self.size - others, axis=1)[:, self.size - others :] if others else rows[:, :0]
            found[start : start + step] = own + most.sum(axis=1)
        return found

    def cells_of(self, student: int) -> list[int]:
        """The numbers of a student's cells, and of those that were taken out."""
        return [cell for cell in self._cells_of[student].tolist() if cell < len(self.cells)]

    def toward(self, student: int) -> Floats:
        """The factors of the combination that comes nearest to one student."""
        return np.asarray(self._inverse[self._cells_of[student]].sum(axis=0)[:-1])


def _cells_of(cells: Sequence[Cell], size: int) -> Ints:
    """Each student's cells, by number; rows are filled up with the number of cells."""
    depth = np.zeros(size, dtype=np.int64)
    for cell in cells:
        depth[cell.students] += 1
    table = np.full((size, max(1, depth.max(initial=0))), len(cells), dtype=np.int64)
    depth[:] = 0
    for number, cell in enumerate(cells):
        table[cell.students, depth[cell.students]] = number
        depth[cell.students] += 1
    return table


def separable(fixed: Sequence[Cell], new: Sequence[Cell], size: int, k: int) -> tuple[set[int], set[int]]:
    """Choose cells of whose combinations none concerns fewer than k students; returns the numbers of both kinds.

    A fixed one is left out only if there is no other way, which is so after k was raised.
    """
    cells = [*fixed, *(cell for cell in new if cell.size >= k)]
    numbers = [*range(len(fixed)), *(len(fixed) + n for n, cell in enumerate(new) if cell.size >= k)]
    while cells:
        span = Span(cells, size)
        bad = _exposed(span, np.arange(size), k)
        if len(bad) == 0:
            break
        watched = bad
        while len(bad):
            span.drop(_given_away(span, bad, np.array(numbers) >= len(fixed)))
            bad = _exposed(span, watched, k)
        # Once more from the beginning: now with everybody.
        cells = [cell for cell, left in zip(cells, span.left, strict=True) if left]
        numbers = [number for number, left in zip(numbers, span.left, strict=True) if left]
    return {n for n in numbers if n < len(fixed)}, {n - len(fixed) for n in numbers if n >= len(fixed)}


def _exposed(span: Span, students: Ints, k: int) -> Ints:
    """Who of these students is exposed too much, the most exposed first."""
    exposures = span.exposures(students, k)
    return students[np.argsort(-exposures, kind="stable")][: int((exposures >= LIMIT).sum())]


def _given_away(span: Span, bad: Ints, is_new: NDArray[np.bool_]) -> set[int]:
    """The cells to leave out for these students: one for each, unless one of the student's is left out already."""
    drop: set[int] = set()
    new = is_new & span.left
    for student in bad.tolist():
        if drop.isdisjoint(span.cells_of(student)):
            drop.add(_to_drop(span, span.toward(student), new if new.any() else span.left))
    return drop


def _to_drop(span: Span, factors: Floats, among: NDArray[np.bool_]) -> int:
    """Of the cells that matter in a combination: of the highest rank, the one that matters most."""
    weight = np.where(among, np.abs(factors), 0)
    matters = [at for at in np.flatnonzero(among).tolist() if weight[at] >= 0.1 * weight.max()]
    return max(matters, key=lambda at: (span.cells[at].rank, round(float(weight[at]), 9), at))


Accepts = Callable[[int, int], bool]


def is_balanced(k: int) -> Accepts:
    """The rule for counts: of `size` students at least k count, and at least k do not."""
    return lambda counted, size: k <= counted <= size - k


def protected(
    shown: Iterable[int],
    cells: Sequence[Cell],
    values: Floats,
    *,
    k: int,
    counted: bool,
    before: Sequence[Cell] = (),
) -> set[int]:
    """Which of the `shown` cells may stay, by number; `values` has one value from 0 to 1 per student.

    The `cells` that are not shown are suppressed, and may not follow from the others nor from those shown `before`.
    Values that are `counted` are 0 or 1.
    """
    count = len(cells)
    cells = [*cells, *before]
    totals = [float(values[cell.students].sum()) for cell in cells]
    balanced = is_balanced(k)

    def is_open(n: int) -> bool:
        """Whether a cell says nothing about fewer than k by itself."""
        if counted:
            return balanced(round(totals[n]), cells[n].size)
        return cells[n].size >= k and MARGIN <= totals[n] / cells[n].size <= 1 - MARGIN

    # How much of each cell must not follow, once it is suppressed.
    own = [OWN if is_open(n) else min(k, cell.size) / 2 for n, cell in enumerate(cells)]
    # One from before that is not open now had other values then.
    able = [n for n in [*sorted(shown), *range(count, len(cells))] if is_open(n)]
    span = Span([cells[n] for n in able], len(values))
    may_go = np.array([n < count for n in able], dtype=bool)
    while True:
        left = {able[at]: at for at in np.flatnonzero(span.left).tolist()}
        drop = {left[n] for n in _unbalanced_differences(left, count, cells, totals, balanced)} if counted else set()
        drop |= _followed(span, [(cells[n], own[n]) for n in range(count) if n not in left], may_go & span.left)
        if not drop:
            drop = _certain(span, values, may_go & span.left)
        if not drop:
            return {n for n in left if n < count}
        span.drop(drop)


def _unbalanced_differences(
    left: Iterable[int], count: int, cells: Sequence[Cell], totals: Sequence[float], balanced: Accepts
) -> set[int]:
    """Cells inside others with too few who count, or do not, between them; only the first `count` may go."""
    drop: set[int] = set()
    inside = {n: frozenset(cells[n].students.tolist()) for n in left}
    for n, other in permutations(inside, 2):
        size = cells[other].size - cells[n].size
        if size > 0 and inside[n] < inside[other] and not balanced(round(totals[other] - totals[n]), size):
            drop.add(n if n < count else other)
    return {n for n in drop if n < count}


def _followed(span: Span, hidden: Iterable[tuple[Cell, float]], may_go: NDArray[np.bool_]) -> set[int]:
    """What to suppress beside the `hidden` cells, because of one less than its number does not follow."""
    drop: set[int] = set()
    for cell, own in hidden:
        if not may_go.any():
            break
        whole = np.zeros(span.size)
        whole[cell.students] = 1
        factors = span.factors(whole)
        rest = whole - span.combined(factors)
        # Not where it follows from what was shown before alone: that is out.
        can_help = np.abs(factors[may_go]).max() >= 0.1 * np.abs(factors).max()
        if rest @ rest < own and can_help:
            drop.add(_to_drop(span, factors, may_go))
    return drop


def _certain(span: Span, values: Floats, may_go: NDArray[np.bool_]) -> set[int]:
    """What to suppress because somebody's value is near 0 or 1 in all that gives the same sums."""
    found = witness(span, values)
    outside = np.maximum(MARGIN - found, found - (1 - MARGIN)) * span.concerned
    off = np.abs(span.sums(found) - span.sums(values)) * span.left
    if not may_go.any() or (outside.max() <= 0 and off.max() < EXACT):
        return set()
    return {_to_drop(span, span.toward(int(outside.argmax())), may_go)}


def witness(span: Span, values: Floats) -> Floats:
    """Other values with the same sums, all of them MARGIN or more away from 0 and 1, if there are any.

    Alternates between what has the sums and what is well inside; returns the last that has the sums.
    """
    sums = span.sums(values)
    concerned = span.concerned
    found = values
    if concerned.any():
        inside = np.where(concerned, values.mean(), values)
        for _ in range(ATTEMPTS):
            found = inside
            for _ in range(2):  # twice: the ridge leaves a trace of what is missing
                found = found + span.combined(span.nearest(sums - span.sums(found)))
            if found[concerned].min() >= MARGIN and found[concerned].max() <= 1 - MARGIN:
                break
            inside = np.where(concerned, np.clip(found, 1.5 * MARGIN, 1 - 1.5 * MARGIN), values)
    return found
