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

What takes time is the inverse of the cells' overlaps, so no more than `LARGEST` cells are ever chosen: those that are
wanted most. A cell that is not shown concerns nobody.

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

import numpy as np
from numpy.typing import NDArray

from pipelines.privacy.disclosure.span import EXACT, Cell, Floats, Ints, Span

# Below 1 by what the arithmetic of doubles, and the ridge, may be wrong by, many times over.
LIMIT = 0.95
# How far from 0 and 1 all values can be, for the same sums.
MARGIN = 0.05
# Of a suppressed cell that says nothing about few students: as much must not follow as one student in two classes is.
OWN = 0.5
# The most cells that are ever shown beside each other, of all weeks: 390 MB of doubles, and half a minute to invert.
LARGEST = 7_000
ATTEMPTS = 300


def separable(fixed: Sequence[Cell], new: Sequence[Cell], size: int, k: int) -> tuple[set[int], set[int]]:
    """Choose cells of whose combinations none concerns fewer than k students; returns the numbers of both kinds.

    A fixed one is left out only if there is no other way, which is so after k was raised. Of the new ones, the first
    are wanted most.
    """
    room = max(0, LARGEST - len(fixed))
    large = [n for n, cell in enumerate(new) if cell.size >= k][:room]
    left = _unexposed([*fixed, *(new[n] for n in large)], len(fixed), size, k)
    return {n for n in left if n < len(fixed)}, {large[n - len(fixed)] for n in left if n >= len(fixed)}


def _unexposed(cells: Sequence[Cell], fixed: int, size: int, k: int) -> list[int]:
    """Leave cells out until no student is exposed too much; one of the first `fixed` only if there is no other way."""
    span = Span(cells, size)
    is_new = np.arange(len(cells)) >= fixed
    exposures = span.exposures(np.arange(size), k, LIMIT)
    while len(bad := _most_exposed(exposures)):
        watched, own = bad, span.own(np.arange(size))
        while len(bad):
            span.drop(_given_away(span, bad, is_new))
            bad = watched[_most_exposed(span.exposures(watched, k, LIMIT))]
        exposures = at_most(exposures, own - span.own(np.arange(size)), k)
        doubted = np.flatnonzero(exposures >= LIMIT)
        exposures[doubted] = span.exposures(doubted, k, LIMIT)
    return np.flatnonzero(span.left).tolist()


def at_most(exposures: Floats, lost: Floats, k: int) -> Floats:
    """How large exposures can be after cells were taken out, by what the diagonal of P has `lost` for each student.

    P has lost a projection, too. The squares of a row of it add up to its diagonal, which bounds the k - 2 largest.
    """
    return np.asarray(exposures + np.sqrt(max(0, k - 2) * np.maximum(lost, 0)))


def _most_exposed(exposures: Floats) -> Ints:
    """The places of those that are too large, the largest first."""
    return np.argsort(-exposures, kind="stable")[: int((exposures >= LIMIT).sum())]


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
    matters = np.flatnonzero(among & (weight >= 0.1 * weight.max())).tolist()
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
    if counted and (drop := _unbalanced_differences(span, may_go, [totals[n] for n in able], balanced)):
        span.drop(drop)
    safe: set[int] = set()
    while True:
        left = {able[at] for at in np.flatnonzero(span.left).tolist()}
        # What does not follow from some cells does not follow from fewer.
        hidden = [n for n in range(count) if n not in left and n not in safe]
        drop, follow = _followed(span, [(cells[n], own[n]) for n in hidden], may_go & span.left)
        safe |= {n for at, n in enumerate(hidden) if at not in follow}
        if not drop:
            drop = _certain(span, values, may_go & span.left)
        if not drop:
            return {n for n in left if n < count}
        span.drop(drop)


def _unbalanced_differences(
    span: Span, may_go: NDArray[np.bool_], totals: Sequence[float], balanced: Accepts
) -> set[int]:
    """Cells inside others with too few who count, or do not, between them; only those that `may_go` do."""
    drop: set[int] = set()
    for n, cell in enumerate(span.cells):
        for other in np.flatnonzero(span.overlaps(cell) == cell.size).tolist():
            size = span.cells[other].size - cell.size
            if size > 0 and not balanced(round(totals[other] - totals[n]), size):
                drop.add(n if may_go[n] else other)
    return {n for n in drop if may_go[n]}


def _followed(span: Span, hidden: Sequence[tuple[Cell, float]], may_go: NDArray[np.bool_]) -> tuple[set[int], set[int]]:
    """What to suppress beside the `hidden` cells, because of one less than its number does not follow.

    Returns the numbers of both: of the cells to suppress, and of the hidden ones that follow.
    """
    drop: set[int] = set()
    follow: set[int] = set()
    if not may_go.any():
        return drop, follow
    for n in _perhaps_told(span, hidden):
        cell, own = hidden[n]
        sums = span.overlaps(cell)
        # The square of what does not follow.
        if cell.size - span.square(sums) >= own:
            continue
        follow.add(n)
        factors = span.nearest(sums)
        weight = np.abs(factors)
        matters = may_go & (weight >= 0.1 * weight.max())
        # Not where it follows from what was shown before alone: that is out.
        if matters.any() and drop.isdisjoint(np.flatnonzero(matters).tolist()):
            drop.add(_to_drop(span, factors, may_go))
    return drop, follow


def _perhaps_told(span: Span, hidden: Sequence[tuple[Cell, float]]) -> list[int]:
    """The numbers of the `hidden` cells of which it is not plain that enough does not follow.

    It is plain where students in the same cells of the span differ in being in a hidden one: no sum tells them apart.
    """
    alike = span.alike()
    sizes = np.bincount(alike)
    unseen = ~span.concerned
    asked: list[int] = []
    for n, (cell, own) in enumerate(hidden):
        seen = cell.students[~unseen[cell.students]]
        of, among = np.unique(alike[seen], return_counts=True)
        apart = cell.size - len(seen) + float((among * (1 - among / sizes[of])).sum())
        if apart < own:
            asked.append(n)
    return asked


def _certain(span: Span, values: Floats, may_go: NDArray[np.bool_]) -> set[int]:
    """What to suppress because somebody's value is near 0 or 1 in all that gives the same sums."""
    found = witness(span, values)
    outside = np.maximum(MARGIN - found, found - (1 - MARGIN)) * span.concerned
    off = np.abs(span.sums(found) - span.sums(values)) * span.left
    if not may_go.any() or (outside.max() <= 0 and off.max() < EXACT):
        return set()
    worst = np.argsort(-outside, kind="stable")
    worst = worst[: max(1, int((outside >= max(outside.max() / 2, 1e-12)).sum()))]
    return _given_away(span, worst, may_go)


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
