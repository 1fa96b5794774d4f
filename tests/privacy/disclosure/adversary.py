"""An adversary who gets what was released and who was in which group, and calculates. Shares no code with what it attacks.

Puzzle         what is known of unknown values from 0 to 1: sums of some of them are between bounds
isolated       fewer than k students of whom some combination of exact sums is made
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PRIME = 2_147_483_629
EPS = 1e-9


@dataclass
class Puzzle:
    """Values of some students, each from 0 to 1 (`whole`: 0 or 1), and what is known of sums of them."""

    students: Sequence[int]
    whole: bool = False
    known: list[tuple[frozenset[int], float, float]] = field(default_factory=list)

    def learn(self, students: Collection[int], least: float, most: float) -> None:
        """The sum over these students is between two bounds."""
        self.known.append((frozenset(students), least, most))

    def range_of(self, students: Collection[int]) -> tuple[float, float]:
        """The least and the most that the sum over these students can be. Raises ValueError if nothing fits."""
        among = frozenset(students)
        atoms: dict[tuple[bool, ...], int] = {}
        for student in self.students:
            pattern = (student in among, *(student in those for those, _, _ in self.known))
            atoms[pattern] = atoms.get(pattern, 0) + 1
        patterns = list(atoms)
        sizes = [float(atoms[p]) for p in patterns]
        aim = np.array([float(p[0]) for p in patterns])
        rows = [(np.array([float(p[n + 1]) for p in patterns]), lo, hi) for n, (_, lo, hi) in enumerate(self.known)]
        most = self._best(aim, rows, [0.0] * len(sizes), sizes)
        least = self._best(-aim, rows, [0.0] * len(sizes), sizes)
        if most is None or least is None:
            raise ValueError("no values fit what was released")
        return -least, most

    def _best(
        self,
        aim: Floats,
        rows: list[tuple[Floats, float, float]],
        low: list[float],
        high: list[float],
        best: float = -1e18,
    ) -> float | None:
        """The most that `aim` can be; of whole numbers by branch and bound."""
        found = maximum(aim, rows, low, high)
        if found is None:
            return None
        value, at = found
        if not self.whole:
            return value
        if math.floor(value + 1e-6) <= best:
            return None
        broken = [n for n, x in enumerate(at.tolist()) if abs(x - round(x)) > 1e-6]
        if not broken:
            return float(round(value))
        n = broken[0]
        best_here = None
        up, down = list(low), list(high)
        up[n], down[n] = math.ceil(at[n]), math.floor(at[n])
        for lower, upper in ((up, high), (low, down)):
            deeper = self._best(aim, rows, lower, upper, best)
            if deeper is not None:
                best = max(best, deeper)
                best_here = deeper if best_here is None else max(best_here, deeper)
        return best_here


def maximum(
    aim: Floats, rows: Iterable[tuple[Floats, float, float]], low: Sequence[float], high: Sequence[float]
) -> tuple[float, Floats] | None:
    """Maximize a linear function of bounded variables under bounded sums, by the simplex method; None if impossible."""
    n = len(aim)
    shift = np.array(low, dtype=float)
    lines: list[tuple[Floats, float]] = []  # each: coefficients . y <= bound, for y = x - low >= 0
    for coefficients, least, most in rows:
        lines.append((coefficients, most - coefficients @ shift))
        lines.append((-coefficients, coefficients @ shift - least))
    for at, (lo, hi) in enumerate(zip(low, high, strict=True)):
        if hi < lo - EPS:
            return None
        lines.append((np.eye(n)[at], hi - lo))
    m = len(lines)
    table = np.zeros((m + 1, n + m + 2))  # variables, slacks, one artificial, the right side
    for at, (coefficients, bound) in enumerate(lines):
        table[at, :n], table[at, n + at], table[at, -1] = coefficients, 1, bound
    basis = list(range(n, n + m))
    if table[:-1, -1].min() < -EPS:  # the start fits not: first drive an artificial variable out
        table[:-1, n + m] = -1
        table[-1, n + m] = 1
        _pivot(table, basis, int(table[:-1, -1].argmin()), n + m)
        _climb(table, basis)
        if table[-1, -1] < -1e-7:
            return None
        if n + m in basis:
            at = basis.index(n + m)
            _pivot(table, basis, at, int(np.abs(table[at, : n + m]).argmax()))
        table[:, n + m] = 0
    table[-1] = 0
    table[-1, :n] = -aim
    for at, variable in enumerate(basis):
        table[-1] -= table[-1, variable] * table[at]
    _climb(table, basis)
    found = np.zeros(n + m + 1)
    found[basis] = table[:-1, -1]
    at_best = found[:n] + shift
    return float(aim @ at_best), at_best


def _climb(table: Floats, basis: list[int]) -> None:
    for turn in range(20_000):
        costs = table[-1, :-1]
        falling = np.flatnonzero(costs < -EPS)
        if len(falling) == 0:
            return
        column = int(falling[0]) if turn > 200 else int(costs.argmin())  # Bland's rule ends every cycle
        up = np.flatnonzero(table[:-1, column] > EPS)
        if len(up) == 0:
            raise ValueError("unbounded")
        ratios = table[up, -1] / table[up, column]
        tied = up[ratios <= ratios.min() + EPS]
        _pivot(table, basis, int(min(tied, key=lambda at: basis[at])), column)
    raise ValueError("the simplex method did not end")


def _pivot(table: Floats, basis: list[int], row: int, column: int) -> None:
    table[row] /= table[row, column]
    others = np.arange(len(table)) != row
    table[others] -= np.outer(table[others, column], table[row])
    basis[row] = column


def isolated(groups: Sequence[Collection[int]], size: int, k: int) -> tuple[int, ...] | None:
    """Fewer than k students, of whom alone some combination of the groups' exact sums is made; None if there are none.

    Such a combination is there if and only if the groups say less (in exact arithmetic) without these students.
    """
    matrix = [[int(student in group) for student in range(size)] for group in map(frozenset, groups)]
    whole = _rank(matrix)
    for those in combinations(range(size), k - 1):
        left = [[value for at, value in enumerate(row) if at not in those] for row in matrix]
        if _rank(left) < whole:
            return those
    return None


def _rank(matrix: Sequence[Sequence[int]]) -> int:
    rows = [list(row) for row in matrix]
    rank = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((at for at in range(rank, len(rows)) if rows[at][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        inverse = pow(rows[rank][column], -1, PRIME)
        for at in range(rank + 1, len(rows)):
            if factor := rows[at][column] * inverse % PRIME:
                rows[at] = [(a - factor * b) % PRIME for a, b in zip(rows[at], rows[rank], strict=True)]
        rank += 1
    return rank
