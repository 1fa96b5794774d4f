"""The sandbox's fortnight in any order makes the same tables (G7). The campaign plays the rest."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from rollbook.night.stages import merge, publish
from rollbook.night.writing import writer
from tests.support.nights import approve_held, folder
from tests.support.warehouses.fortnight import (
    DAYS,
    HELD,
    copied,
    copy,
    export,
    landed,
    rollbook,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS = ("main", "history", "spans")


@pytest.fixture(scope="module")
def source() -> Iterator[Path]:
    with landed() as (root, _):
        yield root


@pytest.fixture(scope="module")
def expected(source: Path) -> dict[str, str]:
    """The published tables of the nights, synced in order."""
    return export(source / "rollbook.duckdb")


@pytest.fixture
def warehouse(source: Path) -> Iterator[Path]:
    """A whole copy."""
    with copied(source) as root:
        yield root


@contextmanager
def arriving(source: Path, order: Sequence[date]) -> Iterator[Path]:
    """A new warehouse into which the days come in some order, each merged and published before the next is there."""
    with folder() as root:
        for day in order:
            book = rollbook(copy(source, root, [day]))
            with writer(book):
                publish(book, merge(book))
        yield root / "rollbook.duckdb"


def shuffled(seed: int) -> list[date]:
    return random.Random(seed).sample(DAYS, len(DAYS))


def test_days_arriving_in_any_order_make_the_same_bytes(source: Path, expected: dict[str, str]) -> None:
    with arriving(source, shuffled(1)) as published:
        assert export(published) == expected


def test_a_held_landing_counts_from_its_approval_on(warehouse: Path, source: Path) -> None:
    """Approved last of all, the landing is what it would have been: the last word on a day long past."""
    book = rollbook(warehouse)
    approve_held(book, HELD)
    late = export(warehouse / "rollbook.duckdb", RECORDS)
    assert late != export(source / "rollbook.duckdb", RECORDS)
    with arriving(warehouse, shuffled(4)) as published:
        assert export(published, RECORDS) == late
