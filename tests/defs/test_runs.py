"""Runs whose process is gone are marked as failed, so that no later night waits; other runs are left alone."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import dagster as dg
import pytest

from rollbook.cli import serve
from rollbook.defs import runs
from rollbook.errors import RollbookError
from tests.support import graph
from tests.support.processes.machines import in_another_process
from tests.support.processes.servers import free_port
from tests.support.wire.service import KEY

pytestmark = pytest.mark.nights

STARTED, FAILURE = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE


def test_a_run_that_died_together_with_dagster_is_marked_as_failed(tmp_path: Path) -> None:
    """Others are left alone. `run_monitoring` cannot tell them apart: Dagster's launcher has no check of health."""
    job = dg.GraphDefinition(name="nothing").to_job()
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides={"telemetry": {"enabled": False}}) as instance:
        ours, of_a_child, elsewhere = (instance.create_run_for_job(job, status=STARTED).run_id for _ in range(3))
        runs.mark_as_mine(instance, ours)
        lock = runs.run_lock(instance, of_a_child)
        lock.parent.mkdir(parents=True, exist_ok=True)
        hold = f"import filelock\nwith filelock.FileLock({str(lock)!r}):\n  print(1, flush=True)\n  input()"
        child = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        runs.fail_orphaned_runs(instance)
        assert {run.status for run in instance.get_runs()} == {STARTED}
        child.kill()
        child.communicate()
        runs.fail_orphaned_runs(instance)
        assert not instance.run_launcher.supports_check_run_worker_health
        statuses = {run.run_id: run.status for run in instance.get_runs()}
        assert statuses == {ours: STARTED, of_a_child: FAILURE, elsewhere: STARTED}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Dagster home, and settings of a service, its key in a file: a secret would begin the process anew."""
    (key := tmp_path / "key").write_text(KEY)
    settings = {"ROLLBOOK_BASE_URL": graph.EXAMPLE["ROLLBOOK_BASE_URL"], "ROLLBOOK_API_KEY_FILE": str(key)}
    for name, value in {**settings, "DAGSTER_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_the_server_makes_the_records_before_it_starts_what_needs_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    started, there = serve.child_process, list[bool]()

    def child(command: list[str]) -> AbstractContextManager[subprocess.Popen[bytes]]:
        there.append((home / "schedules" / "schedules.db").exists())
        return started(command if len(there) == 1 else [sys.executable, "-c", ""])

    def served() -> list[bool]:
        # In a process of its own: at its end, a server kills what its process has started.
        with pytest.raises(RollbookError, match="ended by itself"):
            serve.serve(port=free_port())
        return there

    monkeypatch.setattr(serve, "child_process", child)
    assert in_another_process(served) == [False, True, True, True]


def test_records_that_do_not_open_end_the_server_with_a_sentence(home: Path) -> None:
    (home / "dagster.yaml").write_text("no_such_setting: 1\n")
    refused = in_another_process(lambda: serve.serve(port=free_port()))
    assert isinstance(refused, RollbookError), refused
    assert re.search("Dagster's records do not open; .* `rollbook doctor`", refused.message)
