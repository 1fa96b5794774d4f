"""Runs one command and measures the memory of all its processes together, the same way for every tool.

Twenty times a second the resident memory of the command and of everything it started is added up, from /proc. Pages
that two processes share count in each. Where there is no /proc, memory is not measured.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_EVERY = 0.05  # seconds between two samples
_LOOK_AROUND = 5  # samples between two searches for new processes
_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
MOST_SECONDS = 4 * 3600.0


class RunError(Exception):
    """The command failed or was stopped. The message says how, in words that fit into a table."""


@dataclass
class Ran:
    """What a command printed as its last line, and its peak memory (0: not measured)."""

    said: dict[str, Any] = field(default_factory=dict)
    peak_mb: float = 0.0


def most_memory() -> float:
    """Return the MB that a measured command may take: four fifths of the machine's."""
    return 0.8 * os.sysconf("SC_PHYS_PAGES") * _PAGE / 1e6


def run(
    command: Sequence[str], key: str, variables: Mapping[str, str] | None = None, *, most_mb: float | None = None
) -> Ran:
    """Run a command that prints a line of JSON last, with the key in BENCH_KEY, and with these variables.

    Raises RunError if it fails, or takes more memory or time than it may (it is killed then).
    """
    most_mb = most_memory() if most_mb is None else most_mb
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as problems:
        environment = {**os.environ, "BENCH_KEY": key, **(variables or {})}
        process = subprocess.Popen(command, stdout=out, stderr=problems, env=environment, start_new_session=True)
        try:
            peak = _watch(process, most_mb, time.monotonic() + MOST_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it left running, or all of it if we were interrupted
            process.wait()
        out.seek(0)
        problems.seek(0)
        if process.returncode:
            raise RunError(f"failed (exit {process.returncode}): {_last_line(problems.read())}")
        return Ran(json.loads(_last_line(out.read())), peak)


def _watch(process: subprocess.Popen[bytes], most_mb: float, until: float) -> float:
    """Sample until it ends; returns the peak in MB."""
    peak, count, pids = 0.0, 0, {process.pid}
    while process.poll() is None:
        if count % _LOOK_AROUND == 0:
            pids = family(process.pid)
        count += 1
        taken = sum(map(_resident, pids)) / 1e6
        peak = max(peak, taken)
        if taken > most_mb:
            raise RunError(f"stopped at {taken / 1e3:.1f} GB of memory")
        if time.monotonic() > until:
            raise RunError("stopped: it took too long")
        time.sleep(_EVERY)
    return peak


def family(pid: int) -> set[int]:
    """Return a process and all its descendants that run now."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found, todo = {pid}, [pid]
    while todo:
        new = [child for child in children.get(todo.pop(), []) if child not in found]
        found.update(new)
        todo += new
    return found


def _resident(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it printed nothing"
