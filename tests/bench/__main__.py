"""`make bench`: two nights as multiples of a bare walk over the same pages, then the seconds of every view.

Timings on a shared machine drift, so a night is compared with the walks before and after it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from pipelines.views import catalog
from tests.bench.meter import Run, machine, run
from tests.bench.service import KEY
from tests.support.processes.commands import program

MOST_SECONDS = 1.0  # for a view
JUDGED_UP_TO = 100_000  # students; views of a larger school are shown, but not judged


def measure(command: list[str]) -> Run:
    """Run a walk or a night, which prints its own seconds; ends the benchmark if it fails."""
    found = run([sys.executable, *command], {})
    if found.exit_code:
        sys.exit(f"{command[:2]} ended with exit code {found.exit_code}.")
    return found


def nights(students: int, days: list[date], warehouse: str) -> Table:
    """Sync these nights of a made-up school."""
    table = Table(title=f"{students:,} students: nights as multiples of a bare walk")
    for heading in ("night", "bare walk s", "Rollbook s", "multiple", "peak MB", "bare walk's peak MB"):
        table.add_column(heading, justify="right")
    with program("-m", "tests.bench.service", students, days[0]) as service:
        base_url = service.read()
        walk = [str(Path(__file__).with_name("bare.py")), base_url, KEY]
        for day in days:
            service.ask(day)
            measure(walk)  # the sandbox makes its pages when they are first asked for
            before = measure(walk)
            night = measure(["-m", "tests.bench.client", base_url, KEY, warehouse, str(day)])
            after = measure(walk)
            bare, own = (float(before.printed) + float(after.printed)) / 2, float(night.printed)
            cells = (bare, own, own / bare, night.peak_mb, after.peak_mb)
            table.add_row(str(day), *(f"{cell:,.1f}" for cell in cells))
    return table


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
        if min(seconds) > MOST_SECONDS:
            slow.append(view.name)
    return table, slow


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--students", type=int, default=100_000)
    parser.add_argument("--nights", type=int, default=2)
    chosen = parser.parse_args()
    out = Console(width=120)
    last = datetime.now(UTC).date()
    days = [last - timedelta(days=back) for back in reversed(range(chosen.nights))]
    with tempfile.TemporaryDirectory() as warehouse:
        out.print(nights(chosen.students, days, warehouse))
        table, slow = views(Path(warehouse, "rollbook.duckdb"))
        out.print(table)
        out.print(machine(), highlight=False)
    if slow and chosen.students <= JUDGED_UP_TO:
        sys.exit(f"Slower than {MOST_SECONDS:g} s: {', '.join(slow)}. Make it a table at publish.")


if __name__ == "__main__":
    main()
