"""What truly changed between two days of a school, and which students a table lacks. Pure.

Computed from the school's own records, by a comparison that shares nothing with any tool's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipelines.tables import TABLES

Record = dict[str, Any]
Parts = Callable[[Record], dict[str, Any]]

# A record without one of these says nothing about it, and so does not change it.
_UNSTATED = tuple({t.field for t in TABLES.values() if t.may_be_unstated})
# Field by field of a record: those that a clock moves, such as the days since the last activity.
_UNTRACKED = {t.field: {c.path[0] for c in t.untracked} for t in TABLES.values() if t.field}


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
    known = {r[key]: (_hashed(whole(r)), _hashed(tracked(r))) for r in before}
    anything = tracked_only = 0
    for record in after:
        old = known.get(record[key], ({}, {}))
        anything += _differs(old[0], _hashed(whole(record)))
        tracked_only += _differs(old[1], _hashed(tracked(record)))
    return Changes(anything, tracked_only)


def whole(record: Record) -> dict[str, Any]:
    """Return the record in one part, as served."""
    return {"": record}


def tracked(record: Record) -> dict[str, Any]:
    """Return the record in parts that may be unstated each.

    Without untracked fields, null and missing alike, and lists in one order.
    """
    stated = {name: _plain(name, value) for name, value in record.items() if value is not None}
    rest = {name: value for name, value in stated.items() if name not in _UNSTATED}
    return {"": rest} | {name: stated[name] for name in _UNSTATED if name in stated}


def _plain(name: str, value: Any) -> Any:
    """Return a field's value without what is untracked and without nulls, a list in one order."""
    if isinstance(value, dict):
        untracked = _UNTRACKED.get(name, set())
        return {k: v for k, v in value.items() if v is not None and k not in untracked}
    return sorted(value, key=_text) if isinstance(value, list) else value


def _hashed(parts: dict[str, Any]) -> dict[str, int]:
    return {name: hash(_text(value)) for name, value in parts.items()}


def _differs(old: dict[str, int], new: dict[str, int]) -> bool:
    return any(old.get(name) != value for name, value in new.items())


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
