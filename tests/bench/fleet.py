"""`make bench-fleet`: what a district's night costs on one machine, against what a single school's costs there.

The single school is synced three ways: inside a process that has synced before, which is the work itself; by `rollbook
sync`, which starts Python and shows the night in Dagster; and as a fleet of one. Then come two nights of a few
institutions and of many, with one host dead and one slow among them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench import district, nightly
from tests.bench.meter import family
from tests.support.processes.commands import COMMAND, dagster_home

FEW = 20
_EVERY = 0.1  # seconds between two looks
_TICKS = os.sysconf("SC_CLK_TCK")
# The same in a process that has synced another school first; prints the seconds, and the processor's.
_WORK = """
import sys, time
from datetime import date
from pipelines.settings import load
from pipelines.sync import Rollbook
for number in range(int(sys.argv[1])):
    began, work = time.perf_counter(), time.process_time()
    Rollbook(load(warehouse=f"{sys.argv[3]}/{number}", first_date=date(2026, 8, 1))).sync(date.fromisoformat(sys.argv[2]))
    print(time.perf_counter() - began, time.process_time() - work)
"""


@dataclass(frozen=True)
class Measured:
    """One run: its seconds, the processor's seconds of all its processes, their most memory together, its exit code."""

    seconds: float
    work: float
    peak_mb: float
    exit_code: int


