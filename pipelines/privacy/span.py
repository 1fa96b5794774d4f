"""What can be computed from sums over students: the linear combinations of some cells, and what they leave open.

The inverse of the cells' overlaps is kept as one matrix that is worked on in place. Students are looked at cell by
cell: of a class, only the cells matter that its students are in.

Nothing here decides what is suppressed: `suppression` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CheckError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Added to the diagonal, so that a course with one class, the same cell twice, is no division by zero. It hides
# combinations with factors in the hundreds only, which rounding to whole points hides as well.
RIDGE = 1e-6
# How exact products of cells must come out again, in students.
EXACT = 1e-3
TRIALS = 40
# Students of cells up to this size are looked at one by one; of what is larger, it is known how much there is at most.
NEAR = 150
BLOCK = 10_000_000  # numbers held at a time
STRIP = 256  # rows of the inverse worked on at a time


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
        self.left = np.ones(len(cells), dtype=bool)
        # Where there are fewer cells than columns, their number stands for "none".
        self._cells_of = _cells_of(cells, size)
        self._columns = np.ascontiguousarray(self._cells_of.T)
        self._sizes = np.array([cell.size for cell in cells], dtype=np.float64)
        self._inverse = self._inverted()
        self._check()

    def drop(self, cells: Iterable[int]) -> None:
        """Take cells out, by number; the others keep theirs."""
        gone = np.array(sorted(n for n in set(cells) if self.left[n]), dtype=np.int64)
        self.left[gone] = False
        if not len(gone):
            return
        try:
            _take_out(self._inverse, gone)
            self._check()
        except (CheckError, np.linalg.LinAlgError):
            # Of cells that follow from each other, the ridge makes numbers so large that taking one out may leave
            # nothing but rounding errors. Then from the beginning.
            self._inverse = self._inverted()
            self._check()

    def _inverted(self) -> Floats:
        count = len(self.cells)
        gram = np.zeros((count + 1, count + 1))
        flat = gram.reshape(-1)
        for one in self._columns:
            for other in self._columns:
                np.add.at(flat, one * (count + 1) + other, 1.0)
        gone = np.append(~self.left, True)
        gram[gone] = 0
        gram[:, gone] = 0
        at = np.arange(count + 1)
        gram[at, at] += RIDGE
        gram[at[gone], at[gone]] = 1
        _invert(gram)
        gram[at[gone], at[gone]] = 0
        return gram

    def _check(self) -> None:
        """Raise CheckError unless what is projected twice is projected once: where that fails, so does the proof."""
        if not self.left.any():
            return
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(self.cells), TRIALS)) * self.left[:, None]
        once = self._products(signs)
        # A product that is wrong anywhere is so for half of the signs, or more.
        if not np.abs(self._products(self._inverse[:-1, :-1] @ once) - once).max() <= EXACT:
            raise CheckError("What follows from the figures cannot be computed exactly enough. Nothing was released")

    def _products(self, factors: Floats) -> Floats:
        """The cells' sums of some combinations, one in a column."""
        return np.stack([self.sums(self.combined(column)) for column in factors.T], axis=1)

    @property
    def concerned(self) -> NDArray[np.bool_]:
        """Who is in any of the cells."""
        return np.asarray(np.append(self.left, False)[self._columns].any(axis=0))

    def sums(self, values: Floats) -> Floats:
        """Each cell's sum of values, one per student; 0 for those that were taken out."""
        weights = np.tile(values, len(self._columns))
        found = np.bincount(self._columns.ravel(), weights, len(self.cells) + 1)[:-1]
        return np.asarray(found * self.left, dtype=np.float64)

    def overlaps(self, cell: Cell) -> Floats:
        """How many students each cell has in common with another one."""
        found = np.bincount(self._cells_of[cell.students].ravel(), minlength=len(self.cells) + 1)[:-1]
        return np.asarray(found * self.left, dtype=np.float64)

    def nearest(self, sums: Floats) -> Floats:
        """The factors of the combination that has these sums; of several, one in a column."""
        return np.asarray(self._inverse[:-1, :-1] @ sums)

    def combined(self, factors: Floats) -> Floats:
        """The combination with these factors, one number per student."""
        padded = np.append(factors, 0.0)
        found = np.zeros(self.size)
        for column in self._columns:
            found += padded[column]
        return found

    def cells_of(self, student: int) -> list[int]:
        """The numbers of a student's cells, and of those that were taken out."""
        return [cell for cell in self._cells_of[student].tolist() if cell < len(self.cells)]

    def toward(self, student: int) -> Floats:
        """The factors of the combination that comes nearest to one student."""
        return np.asarray(self._inverse[self._cells_of[student]].sum(axis=0)[:-1])

    def alike(self) -> Ints:
        """A number for each student, the same for those who are in the same cells."""
        there = np.append(self.left, False)
        rows = np.sort(np.where(there[self._cells_of], self._cells_of, len(self.cells)), axis=1)
        numbers = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        return np.asarray(numbers, dtype=np.int64)

    # --- exposure: see `suppression` ---------------------------------------------------------------------------------

    def exposures(self, students: Ints, k: int, enough: float) -> Floats:
        """Each student's exposure: of its row of P, the diagonal and the k - 2 largest other absolute values.

        Where a bound from above is below `enough`, or one from below is not, that bound.
        """
        least, most = self._bounds(students, k)
        found = np.where(most < enough, most, least)
        between = np.flatnonzero((least < enough) & (most >= enough))
        found[between] = self._exact(students[between], k)
        return found

    def _bounds(self, students: Ints, k: int) -> tuple[Floats, Floats]:
        """Bounds from below and above, from the students who share a cell of up to NEAR.

        The squares of a row of P add up to its diagonal at most: so it is known what is left for all others.
        """
        others = max(0, min(k - 2, self.size))
        wanted = np.zeros(self.size, dtype=bool)
        wanted[students] = True
        most = np.zeros((self.size, others))
        squares = np.zeros(self.size)
        for n in np.flatnonzero(self.left & (self._sizes <= NEAR)).tolist():
            those = self.cells[n].students
            asked = wanted[those]
            if asked.any():
                values = self._shared(n, those)[asked]
                those = those[asked]
                squares[those] += (values * values).sum(axis=1)
                if others:
                    values = np.concatenate([most[those], values], axis=1)
                    most[those] = np.partition(values, values.shape[1] - others, axis=1)[:, -others:]
        own = self._own(students)
        rest = np.maximum(own - own * own - squares[students], 0) + 1e-9
        largest = np.cumsum(np.sort(most[students], axis=1)[:, ::-1], axis=1)
        largest = np.concatenate([np.zeros((len(students), 1)), largest], axis=1)
        # However many of the largest are among those looked at.
        upper = (largest + np.sqrt(np.outer(rest, others - np.arange(others + 1)))).max(axis=1)
        return np.asarray(own + largest[:, -1]), np.asarray(own + upper)

    def _shared(self, number: int, those: Ints) -> Floats:
        """The absolute values of P for the students of a cell, without the diagonal and what earlier cells had."""
        rows = self._cells_of[those]
        rows = np.where(np.append(self.left, False)[rows], rows, len(self.cells))
        among, at = np.unique(rows, return_inverse=True)
        at = at.reshape(rows.shape)
        # Sums of single numbers: products of matrices as small as these wait for other threads, mostly.
        halves = self._inverse[np.ix_(among, among)][at].sum(axis=1)
        values: Floats = np.abs(halves[:, at].sum(axis=2))
        earlier = (among < number) & (np.append(self._sizes, np.inf)[among] <= NEAR)
        before = np.zeros((len(those), len(among)), dtype=bool)
        before[np.arange(len(those))[:, None], at] = earlier[at]
        values[before[:, at].any(axis=2)] = 0
        np.fill_diagonal(values, 0)
        return values

    def _own(self, students: Ints) -> Floats:
        rows = self._columns[:, students]
        found = np.zeros(len(students))
        for one in rows:
            for other in rows:
                found += self._inverse[one, other]
        return found

    def _exact(self, students: Ints, k: int) -> Floats:
        found = np.zeros(len(students))
        step = max(1, BLOCK // max(1, self.size, len(self.cells)))
        for start in range(0, len(students), step):
            some = students[start : start + step]
            factors = self._inverse[self._cells_of[some]].sum(axis=1).T.copy()
            rows = np.zeros((self.size, len(some)))
            for column in self._columns:
                rows += factors[column]
            own = rows[some, np.arange(len(some))]
            rows = np.abs(rows.T)
            rows[np.arange(len(some)), some] = 0
            others = min(k - 2, self.size)
            most = np.partition(rows, self.size - others, axis=1)[:, self.size - others :] if others else rows[:, :0]
            found[start : start + step] = own + most.sum(axis=1)
        return found


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


def _invert(matrix: Floats) -> None:
    """Invert a positive definite matrix where it is: a strip of rows and columns after the other is exchanged."""
    count = len(matrix)
    for start in range(0, count, STRIP):
        strip = slice(start, min(start + STRIP, count))
        pivot = np.linalg.inv(matrix[strip, strip])
        columns = matrix[:, strip].copy()
        columns[strip] = 0
        rows = pivot @ matrix[strip]
        rows[:, strip] = 0
        _subtract(matrix, columns, rows)
        matrix[strip] = rows
        matrix[:, strip] = -columns @ pivot
        matrix[strip, strip] = pivot


def _take_out(inverse: Floats, gone: Ints) -> None:
    """Make an inverse that of the matrix without some rows and columns; these become 0."""
    for start in range(0, len(gone), STRIP):
        some = gone[start : start + STRIP]
        columns = inverse[:, some].copy()
        rows = np.linalg.solve(columns[some], columns.T)
        _subtract(inverse, columns, np.asarray(rows, dtype=np.float64))
        inverse[some] = 0
        inverse[:, some] = 0


def _subtract(matrix: Floats, columns: Floats, rows: Floats) -> None:
    """Subtract a product in place, some rows at a time: the whole product would be as large as the matrix."""
    step = max(STRIP, BLOCK // max(1, len(matrix)))
    for start in range(0, len(matrix), step):
        some = slice(start, start + step)
        matrix[some] -= columns[some] @ rows
