"""The sandbox's fortnight in any order, from `raw/` alone, and with a day missing (G7, G8).

Small histories in every order are in `tests/store/test_history_model.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import pytest

from rollbook.night import past
from rollbook.night.stages import merge, publish
from rollbook.night.writing import writer
from rollbook.operations import approvals
from rollbook.tables import TABLES
from tests.support.nights import folder
from tests.support.warehouses.fortnight import (
    DAYS,
    FIRST,
    HELD,
    LAST,
    UNPROVEN,
    copied,
    copy,
    export,
    lake,
    landed,
    rollbook,
    rows,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS = ("main", "history", "spans")


@pytest.fixture(scope="module")
def source() -> Iterator[Path]:
    with landed() as (made, _):
        yield made


@pytest.fixture(scope="module")
def expected(source: Path) -> dict[str, str]:
    """The published tables of the nights, synced in order."""
    return export(source / "rollbook.duckdb")


@pytest.fixture
def warehouse(source: Path) -> Iterator[Path]:
    """A whole copy."""
    with copied(source) as made:
        yield made


@contextmanager
def arriving(source: Path, order: Sequence[date]) -> Iterator[Path]:
    """A new warehouse into which the days come in some order, each merged and published before the next is there."""
    with folder() as made:
        for day in order:
            book = rollbook(copy(source, made, [day]))
            with writer(book):
                publish(book, merge(book))
        yield made / "rollbook.duckdb"


def shuffled(seed: int) -> list[date]:
    return random.Random(seed).sample(DAYS, len(DAYS))


def test_days_arriving_in_any_order_make_the_same_bytes(source: Path, expected: dict[str, str]) -> None:
    with arriving(source, shuffled(1)) as published:
        assert export(published) == expected


def test_each_landed_day_is_remembered_as_it_was_landed(source: Path) -> None:
    """Of the tables that every record states, the day's snapshot is the whole truth."""
    published = source / "rollbook.duckdb"
    for table in TABLES.values():
        if table.may_be_unstated or table.set == "details":
            continue
        columns = ", ".join(c.name for c in table.versioned)
        for day in (*DAYS[::4], HELD, UNPROVEN, LAST):
            then = rows(published, f"SELECT * FROM {table.name}_as_of($1) ORDER BY ALL", day)
            shown = f"SELECT {columns} FROM snapshots.{table.name} WHERE snapshot_date = $1 ORDER BY ALL"
            assert then == rows(published, shown, day), (table.name, day)
        assert rows(published, f"SELECT * FROM {table.name}_as_of($1)", FIRST - timedelta(days=1)) == []
        later = rows(published, f"SELECT * FROM {table.name}_as_of($1) ORDER BY ALL", LAST + timedelta(days=99))
        assert later == rows(published, f"SELECT {columns} FROM main.{table.name} ORDER BY ALL")
    logged = "SELECT COUNT(*) FROM changes WHERE snapshot_date > $1 AND snapshot_date <= $2"
    between = rows(published, "SELECT COUNT(*) FROM changes_between($1, $2)", DAYS[3], DAYS[9])
    assert between == rows(published, logged, DAYS[3], DAYS[9]) != [(0,)]


def test_a_rebuild_from_raw_alone_equals_the_live_tables(source: Path, expected: dict[str, str]) -> None:
    with copied(source, DAYS) as made:
        past.rebuild(rollbook(made))
        assert export(made / "rollbook.duckdb") == expected
        assert lake(made) == lake(source)


def test_a_held_landing_counts_from_its_approval_on(warehouse: Path, source: Path) -> None:
    """Approved last of all, the landing is what it would have been: the last word on a day long past."""
    book = rollbook(warehouse)
    approvals.approve(book, HELD)
    late = export(warehouse / "rollbook.duckdb", RECORDS)
    assert late != export(source / "rollbook.duckdb", RECORDS)
    with arriving(warehouse, shuffled(4)) as published:
        assert export(published, RECORDS) == late
