"""The random numbers of the made-up institution: every random choice in it comes from here.

A draw is a pure function of (seed, stream, key, turn): no generator has state. So days can be requested in any order,
and a day is the same in every process.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_Bits = npt.NDArray[np.uint64]

# Odd constants with well mixed bits, so that neighbouring keys and turns give unrelated draws.
_KEY_STEP = np.uint64(0x9E3779B97F4A7C15)
_TURN_STEP = np.uint64(0xD1B54A32D192ED03)


def _mix(bits: _Bits) -> _Bits:
    """Apply SplitMix64's finaliser: each input bit flips about half of the output bits."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


class Rng:
    """Seeded, stateless random draws over whole arrays.

    `stream` names the purpose of a draw, `key` the entity it is for, and `turn` counts repeated draws.
    """

    def __init__(self, seed: int) -> None:
        self._start = lru_cache(maxsize=None)(lambda stream: _start(seed, stream))

    def _bits(self, stream: str, key: Ints, turn: Ints | int) -> _Bits:
        keys, turns = np.asarray(key).astype(np.uint64), np.asarray(turn, dtype=np.int64).astype(np.uint64)
        with np.errstate(over="ignore"):  # overflow is intended
            return _mix(_mix(self._start(stream) + keys * _KEY_STEP) + turns * _TURN_STEP)

    def share(self, stream: str, key: Ints, turn: Ints | int = 0) -> Floats:
        """Draw uniformly from [0, 1), one per key."""
        return (self._bits(stream, key, turn) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, stream: str, key: Ints, bound: Ints | int, turn: Ints | int = 0) -> Ints:
        """Draw uniformly from 0 .. bound - 1, one per key."""
        bounds = np.asarray(bound, dtype=np.int64).astype(np.uint64)
        return (self._bits(stream, key, turn) % bounds).astype(np.int64)

    def spread(self, stream: str, count: int, period: int) -> Ints:
        """Return a phase in 0 .. period - 1 for each of `count` entities, shuffled and evenly spaced.

        Even spacing ensures that a small school has a leaver in every fortnight and a mass change in no night: of
        `count` entities, count / period are due each day, give or take one.
        """
        ranks = np.empty(count, dtype=np.int64)
        ranks[np.argsort(self.share(stream, np.arange(count)), kind="stable")] = np.arange(count)
        return ranks * period // count


def _start(seed: int, stream: str) -> np.uint64:
    digest = hashlib.blake2b(f"{seed}/{stream}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "big"))
