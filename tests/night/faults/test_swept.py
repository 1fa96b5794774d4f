"""What a killed writer left in the build folder is gone after the next night, whatever it is."""

from __future__ import annotations

import random

import pytest

from tests.support.nights import Expected, House
from tests.support.warehouses.recovery import recovered

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]


@pytest.mark.story
def test_anything_in_the_build_folder_is_swept_away(after_two_nights: House, expected: Expected) -> None:
    build = after_two_nights.warehouse / "build"
    for name in ("next.duckdb", "next.duckdb.wal", "writer.txt", "spill/duckdb_temp_storage-0.tmp"):
        (build / name).write_bytes(random.Random(name).randbytes(5000))
    for name in ("stage/landing=1", "day/students"):
        (build / name).mkdir(parents=True)
        (build / name / "part-0.parquet").write_bytes(b"garbage")
    recovered(after_two_nights, expected)
