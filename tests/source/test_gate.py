"""One request at a time to a host, with real processes: a holder that is killed, a pause, hosts that are strangers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.processes.commands import Program, program

pytestmark = pytest.mark.nights

# Holds the gate of a host for so many requests; prints when each began and ended. With "wait", until the input ends.
HOLDER = """
import sys, time
from pathlib import Path
from rollbook.source.client import Gate
folder, host, pause, times, seconds = sys.argv[1:]
gate = Gate(Path(folder), host, float(pause))
for _ in range(int(times)):
    with gate.request():
        began = time.time()
        if seconds == "wait":
            print("in", flush=True)
            sys.stdin.read()
        else:
            time.sleep(float(seconds))
        ended = time.time()
    print(began, ended, flush=True)
"""


def holder(folder: Path, host: str, *, pause: float = 0, times: int = 1, seconds: float = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(folder), host, str(pause), str(times), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@contextmanager
def held(folder: Path, host: str) -> Iterator[Program]:
    """A process that has the gate of a host."""
    with program("-c", HOLDER, folder, host, 0, 1, "wait") as running:
        assert running.read() == "in"
        yield running


def spans(process: subprocess.Popen[str]) -> list[tuple[float, float]]:
    out, _ = process.communicate(timeout=60)
    return [(float(began), float(ended)) for began, ended in (line.split() for line in out.splitlines())]


def test_no_two_requests_overlap_and_the_pause_is_kept_over_processes(tmp_path: Path) -> None:
    running = [holder(tmp_path, "records.example", pause=0.05, times=4, seconds=0.02) for _ in range(3)]
    times = sorted(span for process in running for span in spans(process))
    assert len(times) == 12
    between = [later[0] - earlier[1] for earlier, later in pairwise(times)]
    assert min(between) >= 0.04  # a file's time lags by some milliseconds


def test_a_killed_holder_frees_its_host(tmp_path: Path) -> None:
    with held(tmp_path, "records.example") as first:
        waiting = holder(tmp_path, "records.example")
        time.sleep(0.3)
        first.process.kill()
        assert len(spans(waiting)) == 1
