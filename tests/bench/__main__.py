"""`make bench`: what every night costs, two nights as multiples of a bare walk over the same pages, and the seconds of
every view.

Timings on a shared machine drift, so a night is compared with the walks before and after it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
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
from rollbook.views import catalog
from tests.bench.beside import beside
from tests.bench.meter import Run, machine, run
from tests.bench.service import KEY
from tests.support.processes.commands import COMMAND, dagster_home, program

MAX_SECONDS = 1.0  # for a view
JUDGED_UP_TO = 100_000  # students; views of a larger school are shown, but not judged


def measure(command: list[str]) -> Run:
    """Run a walk or a night, which prints its own seconds; ends the benchmark if it fails."""
    output = run([sys.executable, *command], {})
    if output.exit_code:
        sys.exit(f"{command[:2]} ended with exit code {output.exit_code}.")
    return output


def school_week(today: date) -> dict[str, date]:
    """The nights to sync: from a Thursday to the Sunday of the last whole week with lessons."""
    sunday = today - timedelta(days=today.isoweekday() % 7)
    while is_holiday(sunday):
        sunday -= timedelta(weeks=1)
    kinds = ("the first night", "a school day", "a Saturday", "a Sunday")
    return {kind: sunday - timedelta(days=3 - number) for number, kind in enumerate(kinds)}


def nights(students: int, days: Mapping[str, date], warehouse: str) -> Table:
    """Sync these nights of a made-up school."""
    table = Table(title=f"{students:,} students: nights as multiples of a bare walk")
    headings = (
        "night",
        "bare walk s",
        "Rollbook s",
        "multiple",
        "after the last byte",
        "peak MB",
        "bare walk's peak MB",
    )
    for heading in headings:
        table.add_column(heading, justify="right")
    with program("-m", "tests.bench.service", students, next(iter(days.values()))) as service:
        base_url = service.read()
        walk = [str(Path(__file__).with_name("bare.py")), base_url, KEY]
        for kind, day in days.items():
            service.ask(day)
            before = measure(walk)
            night = measure(["-m", "tests.bench.client", base_url, KEY, warehouse, str(day)])
            after = measure(walk)
            bare = (float(before.printed) + float(after.printed)) / 2
            own, tail = map(float, night.printed.split())
            cells = (bare, own, own / bare, tail / bare, night.peak_mb, after.peak_mb)
            table.add_row(kind, *(f"{cell:,.1f}" for cell in cells))
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
            service.ask(day + timedelta(days=later))
            rollbook = assemble(settings, clock=partial(datetime.now(UTC).__add__, timedelta(days=later)))
            before = time.process_time()
            sync(rollbook)
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
    parser.add_argument("--small", action="store_true", help="what every night of a small school costs, and no more")
    parser.add_argument("--beside", action="store_true", help="other tools on the same service, and no more")
    chosen = parser.parse_args()
    out = Console(width=120)
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
        out.print(nights(chosen.students, school_week(last), warehouse))
        table, slow = views(Path(warehouse, "rollbook.duckdb"))
        out.print(table)
        out.print(machine(), highlight=False)
    if slow and chosen.students <= JUDGED_UP_TO:
        sys.exit(f"Slower than {MAX_SECONDS:g} s: {', '.join(slow)}. Make it a table at publish.")


if __name__ == "__main__":
    main()
