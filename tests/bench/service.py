"""The sandbox in a process of its own, so that a measurement holds the client's time and memory only."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date

from pipelines.sandbox.institution import Institution
from pipelines.sandbox.server import Sandbox

KEY = "bench-key"
SEED = 1


def school(students: int, *, lively: bool = False) -> Institution:
    """Make the school that is measured: a quiet one, of which 2 to 3 % change overnight, or one as in term."""
    return Institution(students, SEED, quiet=not lively)


class Remote:
    """A sandbox in another process: where it is, and the day it plays."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.base_url = self._read()

    def play(self, day: date) -> None:
        """Move its clock; returns once the day's records are made."""
        if self._process.stdin is not None:
            self._process.stdin.write(f"{day}\n")
            self._process.stdin.flush()
        self._read()

    def _read(self) -> str:
        return self._process.stdout.readline().strip() if self._process.stdout is not None else ""


@contextmanager
def remote(students: int, day: date, *, lively: bool = False) -> Iterator[Remote]:
    """Serve an institution from another process for as long as the block lasts."""
    command = [sys.executable, "-m", "tests.bench.service", str(students), str(day), *(["lively"] if lively else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Remote(process)
        finally:
            if process.stdin is not None:
                process.stdin.close()  # the end of its input ends it
            process.wait(timeout=30)


def main() -> None:
    """Serve until the input ends; each line of it is the next day to play."""
    students, day = int(sys.argv[1]), date.fromisoformat(sys.argv[2])
    institution = school(students, lively="lively" in sys.argv[3:])
    with Sandbox(day=day, api_key=KEY, institution=institution) as sandbox:
        print(sandbox.base_url, flush=True)
        for line in sys.stdin:
            sandbox.day = date.fromisoformat(line.strip())
            print("ready", flush=True)


if __name__ == "__main__":
    main()
