"""What truly changed between two days of a school, and which students a table lacks. Pure.

Compares the school's own records, not what a tool made of them. What is tracked is as declared in `tables.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from pipelines.tables import TABLES

Record = dict[str, Any]

_encode = msgspec.json.Encoder(order="deterministic").encode

# A record without one of these says nothing about it, and so does not change it.
_UNSTATED = tuple({t.field for t in TABLES.values() if t.may_be_unstated})
# Field by field of a record: those that a clock moves, such as the days since the last activity.
_UNTRACKED = {t.field: {c.path[0] for c in t.untracked} for t in TABLES.values() if t.field}

# The hash of a part that is stated and empty.
_NOTHING = 1


class Changes(NamedTuple):
    """Records that are new or different on the second day: in anything at all, and in what is tracked."""

    anything: int
    tracked: int


@dataclass(frozen=True)
class Loss:
    """Against the listed students: how many a table of current students lacks, and how many it has that have left."""

    lost: int
    left: int


def loss(listed: Collection[int], current: Collection[int]) -> Loss:
    """Compare the students of the institution with those of a tool's table."""
    return Loss(lost=len(set(listed) - set(current)), left=len(set(current) - set(listed)))


def changed(before: Iterable[Record], after: Iterable[Record], key: str) -> Changes:
    """Count the records of one set that are new or different. A record that has left is in neither count."""
    known = {r[key]: _hashes(r) for r in before}
    anything = tracked_only = 0
    for record in after:
        new = _hashes(record)
        old = known.get(record[key], (None,) * len(new))
        anything += old[0] != new[0]
        # A part that was not stated and is empty now has no row to add.
        tracked_only += any(n is not None and n != (o or _NOTHING) for o, n in zip(old[1:], new[1:], strict=True))
    return Changes(anything, tracked_only)


def _hashes(record: Record) -> tuple[int | None, ...]:
    """Return a hash of the whole record, then one of each part of it that is tracked; None for a part not stated."""
    parts = (None if part is None else hash(_encode(part)) if part else _NOTHING for part in tracked(record))
    return (hash(_encode(record)), *parts)


def tracked(record: Record) -> list[Any]:
    """Return what is tracked of a record, in parts: first all that is always stated, then what may be unstated.

    Without untracked fields, null and missing alike, and lists in one order.
    """
    stated = {name: _plain(name, value) for name, value in record.items() if value is not None}
    rest = {name: value for name, value in stated.items() if name not in _UNSTATED}
    return [rest, *(stated.get(name) for name in _UNSTATED)]


def _plain(name: str, value: Any) -> Any:
    """Return a field's value without what is untracked and without nulls, a list in one order."""
    if isinstance(value, dict):
        untracked = _UNTRACKED.get(name, set())
        return {k: v for k, v in value.items() if v is not None and k not in untracked}
    return sorted(value, key=_encode) if isinstance(value, list) else value
