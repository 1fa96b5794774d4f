"""`make bench`: what every night costs, nights beside a bare client that asks the same, and the seconds of every view.

Timings on a shared machine drift, so a night is compared with what runs just before and after it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from rollbook.assembly import assemble
from rollbook.night import sync
from rollbook.sandbox.institution import is_holiday
from rollbook.settings import load
from rollbook.store.published import PUBLISHED
from rollbook.views import catalog
from tests.bench.beside import beside
from tests.bench.meter import Run, machine, run
from tests.bench.service import KEY
from tests.support.processes.commands import COMMAND, Program, dagster_home, program

MAX_SECONDS = 1.0  # for a view
JUDGED_UP_TO = 100_000  # students; views of a larger school are shown, but not judged


@dataclass(frozen=True)
class Night:
    """What a night's command asked and took: seconds, beside a bare client that asked the same (`same`), and beside a
    bare walk over the pages alone.
    """

    command: Run
    walk: float
    same: float
    asked: list[tuple[str, float, float]]
    published_at: float

    @property
    def searches(self) -> list[tuple[str, float, float]]:
        """The requests that were searches."""
        return [each for each in self.asked if "search=" in each[0]]

    def cells(self) -> Iterator[str]:
        """The row of the table, without its name."""
        (_, began, _), (_, _, ended) = self.asked[0], self.asked[-1]
        searched = self.searches[-1][2] - self.searches[0][1] if self.searches else 0
        before = max((sent for _, came, sent in self.asked if came < self.searches[0][1]), default=0) if searched else 0
        yield f"{len(self.asked):,}, {len(self.searches):,}"
        yield f"{self.walk:.2f}"
        yield f"{(self.published_at - began - searched) / self.walk:.1f}"
        yield f"{self.command.seconds - self.same:.2f}"
        yield f"{self.searches[0][1] - before:.2f}" if searched else "-"
        yield f"{self.published_at - ended:.2f}"
        yield f"{self.command.largest_mb:,.0f}"
        yield f"{self.command.peak_mb:,.0f}"


def bare(base_url: str, *targets: Path) -> Run:
    """Run the bare walk, or ask the targets of a file."""
    return checked(
        run([sys.executable, str(Path(__file__).with_name("bare.py")), base_url, KEY, *map(str, targets)], {})
    )


def checked(done: Run) -> Run:
    """The run of a command; ends the benchmark if the command failed."""
    if done.exit_code:
        sys.exit(f"A command ended with exit code {done.exit_code}.")
    return done


def school_week(today: date) -> dict[str, date]:
    """The nights to sync: from a Thursday to the Sunday of the last whole week with lessons."""
    sunday = today - timedelta(days=today.isoweekday() % 7)
    while is_holiday(sunday):
        sunday -= timedelta(weeks=1)
    kinds = ("the first night", "a school day", "a Saturday", "a Sunday")
    return {kind: sunday - timedelta(days=3 - number) for number, kind in enumerate(kinds)}


def played(service: Program, base_url: str, day: date, warehouse: Path) -> Night:
    """Sync one day with the command, after a bare walk, and ask again what it asked."""
    service.ask(f"day {day}")
    walk = bare(base_url)
    service.ask("asked")
    env = {
        "ROLLBOOK_WAREHOUSE": str(warehouse),
        "ROLLBOOK_BASE_URL": base_url,
        "ROLLBOOK_API_KEY": KEY,
        "ROLLBOOK_CACHE_MINUTES": "0",
        "ROLLBOOK_FIRST_DATE": str(day - timedelta(days=7)),
        # A tenth of a percent of 100,000 students leave in a night, which is more than is searched for by default.
        "ROLLBOOK_VERIFY_MOST": "10000",
    }
    night = checked(run([*COMMAND, "sync", "--date", str(day)], env))
    published_at = (warehouse / PUBLISHED).resolve().stat().st_ctime  # when it took the old one's place
    asked = json.loads(service.ask("asked"))
    targets = warehouse.with_suffix(".asked")
    targets.write_text("\n".join(target for target, _, _ in asked))
    return Night(night, float(walk.printed), bare(base_url, targets).seconds, asked, published_at)


def nights(students: int, days: Mapping[str, date], latencies: Sequence[int], folder: Path) -> Table:
    """Sync these nights of a made-up school, in a new warehouse for each time that an answer takes.

    `walks`: from the first request to the file, without the searches, in bare walks. `beyond`: the whole command, less
    that of a bare client which asks the same. `gap`: before the first search. `tail`: after the last answer.
    """
    table = Table(title=f"{students:,} students")
    headings = (
        "night, ms an answer",
        "asked, searches",
        "bare walk s",
        "walks",
        "beyond s",
        "gap s",
        "tail s",
        "largest MB",
        "all MB",
    )
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    with program("-m", "tests.bench.service", students, next(iter(days.values()))) as service:
        base_url = service.read()
        for latency in latencies:
            service.ask(f"latency {latency}")
            for kind, day in days.items():
                night = played(service, base_url, day, folder / f"{students}-{latency}")
                table.add_row(f"{kind}, {latency}", *night.cells())
    return table


def small(day: date, home: Path) -> Table:
    """The cost of each night for a school of 200 students, whatever its size."""
    table = Table(title="200 students: what every night costs, in seconds of a core")
    table.add_column("what")
    for heading in ("processor s", "times import dagster"):
        table.add_column(heading, justify="right")
    with program("-m", "tests.bench.service", 200, day) as service:
        env = {
            "DAGSTER_HOME": str(dagster_home(home)),
            "ROLLBOOK_WAREHOUSE": str(home / "warehouse"),
            "ROLLBOOK_BASE_URL": service.read(),
            "ROLLBOOK_API_KEY": KEY,
            "ROLLBOOK_CACHE_MINUTES": "0",
        }
        imports = min(waited_for([sys.executable, "-c", "import dagster"], env) for _ in range(3))
        table.add_row("import dagster", f"{imports:.2f}", "1.0")
        waited_for([*COMMAND, "sync"], env)
        began = datetime.now(UTC)
        whole = waited_for([*COMMAND, "sync"], env)
        table.add_row("rollbook sync", f"{whole:.2f}", f"{whole / imports:.1f}")
        settings = load(base_url=env["ROLLBOOK_BASE_URL"], api_key=KEY, warehouse=home / "warehouse", cache_minutes=0)
        first = (assemble(settings).raw.manifests(day)[-1].started_at - began).total_seconds()
        table.add_row("from the command to its first request, on the clock", f"{first:.2f}", f"{first / imports:.1f}")
        warm = []
        for later in range(1, 8):
            service.ask(f"day {day + timedelta(days=later)}")
            rollbook = assemble(settings, clock=partial(datetime.now(UTC).__add__, timedelta(days=later)))
            before = time.process_time()
            sync(rollbook.writer())
            warm.append(time.process_time() - before)
        typical = sorted(warm)[len(warm) // 2]
        table.add_row("a night in a warm process", f"{typical:.2f}", f"{typical / imports:.1f}")
    return table


def waited_for(command: Sequence[str], env: Mapping[str, str]) -> float:
    """Run a command; returns the seconds of a core that its processes took. Ends the benchmark if it fails."""
    before = os.times()
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def views(published: Path) -> tuple[Table, list[str]]:
    """Read every view whole; returns the seconds, and the views that took too long. The fastest of three counts."""
    table, slow = Table(title="The views, read whole"), []
    table.add_column("view")
    for heading in ("rows", "seconds"):
        table.add_column(heading, justify="right")
    for view in catalog.views():
        seconds, rows = [], 0
        for _ in range(3):
            began = time.perf_counter()
            with duckdb.connect(str(published), read_only=True) as con:
                rows = con.sql(f"FROM {view.name}").to_arrow_table().num_rows
            seconds.append(time.perf_counter() - began)
        table.add_row(view.name, f"{rows:,}", f"{min(seconds):.2f}")
        if min(seconds) > MAX_SECONDS:
            slow.append(view.name)
    return table, slow


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--students", type=int, default=100_000)
    parser.add_argument("--latency", type=int, nargs="+", default=[0, 20, 100], help="milliseconds of each answer")
    parser.add_argument("--small", action="store_true", help="what every night of a small school costs, and no more")
    parser.add_argument("--beside", action="store_true", help="other tools on the same service, and no more")
    chosen = parser.parse_args()
    out = Console(width=140)
    last = datetime.now(UTC).date()
    with tempfile.TemporaryDirectory() as warehouse:
        if chosen.beside:
            thursday, friday, *_ = school_week(last).values()
            out.print(beside(chosen.students, (thursday, friday), Path(warehouse)))
            out.print(machine(), highlight=False)
            return
        out.print(small(last, Path(warehouse, "small")))
        if chosen.small:
            return
        for students in dict.fromkeys((min(10_000, chosen.students), chosen.students)):
            out.print(nights(students, school_week(last), chosen.latency, Path(warehouse)))
        table, slow = views(Path(warehouse, f"{chosen.students}-{chosen.latency[0]}", PUBLISHED))
        out.print(table)
        out.print(machine(), highlight=False)
    if slow and chosen.students <= JUDGED_UP_TO:
        sys.exit(f"Slower than {MAX_SECONDS:g} s: {', '.join(slow)}. Make it a table at publish.")


if __name__ == "__main__":
    main()
