"""A slow and obvious model of the history in plain Python, with which DuckDB must agree.

`days_of` puts together what the landings of each day state, in whatever order they came (G7); `versions` folds one
table's days into versions, key by key, with a loop that a person can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from pipelines.tables import Table

Row = tuple[Any, ...]
# A record's rows in one table, by key; None when it did not mention the table.
Stated = dict[Row, Row] | None
# Key, tracked values, valid_from, valid_to.
Version = tuple[Row, Row, date, date | None]


def only(watched: Mapping[str, Table], patch: pytest.MonkeyPatch) -> None:
    """Give Rollbook these tables only: the others run the same code and take as much time again."""
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
    records: dict[int, dict[str, Stated] | None]


# One day: what it states of each table and record; no rows where the record is absent.
Day = dict[tuple[str, int], dict[Row, Row]]


def days_of(shown: list[Shown]) -> dict[date, Day]:
    """Each day as the fold of its landings: each overlays what it states; a proven one states the rest absent."""
    days: dict[date, Day] = {}
    tables = {table for one in shown for stated in one.records.values() for table in stated or ()}
    everyone = {number for one in shown for number in one.records}
    for one in sorted(shown, key=lambda s: (s.day, s.landing)):
        day = days.setdefault(one.day, {})
        if one.proven:
            day |= {(table, number): {} for table in tables for number in everyone - one.records.keys()}
        for number, stated in one.records.items():
            day |= {(table, number): rows for table, rows in (stated or {}).items() if rows is not None}
    return days


def versions(days: dict[date, Day], table: str) -> set[Version]:
    """Every version of one table."""
    found: set[Version] = set()
    for number in {n for day in days.values() for t, n in day if t == table}:
        open_rows: dict[Row, tuple[Row, date]] = {}
        for when, day in sorted(days.items()):
            if (table, number) not in day:
                continue
            rows = day[table, number]
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
    found: set[Row] = set()
    for key in {v[0] for v in versions_}:
        before: Version | None = None
        for version in sorted((v for v in versions_ if v[0] == key), key=lambda v: v[2]):
            _, value, since, _until = version
            if before is not None and before[3] == since:
                found |= {
                    (since, key, "changed", column, old, new)
                    for column, old, new in zip(columns, before[1], value, strict=True)
                    if old != new
                }
            else:
                if before is not None:
                    found.add((before[3], key, "removed", None, None, None))
                found.add((since, key, "added" if before is None else "returned", None, None, None))
            before = version
        if before is not None and before[3] is not None:
            found.add((before[3], key, "removed", None, None, None))
    return found
