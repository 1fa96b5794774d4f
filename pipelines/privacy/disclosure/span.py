"""What can be computed from sums over students: the linear combinations of cells.

The inverse of the cells' overlap matrix (Gram matrix) is kept as one matrix and updated in place. Students are
processed cell by cell: for a class, only the cells that its students are in matter.

Nothing here decides what is suppressed: `suppression` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CheckError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Added to the diagonal, so that identical cells (a course with one class) do not make the matrix singular. It hides
# only combinations with factors in the hundreds, which rounding to whole points hides as well.
RIDGE = 1e-6
# A cell whose squared residual (in students) is below this nearly follows from others.
NEARLY = 1e-2
# The largest error allowed in a combination, per student, and in a cell's sum.
EXACT = 1e-3
TRIALS = 40
# Cells up to this size are examined student by student; for larger ones a bound is used. The bounds decide for nearly
# all students; examining a whole course takes longer than computing the rest exactly.
NEAR = 40
BLOCK = 4_000_000  # the most numbers in memory at a time
STRIP = 256  # rows of the inverse processed at a time


@dataclass(frozen=True)
class Cell:
    """A set of students, as ascending positions. The highest `rank` is suppressed first."""

    students: Ints
    rank: int = 0

    @property
    def size(self) -> int:
        """How many students."""
        return len(self.students)


class Span:
    """All linear combinations of `cells` over `size` students."""

    def __init__(self, cells: Sequence[Cell], size: int) -> None:
        self.cells = cells
        self.size = size
        self.left = np.ones(len(cells), dtype=bool)
        # One row per student, padded with the number of cells for "none".
        self._cells_of = _cells_of(cells, size)
        self._columns = np.ascontiguousarray(self._cells_of.T)
        self._sizes = np.array([cell.size for cell in cells], dtype=np.float64)
        self._inverse = self._inverted()
        self._check()

    def drop(self, cells: Iterable[int]) -> None:
        """Remove cells, by number; the others keep their numbers."""
        gone = np.array(sorted(n for n in set(cells) if self.left[n]), dtype=np.int64)
        self.left[gone] = False
        if not len(gone):
            return
        try:
            _take_out(self._inverse, gone)
            self._check()
        except (CheckError, np.linalg.LinAlgError):
            # Rounding errors accumulate, most where cells are linearly dependent: invert again from scratch.
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
        """Raise CheckError unless random combinations are their own projections: otherwise the proof does not hold."""
        if not self.left.any():
            return
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (TRIALS, len(self.cells))) * self.left
        made = [self.combined(factors) for factors in signs]
        nearest = self.nearest(np.stack([self.sums(one) for one in made], axis=1))
        # An error for any student shows in at least half of the random signs.
        if not max(np.abs(self.combined(f) - one).max() for f, one in zip(nearest.T, made, strict=True)) <= EXACT:
            raise CheckError("What follows from the figures cannot be computed exactly enough. Nothing was released")

    @property
    def concerned(self) -> NDArray[np.bool_]:
        """Which students are in any of the cells, as a mask."""
        return np.asarray(np.append(self.left, False)[self._columns].any(axis=0))

    def sums(self, values: Floats) -> Floats:
        """Each cell's sum of the students' `values`; 0 for removed cells."""
        weights = np.tile(values, len(self._columns))
        found = np.bincount(self._columns.ravel(), weights, len(self.cells) + 1)[:-1]
        return np.asarray(found * self.left, dtype=np.float64)

    def overlaps(self, cell: Cell) -> Floats:
        """How many students each cell shares with `cell`."""
        found = np.bincount(self._cells_of[cell.students].ravel(), minlength=len(self.cells) + 1)[:-1]
        return np.asarray(found * self.left, dtype=np.float64)

    def nearest(self, sums: Floats) -> Floats:
        """The factors of the combination with these sums, one per cell; for several, one column each."""
        nonzero = np.flatnonzero(sums) if sums.ndim == 1 else np.arange(len(sums))
        if 4 * len(nonzero) > len(sums):
            return np.asarray(self._inverse[:-1, :-1] @ sums)
        # Only the rows that matter; the matrix is symmetric.
        return np.asarray(sums[nonzero] @ self._inverse[nonzero, :-1])

    def square(self, sums: Floats) -> float:
        """The squared norm of the combination with these sums."""
        nonzero = np.flatnonzero(sums)
        some = sums[nonzero]
        return float(some @ self._inverse[np.ix_(nonzero, nonzero)] @ some)

    def combined(self, factors: Floats) -> Floats:
        """The combination with these factors: one number per student."""
        padded = np.append(factors, 0.0)
        found = np.zeros(self.size)
        for column in self._columns:
            found += padded[column]
        return found

    def cells_of(self, student: int) -> list[int]:
        """The numbers of a student's cells, including removed ones."""
        return [cell for cell in self._cells_of[student].tolist() if cell < len(self.cells)]

    def toward(self, student: int) -> Floats:
        """The factors of the combination nearest to one student."""
        return np.asarray(self._inverse[self._cells_of[student]].sum(axis=0)[:-1])

    def alike(self) -> Ints:
        """A group number per student, equal for students in the same cells."""
        there = np.append(self.left, False)
        rows = np.sort(np.where(there[self._cells_of], self._cells_of, len(self.cells)), axis=1)
        numbers = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        return np.asarray(numbers, dtype=np.int64)

    # --- exposure: see `suppression` ---------------------------------------------------------------------------------

    def exposures(self, students: Ints, k: int, enough: float) -> Floats:
        """Each student's exposure: the sum of the diagonal of its row of P and the k - 2 largest other absolute values.

        If an upper bound is below `enough`, or a lower bound is not, the bound is returned instead.
        """
        least, most = self._bounds(students, k)
        found = np.where(most < enough, most, least)
        between = np.flatnonzero((least < enough) & (most >= enough))
        found[between] = self._exact(students[between], k)
        return found

    def _bounds(self, students: Ints, k: int) -> tuple[Floats, Floats]:
        """Lower and upper bounds, from the students who share a cell of up to NEAR students.

        The squares of a row of P sum to at most its diagonal, which bounds the values of all other students.
        """
        others = max(0, min(k - 2, self.size))
        wanted = np.zeros(self.size, dtype=bool)
        wanted[students] = True
        most = np.zeros((self.size, others))
        squares = np.zeros(self.size)
        is_near = np.append(self.left & (self._sizes <= NEAR), False)
        for n in np.unique(self._cells_of[students]).tolist():
            if not is_near[n]:
                continue
            members = self.cells[n].students
            asked = np.flatnonzero(wanted[members])
            values = self._shared(n, asked, is_near)
            members = members[asked]
            squares[members] += (values * values).sum(axis=1)
            if others:
                values = np.concatenate([most[members], values], axis=1)
                most[members] = np.partition(values, values.shape[1] - others, axis=1)[:, -others:]
        own = self.own(students)
        rest = np.maximum(own - own * own - squares[students], 0) + 1e-9
        largest = np.cumsum(np.sort(most[students], axis=1)[:, ::-1], axis=1)
        largest = np.concatenate([np.zeros((len(students), 1)), largest], axis=1)
        # It is unknown how many of the largest values were examined: the worst case.
        upper = (largest + np.sqrt(np.outer(rest, others - np.arange(others + 1)))).max(axis=1)
        return np.asarray(own + largest[:, -1]), np.asarray(own + upper)

    def _shared(self, number: int, asked: Ints, is_near: NDArray[np.bool_]) -> Floats:
        """The absolute values of P within a cell, one row per `asked` student.

        The diagonal is 0, and so are pairs that an earlier near cell has counted.
        """
        rows = self._cells_of[self.cells[number].students]
        rows = np.where(np.append(self.left, False)[rows], rows, len(self.cells))
        among, at = np.unique(rows, return_inverse=True)
        at = at.reshape(rows.shape)
        # Elementwise sums: products of such small matrices mostly wait for other threads.
        inverse = self._inverse[np.ix_(among, among)]
        earlier = (among < number) & is_near[among]
        before = np.zeros((len(asked), len(among)), dtype=bool)
        before[np.arange(len(asked))[:, None], at[asked]] = earlier[at[asked]]
        halves = inverse[at[asked]].sum(axis=1)
        values, seen = halves[:, at[:, 0]], before[:, at[:, 0]]
        for column in at.T[1:]:
            values += halves[:, column]
            seen |= before[:, column]
        values[seen] = 0
        values[np.arange(len(asked)), asked] = 0
        return np.asarray(np.abs(values))

    def own(self, students: Ints) -> Floats:
        """The diagonal of P, for these students."""
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
    """Each student's cells, by number; rows are padded with the number of cells."""
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
    """Invert a symmetric positive definite matrix in place, by sweeping blocks of rows and columns.

    Nearly dependent rows come last: their large numbers then affect no further rows, and their errors cancel in
    products with whole cells. Only the lower triangle is computed; the upper one is mirrored.
    """
    count = len(matrix)
    below = np.arange(count)
    todo, late = np.arange(count), np.arange(0)
    while len(todo) or len(late):
        first = len(todo) > 0
        some, rest = (todo if first else late)[:STRIP], (todo if first else late)[STRIP:]
        columns = np.where(below[:, None] >= some, matrix[:, some], matrix[some].T)
        if first:
            free = _independent(columns[some])
            todo, late = rest, np.append(late, some[~free])
            some, columns = some[free], columns[:, free]
        else:
            late = rest
        _sweep(matrix, some, columns)
    for part in _parts(count):
        matrix[part, : part.stop] *= -1
        corner = matrix[part, part]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
        matrix[: part.start, part] = matrix[part, : part.start].T


