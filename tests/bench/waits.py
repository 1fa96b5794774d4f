"""`make bench-waits`: what a person waits for, at the prompt and in the browser, over a played fortnight.

A command is measured from its start to its end, with the start of Python; `rollbook serve` from its start to the UI's
answer, then Chromium from asking for the page to its first paint, and to the runs being shown. All are medians.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright
from rich.console import Console
from rich.table import Table

from tests.support.processes.commands import COMMAND
from tests.support.processes.servers import free_port, served_bare

COMMANDS = (["--help"], ["status", "--demo"], ["sql", "SELECT COUNT(*) FROM roster"])
FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"


def seconds_of(work: Callable[[], object]) -> float:
    """How long some work takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def rollbook(environment: dict[str, str], *arguments: str) -> None:
    """Run a command to its end."""
    subprocess.run([*COMMAND, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)


def serve(environment: dict[str, str], browser: Browser) -> tuple[float, float, float]:
    """Start the UI and look at it once; returns the seconds to its answer, to the first paint and to the runs."""
    began = time.monotonic()
    with served_bare(environment, free_port(), "--demo") as served:
        answered = time.monotonic() - began
        page = browser.new_page()
        asked = time.monotonic()
        page.goto(f"{served.url}/runs")
        expect(page.get_by_text("nightly_sync").first).to_be_visible(timeout=60_000)
        shown = time.monotonic() - asked
        painted = page.evaluate(FIRST_PAINT) / 1000
        page.close()
    return answered, painted, shown


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    shown = Table(title=f"What a person waits for (medians of {rounds})")
    shown.add_column("")
    shown.add_column("seconds", justify="right")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        environment = {n: v for n, v in os.environ.items() if not n.startswith(("ROLLBOOK_", "DAGSTER_"))}
        environment["ROLLBOOK_WAREHOUSE"] = folder
        rollbook(environment, "demo")
        home = Path(folder, "demo", "dagster_home")
        over = environment | {"ROLLBOOK_WAREHOUSE": str(home.parent)}
        for arguments in COMMANDS:
            seen = over if arguments[0] == "sql" else environment
            times = [seconds_of(partial(rollbook, seen, *arguments)) for _ in range(rounds)]
            shown.add_row(f"rollbook {arguments[0]}", f"{statistics.median(times):.2f}")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        looked = [serve(environment | {"DAGSTER_HOME": str(home)}, browser) for _ in range(rounds)]
        browser.close()
    titles = "rollbook serve: the UI answers", "its first paint, then", "its runs are shown, since it was asked"
    for title, looks in zip(titles, zip(*looked, strict=True), strict=True):
        shown.add_row(title, f"{statistics.median(looks):.2f}")
    Console(width=100).print(shown)


if __name__ == "__main__":
    main()
