"""The sandbox's days in any order make the same tables (G7). The campaign plays the rest."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from rollbook.night.stages import merge
from tests.support.nights import approve_held, folder
from tests.support.warehouses.days import DAYS, HELD, copy, export, landed, rollbook

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(600)]

RECORDS = ("main", "history", "spans")


@contextmanager
def arriving(source: Path, order: Sequence[date]) -> Iterator[Path]:
    """A new warehouse into which the days come in some order, each merged and published before the next is there."""
    with folder() as root:
        for day in order:
            book = rollbook(copy(source, root, [day]))
            with book.writer().writing():
                book.writer().publish(merge(book.place))
        yield root / "rollbook.duckdb"


def test_days_arriving_in_any_order_make_the_same_bytes() -> None:
    """One landing was approved last of all, and still counts in the order of landing."""
    with landed() as (warehouse, _):
        published = warehouse / "rollbook.duckdb"
        before = export(published, RECORDS)
        approve_held(rollbook(warehouse), HELD)
        expected = export(published)
        assert not before.items() <= expected.items()
        with arriving(warehouse, random.Random(1).sample(DAYS, len(DAYS))) as again:
            assert export(again) == expected
