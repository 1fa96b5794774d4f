"""Complementary suppression: which sums to suppress, so that nothing can be derived about fewer than k students.

A cell is a set of students whose values are summed. The adversary knows the members of every cell and all sums before
rounding, and computes differences: A - B from A and B, a class from its course and all other classes. Everything that
can be derived is a linear combination of the cells. Nothing here knows of schools, weeks or files.

**No combination concerns fewer than k students** (`separable`). Let P be the orthogonal projection onto the
combinations of the cells, with a row and a column per student. A combination w that is zero except for the students S
is its own projection, so the submatrix of P for S has the eigenvalue 1. No eigenvalue of a matrix exceeds its largest
absolute row sum. So if for every student the diagonal entry and the k - 2 largest others of its row (the `exposure`)
add up to less than 1, no such w exists for any S of fewer than k students. For disjoint or nested cells this requires
only that each part has k students or none; for overlapping cells it may require more than necessary.

Inverting the overlap matrix takes most of the time, so at most `LARGEST` cells are ever chosen, the most wanted first.
A cell that is not shown concerns nobody.

**Neither "all or nothing" nor a suppressed cell can be derived** (`protected`). Values are between 0 and 1. Cells are
suppressed until other values exist, each at least MARGIN away from 0 and 1, that give all the same sums. From there,
each student's value can move up and down without changing a sum, by moving the others' a little. No suppressed cell
follows from what is shown; of a small one, or one that is all or nothing, at least half does not. Cells shown before
count as shown now, for an adversary who assumes the same values. Where values are 0 or 1, this holds for fractions. In
whole numbers, exact counts may still leave a single solution (seen in one random school of twenty, with k = 3): there
the rounding protects, which is tested, not proven.

An adversary who knows the values of all others in a cell can derive the last one from any published average; only the
rounding, which is applied later, prevents that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pipelines.privacy.disclosure.span import EXACT, Cell, Floats, Ints, Span

# Below 1 by many times the error of double arithmetic and the ridge.
LIMIT = 0.95
# How far from 0 and 1 all values must be able to be, for the same sums.
MARGIN = 0.05
# The part of a harmless suppressed cell that must not follow, in students: that of one student in two classes.
OWN = 0.5
# The most cells ever shown together, over all weeks: 390 MB of doubles, and half a minute to invert.
LARGEST = 7_000
ATTEMPTS = 300


def separable(fixed: Sequence[Cell], new: Sequence[Cell], size: int, k: int) -> tuple[set[int], set[int]]:
    """Choose cells so that no combination concerns fewer than k students; returns the numbers of both kinds.

    A fixed cell is left out only if there is no other way, as after k was raised. New cells come in order of priority.
    """
    room = max(0, LARGEST - len(fixed))
    large = [n for n, cell in enumerate(new) if cell.size >= k][:room]
    left = _unexposed([*fixed, *(new[n] for n in large)], len(fixed), size, k)
    return {n for n in left if n < len(fixed)}, {large[n - len(fixed)] for n in left if n >= len(fixed)}


def _unexposed(cells: Sequence[Cell], fixed: int, size: int, k: int) -> list[int]:
    """Leave cells out until no exposure is too large; the first `fixed` ones only if there is no other way."""
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
    """Upper bounds of the exposures after cells were removed, by how much the diagonal of P has `lost` per student.

    What P lost is a projection, too: the squares of its rows sum to its diagonal, which bounds the k - 2 largest.
    """
    return np.asarray(exposures + np.sqrt(max(0, k - 2) * np.maximum(lost, 0)))


def _most_exposed(exposures: Floats) -> Ints:
    """The positions of exposures that are too large, largest first."""
    return np.argsort(-exposures, kind="stable")[: int((exposures >= LIMIT).sum())]


def _given_away(span: Span, bad: Ints, is_new: NDArray[np.bool_]) -> set[int]:
    """The cells to leave out for these students: one per student, unless another of the student's cells is left out."""
    drop: set[int] = set()
    new = is_new & span.left
    for student in bad.tolist():
        if drop.isdisjoint(span.cells_of(student)):
            drop.add(_to_drop(span, span.toward(student), new if new.any() else span.left))
    return drop


def _to_drop(span: Span, factors: Floats, among: NDArray[np.bool_]) -> int:
    """Of the cells with a large factor, the one with the highest rank, then the largest factor."""
    weight = np.where(among, np.abs(factors), 0)
    matters = np.flatnonzero(among & (weight >= 0.1 * weight.max())).tolist()
    return max(matters, key=lambda at: (span.cells[at].rank, round(float(weight[at]), 9), at))


