"""Killing the writer, with SIGKILL, at any instant: readers keep a whole file, and the next sync repairs what is left.

The writers are real processes on one warehouse. A twin that nobody disturbed, on the same sandbox, says what the
tables must be in the end (G7, G10 and G14).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest
from filelock import FileLock

from rollbook.night import past, sync
from rollbook.night.past import always
from rollbook.sandbox import Sandbox
from rollbook.tables import TABLES
from tests.support.nights import folder
from tests.support.processes.kills import Job, killed_or_done, start
from tests.support.tiers import weekly
from tests.support.warehouses.days import FIRST, KEY, copy, export, lake, rollbook

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.every_feature]

RECORDS = ("main", "history", "spans")
# A sync after a killed sync has to heal first, and takes some thirty steps.
MAX_STEPS = 80


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(60, day=FIRST, api_key=KEY) as sandbox:
        yield sandbox


@pytest.fixture
def twin() -> Iterator[Path]:
    with folder() as root:
        yield root


@pytest.fixture
def victim() -> Iterator[Path]:
    with folder() as root:
        yield root


def read(warehouse: Path) -> date | None:
    """Open the published file as an analyst does and read everything; returns the last day. None before the first."""
    published = warehouse / "rollbook.duckdb"
    if not published.exists():
        return None
    with duckdb.connect(published, read_only=True) as con:
        for name in TABLES:
            current, still, _ = con.execute(
                f"""SELECT (SELECT COUNT(*) FROM {name}), COUNT(*) FILTER (valid_to IS NULL), BIT_XOR(HASH(h))
                    FROM history.{name} AS h"""
            ).fetchall()[0]
            assert current == still, f"{name}: {current} current rows, {still} open versions"
            con.execute(f"SELECT BIT_XOR(HASH(s)) FROM {name} AS s").fetchall()
            con.execute(f"SELECT COUNT(*), MAX(snapshot_date) FROM snapshots.{name}").fetchall()
        (last,) = con.execute("SELECT MAX(snapshot_date) FROM ops.syncs WHERE outcome = 'synced'").fetchall()[0]
        (merged,) = con.execute("SELECT MAX(snapshot_date) FROM spans.days").fetchall()[0]
        assert merged == last
        con.execute("SELECT COUNT(*), BIT_XOR(HASH(c)) FROM changes AS c").fetchall()
        return date.fromisoformat(str(last))


def tables(warehouse: Path) -> dict[str, str]:
    """The digests of all tables, but for the table of the days, which tells of landings, of which killed syncs leave
    more.
    """
    digests = export(warehouse / "rollbook.duckdb", RECORDS)
    return {name: digest for name, digest in digests.items() if not name.startswith("spans.days")}


def assert_nothing_left(warehouse: Path) -> None:
    """No lock, and no file that anybody began."""
    lock = FileLock(warehouse / "build" / "writer.lock")
    lock.acquire(timeout=0)
    lock.release()
    build = warehouse / "build"
    there = {str(p.relative_to(build)) for p in build.rglob("*") if p.is_file()}
    assert there == {"writer.lock", "writer.txt"}
    assert [p for p in warehouse.rglob(".*") if p.name != "."] == []
    for part in (warehouse / "raw").glob("*/*"):
        assert {p.name for p in part.iterdir()} == {"bodies.zst", "pages.jsonl", "manifest.json"}
    for day in (warehouse / "snapshots").glob("*/*"):
        expected = {"part-0.parquet"} | ({"_day.json"} if day.parent.name == "observed" else set())
        assert {p.name for p in day.iterdir()} == expected


@pytest.mark.parametrize("apart", [6, weekly(1)])
def test_a_sync_killed_before_a_step_is_recovered_by_the_next(
    sandbox: Sandbox, twin: Path, victim: Path, apart: int
) -> None:
    """A random instant may miss the narrow places, between two renames; each step in turn misses none."""
    last = FIRST + timedelta(days=1)
    for day in (FIRST, last):
        sandbox.day = day
        sync(rollbook(twin, sandbox.url, today=day).writer(), day)
    copy(twin, victim)
    for pattern in ("raw", "snapshots/*"):
        for folder_of_day in victim.glob(f"{pattern}/snapshot_date={last}"):
            shutil.rmtree(folder_of_day)
    past.rebuild(rollbook(victim, today=FIRST).writer(), confirm=always, accept_loss=True)
    for step in range(1, MAX_STEPS, apart):
        killed = killed_or_done(start(Job("sync", victim, sandbox.url, last, last), die_at=step))
        assert read(victim) in (FIRST, last)
        if not killed:
            break
    else:
        pytest.fail(f"a sync has more than {MAX_STEPS} steps")
    assert step > 10
    assert_nothing_left(victim)
    assert tables(victim) == tables(twin)
    assert lake(victim).keys() == lake(twin).keys()
