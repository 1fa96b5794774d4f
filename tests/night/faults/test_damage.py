"""Damaged files: each is noticed, is never published or read as something else, and is made good by the next sync
or by what the message says.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import pytest

from rollbook.errors import DamagedError
from rollbook.night.stages import merge, snapshot
from rollbook.store.lake import DayRecord, Lake
from tests.support.nights import Expected, House, landed, night
from tests.support.reading import writable
from tests.support.tiers import weekly
from tests.support.warehouses.recovery import recovered

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.every_feature]


def test_a_corrupt_build_file_is_never_published(after_two_nights: House, expected: Expected) -> None:
    """Damage in the next file between merge and publish: the publish fails and says what to run."""
    before, rollbook = after_two_nights.state()["rollbook.duckdb"], after_two_nights.rollbook()
    with pytest.raises(DamagedError, match="next.duckdb cannot be read: run"), rollbook.writer().writing():
        snapshot(rollbook.place, landed(rollbook), rollbook.settings, rollbook.clock())
        merged = merge(rollbook.place)
        rollbook.warehouse.next.write_bytes(b"garbage" * 1000)
        rollbook.writer().publish(merged)
    assert after_two_nights.state()["rollbook.duckdb"] == before
    recovered(after_two_nights, expected)


def part(house: House, table: str) -> Path:
    """The file of a table's second day."""
    return house.warehouse / "snapshots" / table / f"snapshot_date={night(2)}" / "part-0.parquet"


@pytest.mark.parametrize("keep", [0.5, *map(weekly, (0, 4, 0.99))])
def test_a_truncated_parquet_file_is_made_again_by_the_next_sync(
    after_two_nights: House, expected: Expected, keep: float
) -> None:
    file = part(after_two_nights, "student_activity")
    whole = file.read_bytes()
    file.write_bytes(whole[: int(keep * len(whole)) if keep < 1 else int(keep)])
    recovered(after_two_nights, expected)
    assert file.read_bytes() == whole


def test_a_snapshot_is_not_merged_with_another_byte(after_two_nights: House, expected: Expected) -> None:
    """It would still be read: as a file of before the column was declared."""
    put = Lake.put

    def put_and_spoil(lake: Lake, record: DayRecord, paths: Mapping[str, Path]) -> None:
        put(lake, record, paths)
        file = lake.own("students", record.snapshot_date)
        file.write_bytes(file.read_bytes().replace(b"reference_id", b"reference_ie"))

    with patch.object(Lake, "put", put_and_spoil), pytest.raises(DamagedError, match="were damaged and have been"):
        after_two_nights.sync()
    recovered(after_two_nights, expected)


def scratched(content: bytes) -> bytes:
    """Only data are damaged: the file opens, and fails in the reading."""
    worn = bytearray(content)
    for place in range(262_144, len(worn) - 262_144, 131_072):
        worn[place : place + 64] = os.urandom(64)
    return bytes(worn)


@pytest.mark.parametrize("older", [True, False], ids=["from the one before", "from the lake"])
def test_a_damaged_published_file_is_remade_by_the_next_sync(
    after_two_nights: House, expected: Expected, older: bool
) -> None:
    if not older:
        after_two_nights.lose_kept()
    writable(after_two_nights.published).write_bytes(scratched(after_two_nights.published.read_bytes()))
    recovered(after_two_nights, expected)
