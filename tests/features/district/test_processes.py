"""The processes of a run: what each may know, and what is left when one or all of them are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import Pipe
from pathlib import Path

import pytest

from rollbook.features.district.worker import NightKind
from rollbook.util.imports import light_process
from tests.support.processes.commands import COMMAND
from tests.support.processes.servers import until
from tests.support.tiers import weekly
from tests.support.warehouses.district import District, new_district
from tests.support.wire import faults

pytestmark = [pytest.mark.timeout(240), pytest.mark.nights]


@pytest.fixture(scope="module")
def unsynced_district() -> Iterator[District]:
    with new_district(["ash", "birch"], "cedar") as district:
        yield district


def children(pid: int) -> set[int]:
    """The processes that a process has started, and those that they have."""
    numbers: set[int] = set()
    for task in Path("/proc").glob("[0-9]*"):
        number = int(task.name)
        if stat(number)[1:2] == [str(pid)]:
            numbers |= {number} | children(number)
    return numbers


def proc(pid: int, name: str) -> str:
    """The kernel's record of a process; nothing once it is gone."""
    try:
        return Path("/proc", str(pid), name).read_text(errors="replace")
    except OSError:
        return ""


def stat(pid: int) -> list[str]:
    """Its state, its parent and more."""
    return proc(pid, "stat").rpartition(")")[2].split()


def test_no_worker_has_a_key_in_its_environment_or_harms_another(unsynced_district: District) -> None:
    """A worker is killed while its service keeps it waiting; meanwhile all processes are looked at."""
    unsynced_district.hosts[1].on(faults.hang(60), path="auth", times=1)
    seen: set[int] = set()
    others = children(os.getpid())  # of earlier tests: Python's own tracker has the environment that it was started in
    keys = {school.key for school in unsynced_district.schools.values()}
    shown: list[int] = []

    def look() -> None:
        until(lambda: unsynced_district.asked()["cedar"], 100, 0.05)  # cedar's worker waits for its answer
        running = children(os.getpid()) - others
        seen.update(running)
        shown.extend(pid for pid in running if any(key in proc(pid, "environ") for key in keys))
        for pid in running:
            is_worker = proc(pid, "oom_score_adj").strip() == "500"
            if is_worker and connected_to(pid, unsynced_district.hosts[1].port):
                os.kill(pid, signal.SIGKILL)

    watcher = threading.Thread(target=look)
    watcher.start()
    outcomes = unsynced_district.night(1, jobs=3)
    watcher.join()
    assert len(seen) >= 3
    assert shown == []
    assert {name: o.kind for name, o in outcomes.items()} == {
        "ash": NightKind.SYNCED,
        "birch": NightKind.SYNCED,
        "cedar": NightKind.FAILED,
    }
    assert outcomes["cedar"].message.startswith(
        "Its process was ended from outside (SIGKILL), perhaps for lack of memory"
    )
    again = unsynced_district.night(1)
    assert {o.kind for o in again.values()} == {NightKind.SYNCED}
    assert [name for name, o in again.items() if o.fetched] == ["cedar"]


def is_gone(pid: int) -> bool:
    """Whether a process has ended, with all threads: before that, its parent is told of no end."""
    return stat(pid)[:1] in ([], ["Z"]) and len([*Path("/proc", str(pid), "task").glob("*")]) <= 1


def test_a_worker_killed_between_two_institutions_costs_neither(unsynced_district: District) -> None:
    others = children(os.getpid())

    def kill(*_: object) -> None:
        for pid in children(os.getpid()) - others:
            os.kill(pid, signal.SIGKILL)
            until(partial(is_gone, pid), 30, 0.05)

    outcomes = unsynced_district.night(2, jobs=1, done=kill)
    assert {outcome.kind for outcome in outcomes.values()} == {NightKind.SYNCED}


def connected_to(pid: int, port: int) -> bool:
    """Whether a process has a connection to this port of loopback."""
    wanted = f"0100007F:{port:04X}"
    rows = proc(pid, "net/tcp").splitlines()[1:]
    try:
        sockets = {str(fd.readlink()) for fd in Path("/proc", str(pid), "fd").iterdir()}
    except OSError:
        return False
    return any(f"socket:[{row.split()[9]}]" in sockets for row in rows if row.split()[2] == wanted)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, weekly(signal.SIGINT), weekly(signal.SIGKILL)])
def test_a_run_that_is_ended_leaves_no_process_behind(number: signal.Signals) -> None:
    with new_district("ash", "birch") as district:
        for host in district.hosts:
            host.on(faults.hang(100), path="students", times=1)
        process = subprocess.Popen(
            [*COMMAND, "district", "sync"],
            env={**os.environ, **district.environment()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # The request that hangs, not the check of the key before it: the fault must be used up.
        until(lambda: all(host.asked("students") for host in district.hosts), 100, 0.1)
        family = children(process.pid)
        began = time.monotonic()
        process.send_signal(number)
        _, printed = process.communicate(timeout=60)
        assert time.monotonic() - began < 30
        until(lambda: all(stat(pid)[:1] in ([], ["Z"]) for pid in family), 30, 0.1)
        if number is not signal.SIGKILL:
            assert process.returncode == 130, printed
            assert printed.strip().endswith("Stopped. The next run continues where this one stopped.")
        assert not list(district.warehouse.glob("*/rollbook.duckdb"))
        again = subprocess.Popen([*COMMAND, "district", "sync"], env={**os.environ, **district.environment()})
        assert again.wait(100) == 0


def test_a_worker_ends_with_its_run_though_the_signal_wakes_nobody() -> None:
    ours, theirs = Pipe()
    # As if the signal came just before the worker begins to wait for a task.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        command = [*light_process("rollbook.features.district.worker"), str(theirs.fileno())]
        worker = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    with ours, theirs:
        assert worker.poll() is None
    try:
        assert worker.wait(60) == 128 + signal.SIGTERM
    finally:
        worker.kill()
