"""The sandbox in a process of its own, so that a measurement holds the client's time and memory only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date

from pipelines.sandbox.institution import Institution
from pipelines.sandbox.server import Sandbox
from tests.support.processes.commands import Program, program

KEY = "bench-key"
SEED = 1


def school(students: int, *, lively: bool = False) -> Institution:
    """Make the school that is measured: a quiet one, of which 2 to 3 % change overnight, or one as in term."""
    return Institution(students, SEED, quiet=not lively)


class Remote:
    """A sandbox in another process: where it is, and the day it plays."""

    def __init__(self, running: Program) -> None:
        self.base_url = running.read()
        self.play = running.ask  # moves its clock; returns once the day's records are made


@contextmanager
def remote(students: int, day: date, *, lively: bool = False) -> Iterator[Remote]:
    """Serve an institution from another process for as long as the block lasts."""
    with program("-m", "tests.bench.service", students, day, *(["lively"] if lively else [])) as running:
        yield Remote(running)


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
