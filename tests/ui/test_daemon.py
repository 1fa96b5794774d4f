"""One real daemon, a one-minute cron, a sandbox: nights are synced, killed workers and a power cut are got over."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest

from pipelines.runs import PROCESS_TAG
from pipelines.sandbox import Sandbox
from pipelines.settings import load
from pipelines.sync import Rollbook
from tests.support.processes.machines import left_over
from tests.support.processes.servers import Served, serving, until
from tests.support.wire.listeners import webhook

pytestmark = pytest.mark.timeout(900)

RUNS = """query { runsOrError { ... on Runs { results { runId status startTime tags { key value } } } } }"""
TICKS = """query { scheduleOrError(scheduleSelector: {scheduleName: "nightly", repositoryName: "__repository__",
    repositoryLocationName: "rollbook"}) { ... on Schedule { scheduleState { ticks { timestamp status runIds } } } } }"""
SLOTS = "query { instance { concurrencyLimits { concurrencyKey activeSlotCount } } }"


def runs(served: Served) -> list[dict[str, Any]]:
    """All runs, the newest first."""
    found: list[dict[str, Any]] = served.ask(RUNS)["runsOrError"]["results"]
    return [{**r, "tags": {t["key"]: t["value"] for t in r["tags"]}} for r in found]


def under_way(served: Served) -> dict[str, Any] | None:
    """A run whose process is known and that has come as far as fetching."""
    return next((r for r in runs(served) if r["status"] == "STARTED" and worker_of(served, r) is not None), None)


def worker_of(served: Served, run: dict[str, Any]) -> int | None:
    """The process that does a run's work. Its tag is hidden from the UI."""
    assert PROCESS_TAG not in run["tags"]
    with dg.DagsterInstance.from_config(str(served.log.parent)) as instance:
        found = instance.get_run_by_id(run["runId"])
    tag = found.tags.get(PROCESS_TAG) if found else None
    return int(tag.split(":")[2]) if tag else None


def status(served: Served, run: dict[str, Any]) -> str:
    """What became of a run."""
    (found,) = (str(r["status"]) for r in runs(served) if r["runId"] == run["runId"])
    return found


def good_since(served: Served, moment: float) -> Callable[[], list[str]]:
    """The runs that began after a moment and went well."""
    return lambda: [r["runId"] for r in runs(served) if r["status"] == "SUCCESS" and (r["startTime"] or 0) > moment]


def published(warehouse: Path) -> tuple[int, int]:
    """Students and syncs in the published file."""
    with duckdb.connect(str(warehouse / "rollbook.duckdb"), read_only=True) as con:
        found = con.execute("SELECT (SELECT COUNT(*) FROM students), (SELECT COUNT(*) FROM ops.syncs)").fetchone()
    assert found is not None
    return found


def environment(sandbox: Sandbox, warehouse: Path) -> dict[str, str]:
    """Every minute is a night."""
    return {
        "ROLLBOOK_BASE_URL": sandbox.base_url,
        "ROLLBOOK_API_KEY": "sandbox-key",
        "ROLLBOOK_WAREHOUSE": str(warehouse),
        "ROLLBOOK_CRON": "* * * * *",
        "ROLLBOOK_FIRST_DATE": str(datetime.now(UTC).date() - timedelta(days=1)),
    }


def test_the_daemon_syncs_a_night_by_itself(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    with Sandbox(100, day=datetime.now(UTC).date()) as sandbox:
        with serving(tmp_path / "home", environment(sandbox, warehouse)) as served:
            until(good_since(served, 0), 300)
            assert [r["tags"]["rollbook/sync"] for r in runs(served)][-1] == "nightly"
        assert published(warehouse)[0] > 90


@pytest.mark.slow
@pytest.mark.soak
def test_nights_come_in_whatever_is_killed(tmp_path: Path) -> None:
    warehouse, home = tmp_path / "warehouse", tmp_path / "home"
    with webhook() as hook, Sandbox(300, day=datetime.now(UTC).date()) as sandbox:
        # Each page takes its time, so that a run can be caught in the middle.
        env = environment(sandbox, warehouse) | {
            "ROLLBOOK_REQUEST_PAUSE_MS": "1500",
            "ROLLBOOK_NOTIFY": hook.url,
        }
        with serving(home, env) as served:
            # A night.
            until(good_since(served, 0), 200)
            listed = published(warehouse)[0]
            assert listed > 290
            assert [r["tags"]["rollbook/sync"] for r in runs(served)][-1] == "nightly"

            # A worker killed in the middle: marked, the slot freed, the next sync recovers.
            worker = until(lambda: under_way(served), 150)
            killed = time.time()
            number = worker_of(served, worker)
            assert number is not None
            os.kill(number, signal.SIGKILL)
            assert published(warehouse)[0] == listed
            until(lambda: status(served, worker) == "FAILURE", 120)
            until(good_since(served, killed), 200)

            # A power cut: the daemon, the UI, the code servers and the worker, all at once.
            cut = until(lambda: under_way(served), 150)
            dark = time.time()
            for number in served.family():
                os.kill(number, signal.SIGKILL)
            served.process.wait(20)
        assert published(warehouse)[0] == listed
        time.sleep(max(0.0, dark + 130 - time.time()))  # two nights pass in the dark
        light = time.time()
        with serving(home, env) as served:
            until(lambda: status(served, cut) == "FAILURE", 150)
            until(good_since(served, light), 250)
            found = served.ask(TICKS)["scheduleOrError"]["scheduleState"]["ticks"]
            missed = [t for t in found if dark < t["timestamp"] < light - 1 and t["status"] == "SUCCESS"]
            assert len(missed) == 1, "of the nights in the dark the newest is caught up, once"
            assert {t["status"] for t in found} <= {"SUCCESS", "STARTED"}
            assert all(limit["activeSlotCount"] <= 1 for limit in served.ask(SLOTS)["instance"]["concurrencyLimits"])
        assert published(warehouse)[0] == listed
        # The daemon was stopped at whatever it was doing; the next sync leaves nothing of that.
        first = date.fromisoformat(env["ROLLBOOK_FIRST_DATE"])
        Rollbook(load(base_url=sandbox.base_url, api_key="sandbox-key", warehouse=warehouse, first_date=first)).sync()
        assert left_over(warehouse) == []
        assert published(warehouse)[0] == listed
    assert all("failed" in text or "again" in text for text in hook.texts)