def _independent(block: Floats) -> NDArray[np.bool_]:
    """Which rows of a symmetric matrix are (numerically) independent of the rows before them, as a mask."""
    block = block.copy()
    free = np.ones(len(block), dtype=bool)
    for at in range(len(block)):
        if block[at, at] < NEARLY:
            free[at] = False
        else:
            column = block[at + 1 :, at]
            block[at + 1 :, at + 1 :] -= np.outer(column, column / block[at, at])
    return free


def _sweep(matrix: Floats, some: Ints, columns: Floats) -> None:
    """Sweep some rows and columns of the lower triangle; `columns` are their values."""
    pivot = np.linalg.inv(columns[some])
    pivot = (pivot + pivot.T) / 2
    columns[some] = 0
    swept = columns @ pivot
    for part in _parts(len(matrix)):
        matrix[part, : part.stop] -= columns[part] @ swept[: part.stop].T
    matrix[some] = swept.T
    matrix[:, some] = swept
    matrix[np.ix_(some, some)] = -pivot


def _take_out(inverse: Floats, gone: Ints) -> None:
    """Downdate an inverse to that of the matrix without some rows and columns; these become 0."""
    for start in range(0, len(gone), STRIP):
        some = gone[start : start + STRIP]
        columns = inverse[:, some].copy()
        rows = np.linalg.solve(columns[some], columns.T)
        _subtract(inverse, columns, np.asarray(rows, dtype=np.float64))
        inverse[some] = 0
        inverse[:, some] = 0


def _subtract(matrix: Floats, columns: Floats, rows: Floats) -> None:
    """Subtract a product in place, in blocks of rows: the whole product would be as large as the matrix."""
    for some in _parts(len(matrix)):
        matrix[some] -= columns[some] @ rows


def _parts(count: int) -> Iterator[slice]:
    """The rows of a square matrix, in slices of about BLOCK numbers."""
    step = max(STRIP, BLOCK // max(1, count))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))
