"""Rollbook beside other ways to copy the same records: a pandas script, dlt, Singer (`make bench ARGS=--beside`).

Each has an environment of its own, made for the run. All ask the same made-up service, one after the other.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from rich.table import Table

from tests.bench.meter import Run, run
from tests.bench.service import KEY
from tests.support.processes.commands import COMMAND, Program, program

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Tool:
    """A way to copy the records: what to install, the script, and what is left after two nights."""

    name: str
    packages: tuple[str, ...]
    script: str
    leaves: str


TOOLS = (
    Tool("a bare walk", ("httpx",), "bare.py", "nothing"),
    Tool("a pandas script", ("pandas", "pyarrow", "httpx"), "others/pandas_script.py", "a file a day"),
    Tool("dlt", ("dlt[duckdb]",), "others/dlt_pipeline.py", "history (scd2) of what came"),
    Tool("Singer", ("singer-sdk", "target-duckdb"), "others/singer_tap.py", "the newest row of each id"),
)


def installed(tool: Tool, folder: Path) -> tuple[str, str]:
    """Make an environment with a tool; returns its Python, and the versions. The Python is empty if that failed."""
    uv, python = shutil.which("uv") or str(Path(sys.executable).with_name("uv")), folder / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    done = subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *tool.packages], check=False)
    listed = subprocess.run(
        [uv, "pip", "freeze", "--python", str(python)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    first = tuple(package.partition("[")[0] for package in tool.packages)
    versions = ", ".join(line.replace("==", " ") for line in listed if line.startswith(tuple(f"{p}==" for p in first)))
    return "" if done.returncode else str(python), versions


def beside(students: int, days: tuple[date, date], folder: Path) -> Table:
    """Copy a school's records on two days with each."""
    table = Table(title=f"{students:,} students, two nights with each")
    for heading in ("", "leaves", "first night s", "next night s", "peak MB", "versions"):
        table.add_column(heading)
    with program("-m", "tests.bench.service", students, days[0]) as service:
        base_url = service.read()
        rows = [*_others(service, base_url, days, folder), _ours(service, base_url, days, folder)]
    for name, leaves, runs, versions in rows:
        figures = [f"{night.seconds:.1f}" if night.exit_code == 0 else "failed" for night in runs] or ["-", "-"]
        peak = f"{max(night.peak_mb for night in runs):,.0f}" if runs else "-"
        table.add_row(name, leaves, *figures, peak, versions or "cannot be installed here")
    return table


Row = tuple[str, str, list[Run], str]


def _others(service: Program, base_url: str, days: tuple[date, date], folder: Path) -> Iterator[Row]:
    for number, tool in enumerate(TOOLS):
        python, versions = installed(tool, folder / f"env-{number}")
        target = folder / f"data-{number}"
        target.mkdir()
        runs = []
        for day in days if python else ():
            service.ask(f"day {day}")
            runs.append(run([python, str(HERE / tool.script), base_url, KEY, str(target), str(day)], {}))
        yield tool.name, tool.leaves, runs, versions if python else ""


def _ours(service: Program, base_url: str, days: tuple[date, date], folder: Path) -> Row:
    env = {
        "ROLLBOOK_WAREHOUSE": str(folder / "warehouse"),
        "ROLLBOOK_BASE_URL": base_url,
        "ROLLBOOK_API_KEY": KEY,
        "ROLLBOOK_CACHE_MINUTES": "0",
        "ROLLBOOK_FIRST_DATE": str(days[0]),
        "ROLLBOOK_VERIFY_MOST": "10000",
    }
    runs = []
    for day in days:
        service.ask(f"day {day}")
        runs.append(run([*COMMAND, "sync", "--date", str(day)], env))
    return "Rollbook", "proof, history, changes, views, pages", runs, "this version"
