"""Runs one command, and measures all of its processes together."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil

_EVERY = 0.05  # seconds between two samples
_SHARED_EVERY = 0.5  # and between two of what is shared: the process that is looked at stands still meanwhile


@dataclass(frozen=True)
class Run:
    """A command's output, its exit code, its seconds, the processor's, the most memory of all its processes, and of
    the largest one; the last three sampled.
    """

    printed: str
    exit_code: int
    seconds: float
    work: float
    peak_mb: float
    largest_mb: float


def run(command: Sequence[str], env: Mapping[str, str]) -> Run:
    """Run a command, with these variables added. Memory that processes share counts once."""
    began, peak, largest, looked = time.perf_counter(), 0, 0, 0.0
    work: dict[int, float] = {}  # by process: those forked by a server are nobody's to wait for
    with tempfile.TemporaryFile("w+") as printed:
        process = psutil.Popen(command, env={**os.environ, **env}, stdout=printed, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            with suppress(psutil.Error):
                running = [process, *process.children(recursive=True)]
                work |= {each.pid: sum(each.cpu_times()[:2]) for each in running}
                largest = max([largest, *(each.memory_info().rss for each in running)])
                if time.perf_counter() > looked + _SHARED_EVERY:
                    peak = max(peak, sum(each.memory_full_info().pss for each in running))
                    looked = time.perf_counter()
            time.sleep(_EVERY)
        seconds = time.perf_counter() - began
        printed.seek(0)
        return Run(printed.read(), process.returncode, seconds, sum(work.values()), peak / 1e6, largest / 1e6)


def machine() -> str:
    """Describe when and where this was measured."""
    memory = psutil.virtual_memory().total / 2**30
    python = f"Python {platform.python_version()}"
    return f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()}, {python}"
