"""One real daemon, a one-minute cron, a sandbox: nights are synced, killed workers and a power cut are survived."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from rollbook.assembly import assemble
from rollbook.night import sync
from rollbook.sandbox import Sandbox
from rollbook.settings import load
from tests.support.processes.machines import left_over
from tests.support.processes.servers import Served, serving, until
from tests.support.reading import rows
from tests.support.wire.listeners import webhook

pytestmark = [pytest.mark.timeout(900), pytest.mark.nights]


def under_way(served: Served) -> str | None:
    """A run whose process is known and that has come as far as fetching."""
    started = [run for run in served.runs() if run["status"] == "STARTED"]
    return next((run["runId"] for run in started if served.worker_of(run["runId"]) is not None), None)


def is_failed(served: Served, run_id: str) -> bool:
    return any(run["runId"] == run_id and run["status"] == "FAILURE" for run in served.runs())


def good_since(served: Served, moment: float) -> Callable[[], list[str]]:
    """The runs that began after a moment and went well."""
    return lambda: [r["runId"] for r in served.runs() if r["status"] == "SUCCESS" and (r["startTime"] or 0) > moment]


def published(warehouse: Path) -> int:
    """How many students are in the published file."""
    ((count,),) = rows(warehouse / "rollbook.duckdb", "SELECT COUNT(*) FROM students")
    return int(count)


def environment(sandbox: Sandbox, warehouse: Path) -> dict[str, str]:
    """Every minute is a night."""
    return {
        "ROLLBOOK_BASE_URL": sandbox.url,
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
            assert [r["tags"]["rollbook/sync"] for r in served.runs()][-1] == "nightly"
        assert published(warehouse) > 90


@pytest.mark.slow
def test_nights_come_in_though_workers_are_killed_and_the_power_fails(tmp_path: Path) -> None:
    warehouse, home = tmp_path / "warehouse", tmp_path / "home"
    with webhook() as hook, Sandbox(300, day=datetime.now(UTC).date()) as sandbox:
        # Each page takes a while, so that a run can be caught in the middle.
        env = environment(sandbox, warehouse) | {
            "ROLLBOOK_REQUEST_PAUSE_MS": "1500",
            "ROLLBOOK_NOTIFY": hook.url,
        }
        with serving(home, env) as served:
            # A night.
            until(good_since(served, 0), 200)
            listed = published(warehouse)
            assert listed > 290
            assert [r["tags"]["rollbook/sync"] for r in served.runs()][-1] == "nightly"

            # A worker killed in the middle: marked, and the next sync recovers.
            run = until(lambda: under_way(served), 150)
            killed = time.time()
            number = served.worker_of(run)
            assert number is not None
            os.kill(number, signal.SIGKILL)
            assert published(warehouse) == listed
            until(lambda: is_failed(served, run), 120)
            until(good_since(served, killed), 200)

            # A power cut: the daemon, the UI, the code servers and the worker, all at once.
            cut = until(lambda: under_way(served), 150)
            for number in served.family():
                os.kill(number, signal.SIGKILL)
            served.process.wait(20)
        assert published(warehouse) == listed
        light = time.time()
        with serving(home, env) as served:
            until(lambda: is_failed(served, cut), 150)
            until(good_since(served, light), 250)
        assert published(warehouse) == listed
        # The daemon was stopped in the middle of something; the next sync leaves nothing of that.
        first = date.fromisoformat(env["ROLLBOOK_FIRST_DATE"])
        sync(
            assemble(load(base_url=sandbox.url, api_key="sandbox-key", warehouse=warehouse, first_date=first)).writer()
        )
        assert left_over(warehouse) == []
        assert published(warehouse) == listed
    assert all("failed" in text or "again" in text for text in hook.texts)
