"""The machine's faults: each ends in a message that says what to do, an intact published file, and a next sync that
recovers.

The disks, accounts and limits are real (`tests.support.processes.machines`). The published tables equal the slow
model's; the service's own faults are in `test_bad_service`, killed writers in `test_kill`, damaged files in
`test_damage`.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rollbook.errors import BusyError, MachineError
from rollbook.health.finding import Level
from rollbook.night.stages import merge, snapshot
from rollbook.opened import Rollbook
from tests.support.nights import Expected, House, findings_of, landed, night
from tests.support.processes.machines import (
    Disk,
    as_nobody,
    in_another_process,
    open_below,
)
from tests.support.tiers import weekly
from tests.support.warehouses.recovery import recovered

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.every_feature]

STAGES = ("land", "snapshot", "merge", "publish")


def stages(rollbook: Rollbook) -> list[Callable[[], Any]]:
    """The stages of tonight's sync, to be called in turn."""
    results: dict[str, Any] = {}
    return [
        lambda: results.update(landed=landed(rollbook)),
        lambda: snapshot(rollbook.place, results["landed"], rollbook.settings, rollbook.clock()),
        lambda: results.update(merged=merge(rollbook.place)),
        lambda: rollbook.writer().publish(results["merged"]),
    ]


# --- the disk is full ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["land", weekly("snapshot"), "merge", weekly("publish")])
def test_a_full_disk_is_told_and_the_next_sync_recovers(
    small_disk: tuple[House, Disk], expected: Expected, stage: str
) -> None:
    house, mounted = small_disk
    before, rollbook = house.state(), house.rollbook()
    with pytest.raises(MachineError) as refused, ExitStack() as until_told, rollbook.writer().writing():
        *earlier, last = stages(rollbook)[: STAGES.index(stage) + 1]
        for work in earlier:
            work()
        until_told.enter_context(mounted.full())
        last()
    assert refused.value.message.startswith("The disk is full: 0 bytes are left")
    assert "Make room (`rollbook prune --dry-run` shows" in refused.value.message
    assert "Readers keep what was published" in refused.value.message
    published = "rollbook.duckdb"
    assert house.state()[published] == before[published]
    assert open_below(house.warehouse) == []
    recovered(house, expected)


# --- not writable ----------------------------------------------------------------------------------------


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another account takes root")
@pytest.mark.parametrize("ours", [".", weekly("raw"), weekly("snapshots/students"), weekly("build")], ids=str)
def test_a_warehouse_of_another_account_is_said(after_two_nights: House, expected: Expected, ours: str) -> None:
    """Everything, or a folder that somebody made as root."""
    if ours != ".":
        for path in (
            after_two_nights.warehouse.parent,
            after_two_nights.warehouse,
            *after_two_nights.warehouse.rglob("*"),
        ):
            os.chown(path, 65534, 65534)
        shutil.chown(after_two_nights.warehouse / ours, 0, 0)
        (after_two_nights.warehouse / ours).chmod(0o555)
    refused = in_another_process(after_two_nights.sync, first=as_nobody)
    assert isinstance(refused, MachineError), refused
    assert "This account (nobody) may not use" in refused.message
    assert f"chown -R nobody {after_two_nights.warehouse}" in refused.message
    (finding,) = in_another_process(
        lambda: [f for f in findings_of(after_two_nights.rollbook()) if f.what == "files"], first=as_nobody
    )
    assert finding.level is Level.FAILED
    recovered(after_two_nights, expected)  # root may


# --- other writers at the same time
# -----------------------------------------------------------------------------------------


def test_a_published_file_that_an_analyst_opened_for_writing_is_said(
    after_two_nights: House, expected: Expected
) -> None:
    """Readers with a read-only connection are never in the way."""
    context = multiprocessing.get_context("fork")
    ready, over = context.Event(), context.Event()
    analyst = context.Process(target=_hold_open, args=(after_two_nights.published, ready, over), daemon=True)
    analyst.start()
    try:
        assert ready.wait(10)
        with pytest.raises(BusyError, match="Another program has rollbook.duckdb open for writing. Close it there"):
            after_two_nights.sync()
    finally:
        over.set()
        analyst.join(10)
    recovered(after_two_nights, expected)


def _hold_open(published: Path, ready: Any, over: Any) -> None:
    import duckdb

    with duckdb.connect(published):
        ready.set()
        over.wait(30)


# --- the clock -------------------------------------------------------------------------------------------------------


def test_a_clock_set_back_fetches_nothing_and_says_so(after_two_nights: House, expected: Expected) -> None:
    """Else tonight's records would be filed under a day that is long over, and change what was known of that day."""
    before, now = after_two_nights.state(), after_two_nights.now
    after_two_nights.service.now = lambda: now
    after_two_nights.service.requests.clear()
    after_two_nights.now -= timedelta(days=2)
    with pytest.raises(MachineError) as refused:
        after_two_nights.sync()
    assert refused.value.message.startswith(f"The clock of this machine says {night(1)} 02:15 UTC, which is before its")
    assert "Nothing was fetched: set the clock right, then run `rollbook sync`." in refused.value.message
    assert [r.path for r in after_two_nights.service.requests] == ["auth"]
    assert after_two_nights.state() == before
    assert len(after_two_nights.landings(night(1))) == 1
    after_two_nights.now = now
    recovered(after_two_nights, expected)
