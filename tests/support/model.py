"""The slow, obvious model of the history function, in plain Python: what DuckDB must agree with.

A story is a list of landings in any order. `days_of` puts each day's statement together (G7); `versions` folds
one table's statements, key by key, with a loop a person can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest

from pipelines.tables import Table

Row = tuple[Any, ...]
# What a record stated about one table: its rows by key; None when it was silent about it.
Said = dict[Row, Row] | None
# Key, tracked values, valid_from, valid_to.
Version = tuple[Row, Row, date, date | None]


def only(watched: Mapping[str, Table], patch: pytest.MonkeyPatch) -> None:
    """Let Rollbook have these tables only: the others come by the same code, and an example costs as much again."""
    for module in ("history.engine", "lake", "schema", "compare"):
        patch.setattr(f"pipelines.store.{module}.TABLES", watched)
    for module in ("store.lake", "store.compare", "store.warehouse", "flatten.rows"):
        patch.setattr(f"pipelines.{module}.of_set", lambda name: tuple(t for t in watched.values() if t.set == name))


@dataclass(frozen=True)
class Shown:
    """One landing of one set: per id what it stated of each table, or None when the record was refused."""

    day: date
    landing: int
    proven: bool
    records: dict[int, dict[str, Said] | None]


@dataclass
class Day:
    """One day's statement: what was seen of each record, what each said, whether the rest is absent."""

    proven: bool = False
    seen: set[int] = field(default_factory=set)
    said: dict[tuple[str, int], dict[Row, Row]] = field(default_factory=dict)


def days_of(shown: list[Shown]) -> dict[date, Day]:
    """The last proven landing of each day, overlaid by the later unproven ones."""
    days: dict[date, Day] = {}
    for one in sorted(shown, key=lambda s: (s.day, s.landing)):
        day = days.setdefault(one.day, Day())
        if one.proven:
            day = days[one.day] = Day(proven=True)
        for number, tables in one.records.items():
            day.seen.add(number)
            for table, rows in (tables or {}).items():
                if rows is not None:
                    day.said[table, number] = rows
    return days


def versions(days: dict[date, Day], table: str) -> set[Version]:
    """Every version of one table."""
    found: set[Version] = set()
    for number in {n for day in days.values() for t, n in day.said if t == table}:
        open_rows: dict[Row, tuple[Row, date]] = {}
        for when, day in sorted(days.items()):
            if (table, number) in day.said:
                rows = day.said[table, number]
            elif day.proven and number not in day.seen:
                rows = {}
            else:
                continue
            for key, (value, since) in list(open_rows.items()):
                if rows.get(key) != value:
                    found.add((key, value, since, when))
                    del open_rows[key]
            for key, value in rows.items():
                open_rows.setdefault(key, (value, when))
        found |= {(key, value, since, None) for key, (value, since) in open_rows.items()}
    return found


def changes(versions_: set[Version], columns: tuple[str, ...]) -> set[Row]:
    """The change log of one table: (day, key, change, column, old, new)."""
    told: set[Row] = set()
    for key in {v[0] for v in versions_}:
        before: Version | None = None
        for version in sorted((v for v in versions_ if v[0] == key), key=lambda v: v[2]):
            _, value, since, _until = version
            if before is not None and before[3] == since:
                told |= {
                    (since, key, "changed", column, old, new)
                    for column, old, new in zip(columns, before[1], value, strict=True)
                    if old != new
                }
            else:
                if before is not None:
                    told.add((before[3], key, "removed", None, None, None))
                told.add((since, key, "added" if before is None else "returned", None, None, None))
            before = version
        if before is not None and before[3] is not None:
            told.add((before[3], key, "removed", None, None, None))
    return told