def measured(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> Measured:
    """Run a command and measure it with everything that it starts."""
    began = time.perf_counter()
    with (cwd / "said.txt").open("ab") as said:
        process = subprocess.Popen(command, env={**os.environ, **env}, cwd=cwd, stdout=said, stderr=said)
        peak = 0.0
        work: dict[int, tuple[int, float]] = {}
        while process.poll() is None:
            pids = family(process.pid)
            peak = max(peak, sum(map(_memory, pids)) / 1e6)
            for pid in pids:
                if taken := _work(pid):  # an orphan keeps the parent that it had
                    work[pid] = (work.get(pid, taken)[0], taken[1])
            time.sleep(_EVERY)
    # What a process waited for is counted in its own figure, so the first one and those that it started are enough.
    firsts = {pid: own for pid, (parent, own) in work.items() if process.pid in (pid, parent)}
    return Measured(time.perf_counter() - began, sum(firsts.values()), peak, process.returncode)


def _memory(pid: int) -> int:
    """The bytes that a process has, its share of what several have in common: workers are forked from one process."""
    with suppress(OSError, IndexError, ValueError):
        lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return 0


def _work(pid: int) -> tuple[int, float] | None:
    """A process's parent, and the processor's seconds that it and the ended ones that it waited for have had."""
    with suppress(OSError, IndexError, ValueError):
        stat = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return int(stat[1]), sum(map(int, stat[11:15])) / _TICKS
    return None


class Bench:
    """One district in a folder of its own."""

    def __init__(self, root: Path, remote: district.District) -> None:
        self.root = root
        self.remote = remote
        self.home = dagster_home(root / "dagster_home")

    def environment(self, warehouse: str, **over: str) -> dict[str, str]:
        """What every command here needs; no registry."""
        return {
            "DAGSTER_HOME": str(self.home),
            "ROLLBOOK_WAREHOUSE": str(self.root / warehouse),
            "ROLLBOOK_CACHE_MINUTES": "0",
            "ROLLBOOK_FIRST_DATE": "2026-08-01",
            "ROLLBOOK_RETRY_SECONDS": "20",
            **over,
        }

    def single(self, warehouse: str, number: int = 1) -> dict[str, str]:
        """The settings of one school alone."""
        at = {"ROLLBOOK_BASE_URL": self.remote.hosts[0], "ROLLBOOK_API_KEY": district.key_of(number)}
        return self.environment(warehouse, **at)

    def fleet(self, warehouse: str, count: int, *, spoiled: bool) -> dict[str, str]:
        """The settings of many, in a registry: of the spoiled ones the first is on the dead host, the second slow."""
        lines, keys = [], {}
        for number in range(1, count + 1):
            url = self.remote.hosts[number % len(self.remote.hosts)]
            if spoiled and number <= 2:
                url = (self.remote.dead, self.remote.slow)[number - 1]
            lines += [f"[school-{number}]", f'base_url = "{url}"', f'api_key = {{ env = "KEY_{number}" }}']
            keys[f"KEY_{number}"] = district.key_of(number)
        registry = self.root / f"{warehouse}.toml"
        registry.write_text("\n".join(lines) + "\n")
        return self.environment(warehouse, ROLLBOOK_INSTITUTIONS=str(registry), **keys)

    def run(self, env: Mapping[str, str], *arguments: str) -> Measured:
        """Measure one command."""
        return measured([*COMMAND, *arguments], env, self.root)

    def work(self, day: date, rounds: int) -> tuple[float, float]:
        """A school's first night without any start: the median seconds, and the processor's."""
        command = [sys.executable, "-c", _WORK, str(rounds + 1), str(day), str(self.root / "work")]
        done = subprocess.run(
            command, env={**os.environ, **self.single("work")}, capture_output=True, text=True, check=True
        )
        rows = [tuple(map(float, line.split())) for line in done.stdout.splitlines()][1:]
        return statistics.median(row[0] for row in rows), statistics.median(row[1] for row in rows)


def measure(institutions: int, students: int, jobs: int, out: Console) -> None:
    """Measure all of it, and print the table."""
    today = datetime.now(UTC).date()
    yesterday = today - timedelta(days=1)
    with (
        tempfile.TemporaryDirectory() as folder,
        district.remote(institutions, students, yesterday) as remote,
    ):
        bench = Bench(Path(folder), remote)
        rows: list[tuple[str, int, Measured]] = []

        def add(what: str, count: int, found: Measured) -> None:
            rows.append((what, count, found))
            out.print(f"{what}: {found.seconds:.1f} s, exit {found.exit_code}", style="dim")

        seconds, work = bench.work(yesterday, 5)
        add("one school, the work itself", 1, Measured(seconds, work, 0.0, 0))
        add("one school, rollbook sync", 1, bench.run(bench.single("single"), "sync", "--date", str(yesterday)))
        each = ("--jobs", str(jobs), "--date")
        one = bench.fleet("one", 1, spoiled=False)
        add("a fleet of one", 1, bench.run(one, "fleet", "sync", *each, str(yesterday)))
        few = bench.fleet("few", FEW, spoiled=False)
        add(f"{FEW}, one at a time", FEW, bench.run(few, "fleet", "sync", "--jobs", "1", "--date", str(yesterday)))
        few = bench.fleet("few-again", FEW, spoiled=True)
        add(f"{FEW}, first night", FEW, bench.run(few, "fleet", "sync", *each, str(yesterday)))
        many = bench.fleet("many", institutions, spoiled=True)
        add(f"{institutions}, first night", institutions, bench.run(many, "fleet", "sync", *each, str(yesterday)))
        remote.play(today)
        add(f"{institutions}, next night", institutions, bench.run(many, "fleet", "sync", *each, str(today)))
        add(f"{institutions}, once more", institutions, bench.run(many, "fleet", "sync", *each, str(today)))
        add(f"{institutions}, status", institutions, bench.run(many, "fleet", "status"))
        add(f"{institutions}, fleet build", institutions, bench.run(many, "fleet", "build"))
        add(f"{institutions}, fleet build again", institutions, bench.run(many, "fleet", "build"))
        out.print(shown(rows, students, jobs))
        out.print(nightly.machine(), highlight=False)


def shown(rows: Sequence[tuple[str, int, Measured]], students: int, jobs: int) -> Table:
    """The table: totals, and what one institution took."""
    title = f"Institutions of {students} students, {jobs} at a time; of the spoiled nights one host is dead, one slow"
    table = Table(title=title, title_justify="left")
    for heading in ("what", "seconds", "processor s", "of each", "most MB together", "exit"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for what, count, found in rows:
        each = f"{found.seconds / count:.2f} s, {found.work / count:.2f} s"
        peak = f"{found.peak_mb:.0f}" if found.peak_mb else ""
        table.add_row(what, f"{found.seconds:.1f}", f"{found.work:.1f}", each, peak, str(found.exit_code))
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-fleet")
    parser.add_argument("--institutions", type=int, default=200)
    parser.add_argument("--students", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="institutions at a time")
    chosen = parser.parse_args()
    measure(max(chosen.institutions, FEW), chosen.students, chosen.jobs, Console(width=140))


if __name__ == "__main__":
    main()
