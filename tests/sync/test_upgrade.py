"""A warehouse made by an earlier version is upgraded by its next sync, and nothing that it said is lost.

The fixture was made by version 0.1.0: seven nights with a removal, an unstated list, an unproven walk, an approved
hold, a discarded landing, a refused record, an unknown field, and two days that have expired.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from pipelines.settings import ROOT
from pipelines.store.lake import DAYS, OBSERVED
from pipelines.store.schema import declared
from pipelines.tables import TABLES
from tests.support.nights import House, night
from tests.support.records import MISSING, classes, student, students
from tests.support.wire.service import Service

FIXTURE = ROOT / "tests" / "support" / "fixtures" / "warehouse-0.1.0.tar.zst"
# What the service showed on the seventh night.
SHOWN = [
    student(1, name="Renamed Pupil"),
    *students(40)[1:20],
    student(21, email=MISSING),
    student(22, favourite_colour="green"),
]
LAST = 7
KEEP = 4


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with pa.input_stream(str(FIXTURE), compression="zstd") as packed, tarfile.open(fileobj=packed, mode="r|") as tar:
        tar.extractall(tmp_path, filter="data")
    with Service(SHOWN, classes(2)) as service:
        yield House(tmp_path / "warehouse", service, keep_days=KEEP).at(LAST + 1)


def test_the_next_sync_upgrades_it_and_changes_no_row(house: House) -> None:
    before, syncs = house.tables(), house.query("SELECT * EXCLUDE (students, classes) FROM ops.syncs ORDER BY ALL")
    received = house.query("SELECT snapshot_date, landing, students, classes FROM ops.syncs ORDER BY ALL")
    assert house.sync().manifest.proven
    assert house.tables() == before
    assert house.query(f"SELECT * FROM ops.syncs WHERE snapshot_date <= '{night(LAST)}' ORDER BY ALL") == syncs
    assert (
        house.query(
            "SELECT snapshot_date, landing, MAX(received) FILTER (set_name = 'students'),"
            " MAX(received) FILTER (set_name = 'classes')"
            f" FROM ops.sync_sets WHERE snapshot_date <= '{night(LAST)}' GROUP BY ALL ORDER BY ALL"
        )
        == received
    )
    there = house.query("SELECT schema_name, table_name FROM duckdb_tables() ORDER BY ALL")
    assert there == sorted((r.schema, r.name) for r in declared())


def test_its_days_can_be_read_before_and_after(house: House) -> None:
    before = house.rollbook().lake.days()
    assert list(before) == [night(n) for n in range(3, LAST + 1)]
    house.sync()
    after = house.rollbook().lake.days()
    assert list(after) == [night(n) for n in range(4, LAST + 2)]  # the third expired with this sync
    for day in (d for d in after if d <= night(LAST)):
        assert (after[day].digest, after[day].landings) == (before[day].digest, before[day].landings)
        assert after[day].sizes.keys() == before[day].sizes.keys() | {DAYS}


def test_a_day_whose_record_cannot_be_read_is_composed_again(house: House) -> None:
    before = house.tables()
    spoiled = house.warehouse / "snapshots" / OBSERVED / f"snapshot_date={night(5)}" / "day.json"
    spoiled.write_bytes(spoiled.read_bytes()[:20])
    house.sync()
    assert house.tables() == before
    assert night(5) in house.rollbook().lake.days()
    assert not list((house.warehouse / "snapshots").rglob("*/day.json"))


def test_every_folder_of_the_lake_opens_as_one_parquet_table_in_any_engine(house: House) -> None:
    """As Spark and its like open it: what begins with an underscore is passed over, the date has a given type."""
    house.sync()
    lake = house.warehouse / "snapshots"
    assert sorted(p.name for p in lake.iterdir()) == sorted([*TABLES, OBSERVED, DAYS])
    by_date = ds.partitioning(pa.schema([("snapshot_date", pa.date32())]), flavor="hive")
    opened = {
        p.name: ds.dataset(p, format="parquet", partitioning=by_date, exclude_invalid_files=False).to_table()
        for p in lake.iterdir()
    }
    days = list(house.rollbook().lake.days())
    assert sorted(set(opened[DAYS]["snapshot_date"].to_pylist())) == days
    # A day stays on disk for a night after it has left the views.
    shown = house.query("SELECT DISTINCT snapshot_date FROM snapshots.students ORDER BY 1")
    assert [(day,) for day in days[1:]] == shown
    for table in TABLES.values():
        rows = [day for day in opened[table.name]["snapshot_date"].to_pylist() if day in days[1:]]
        assert [(len(rows),)] == house.query(f"SELECT COUNT(*) FROM snapshots.{table.name}")
    proven = {(r["snapshot_date"], r["set_name"]) for r in opened[DAYS].to_pylist() if r["proven"]}
    observed = opened[OBSERVED].filter(pa.compute.equal(opened[OBSERVED]["state"], "proven"))
    assert proven == {(r["snapshot_date"], r["set_name"]) for r in observed.to_pylist()}
