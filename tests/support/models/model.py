"""A slow and obvious model of the history in plain Python, with which DuckDB must agree.

`versions` folds what the landings state of one table, landing by landing and day by day, with a loop that a person can
read (G7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any

from rollbook.flatten.rows import shape
from rollbook.tables import SETS, TABLES, Table

Row = tuple[Any, ...]
# A record's rows in a table, by key; None when the record did not mention the table.
Stated = dict[Row, Row] | None
# In a row, a value that was refused: as an earlier landing of the day stated it, or else NULL.
REFUSED = object()
# Key, tracked values, valid_from, valid_to.
Version = tuple[Row, Row, date, date | None]


@contextmanager
def only(watched: Mapping[str, Table]) -> Iterator[None]:
    """Declare few tables as long as the block lasts: the rest run the same code and take as much time again."""
    for name in SETS.keys() - {"details"}:
        shape(name)  # kept from now on, for all tables
    declared = dict(TABLES)
    try:
        TABLES.clear()
        TABLES.update(watched, student_details=declared["student_details"])  # which a landing may fill by itself
        yield
    finally:
        TABLES.clear()
        TABLES.update(declared)


@dataclass(frozen=True)
class Shown:
    """A landing of a set: per id the statement about each table, or None when the record was refused.

    `absent` are the ids that the landing states absent. By default those are, if the set was `proven`, all that it does
    not list: so it is where all that was known before was current, and was searched for in vain.
    """

    day: date
    landing: int
    proven: bool
    records: dict[int, dict[str, Stated] | None]
    absent: frozenset[int] | None = None

    def states_absent(self, number: int) -> bool:
        """Whether the landing states a record absent."""
        return self.proven and number not in self.records if self.absent is None else number in self.absent


def versions(shown: Iterable[Shown], table: str) -> set[Version]:
    """Every version of a table: a row that holds at the end of a day, and no longer at the end of a later day.

    Landings are folded in order, of whatever day: each statement overlays what was known, and what is stated absent
    ends. A refused record and an unstated table leave what was known, and a refused value what the day has stated.
    """
    rows_seen: set[Version] = set()
    stated: dict[int, dict[Row, Row]] = {}
    open_rows: dict[Row, tuple[Row, date]] = {}
    for day, landings in groupby(sorted(shown, key=lambda s: (s.day, s.landing)), key=lambda s: s.day):
        of_day: dict[int, dict[Row, Row]] = {}
        for one in landings:
            stated = {number: rows for number, rows in stated.items() if not one.states_absent(number)}
            of_day = {number: rows for number, rows in of_day.items() if not one.states_absent(number)}
            for number, tables in one.records.items():
                if (rows := (tables or {}).get(table)) is not None:
                    before = of_day.setdefault(number, {})
                    stated[number] = {key: _whole(value, before.get(key)) for key, value in rows.items()}
                    before.update(stated[number])
        holds = {key: value for rows in stated.values() for key, value in rows.items()}
        for key, (value, since) in list(open_rows.items()):
            if holds.get(key) != value:
                rows_seen.add((key, value, since, day))
                del open_rows[key]
        for key, value in holds.items():
            open_rows.setdefault(key, (value, day))
    return rows_seen | {(key, value, since, None) for key, (value, since) in open_rows.items()}


def _whole(row: Row, before: Row | None) -> Row:
    """A row with its refused values as in the row `before`."""
    earlier = before or (None,) * len(row)
    return tuple(old if value is REFUSED else value for value, old in zip(row, earlier, strict=True))


def changes(versions_: set[Version], columns: tuple[str, ...]) -> set[Row]:
    """The change log of one table: (day, key, change, column, old, new)."""
    log: set[Row] = set()
    for key in {v[0] for v in versions_}:
        before: Version | None = None
        for version in sorted((v for v in versions_ if v[0] == key), key=lambda v: v[2]):
            _, value, since, _until = version
            if before is not None and before[3] == since:
                log |= {
                    (since, key, "changed", column, old, new)
                    for column, old, new in zip(columns, before[1], value, strict=True)
                    if old != new
                }
            else:
                if before is not None:
                    log.add((before[3], key, "removed", None, None, None))
                log.add((since, key, "added" if before is None else "returned", None, None, None))
            before = version
        if before is not None and before[3] is not None:
            log.add((before[3], key, "removed", None, None, None))
    return log