Accepts = Callable[[int, int], bool]


def is_balanced(k: int) -> Accepts:
    """The rule for counts: at least k of `size` students count, and at least k do not."""
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

    All other `cells` are suppressed, and must not follow from the shown ones or those shown `before`. `counted` values
    are 0 or 1.
    """
    count = len(cells)
    cells = [*cells, *before]
    totals = [float(values[cell.students].sum()) for cell in cells]
    balanced = is_balanced(k)

    def is_open(n: int) -> bool:
        """Whether a cell by itself discloses nothing about fewer than k."""
        if counted:
            return balanced(round(totals[n]), cells[n].size)
        return cells[n].size >= k and MARGIN <= totals[n] / cells[n].size <= 1 - MARGIN

    # How much of each cell must not follow, once it is suppressed.
    own = [OWN if is_open(n) else min(k, cell.size) / 2 for n, cell in enumerate(cells)]
    # An earlier cell that is not open now had other values then.
    able = [n for n in [*sorted(shown), *range(count, len(cells))] if is_open(n)]
    span = Span([cells[n] for n in able], len(values))
    may_go = np.array([n < count for n in able], dtype=bool)
    if counted and (drop := _unbalanced_differences(span, may_go, [totals[n] for n in able], balanced)):
        span.drop(drop)
    safe: set[int] = set()
    while True:
        left = {able[at] for at in np.flatnonzero(span.left).tolist()}
        # A cell that does not follow from some cells does not follow from fewer.
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
    """Cells to drop of nested pairs whose difference is not `balanced`; only cells that `may_go`."""
    drop: set[int] = set()
    for n, cell in enumerate(span.cells):
        for other in np.flatnonzero(span.overlaps(cell) == cell.size).tolist():
            size = span.cells[other].size - cell.size
            if size > 0 and not balanced(round(totals[other] - totals[n]), size):
                drop.add(n if may_go[n] else other)
    return {n for n in drop if may_go[n]}


def _followed(span: Span, hidden: Sequence[tuple[Cell, float]], may_go: NDArray[np.bool_]) -> tuple[set[int], set[int]]:
    """What to suppress so that enough of each `hidden` cell does not follow (its number, in students).

    Returns the numbers of the cells to suppress, and of the hidden cells that follow.
    """
    drop: set[int] = set()
    follow: set[int] = set()
    if not may_go.any():
        return drop, follow
    for n in _perhaps_followed(span, hidden):
        cell, own = hidden[n]
        sums = span.overlaps(cell)
        # The squared residual.
        if cell.size - span.square(sums) >= own:
            continue
        follow.add(n)
        factors = span.nearest(sums)
        weight = np.abs(factors)
        matters = may_go & (weight >= 0.1 * weight.max())
        # If it follows from earlier cells alone, it is disclosed already.
        if matters.any() and drop.isdisjoint(np.flatnonzero(matters).tolist()):
            drop.add(_to_drop(span, factors, may_go))
    return drop, follow


def _perhaps_followed(span: Span, hidden: Sequence[tuple[Cell, float]]) -> list[int]:
    """The numbers of the `hidden` cells that a cheap check does not clear.

    Students in the same shown cells, some inside and some outside a hidden one, cannot be distinguished by any sum.
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
    """What to suppress because no `witness` keeps somebody's value away from 0 and 1."""
    found = witness(span, values)
    outside = np.maximum(MARGIN - found, found - (1 - MARGIN)) * span.concerned
    off = np.abs(span.sums(found) - span.sums(values)) * span.left
    if not may_go.any() or (outside.max() <= 0 and off.max() < EXACT):
        return set()
    worst = np.argsort(-outside, kind="stable")
    worst = worst[: max(1, int((outside >= max(outside.max() / 2, 1e-12)).sum()))]
    return _given_away(span, worst, may_go)


def witness(span: Span, values: Floats) -> Floats:
    """Other values with the same sums, all at least MARGIN away from 0 and 1, if there are any.

    Alternating projections between the values with these sums and those well inside; returns the last with the sums.
    """
    sums = span.sums(values)
    concerned = span.concerned
    found = values
    if concerned.any():
        inside = np.where(concerned, values.mean(), values)
        for _ in range(ATTEMPTS):
            found = inside
            for _ in range(2):  # twice: the ridge leaves a small residual
                found = found + span.combined(span.nearest(sums - span.sums(found)))
            if found[concerned].min() >= MARGIN and found[concerned].max() <= 1 - MARGIN:
                break
            inside = np.where(concerned, np.clip(found, 1.5 * MARGIN, 1 - 1.5 * MARGIN), values)
    return found
