"""`make bench-readers`: how long signed-in readers wait for a page of `rollbook explore`, each with a scope of their own.

Each opens a page every ten seconds, at a moment of their own. With `--night` a sync runs meanwhile, again and again.
"""

from __future__ import annotations

import argparse
import http.client
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import duckdb
import psutil
from rich.console import Console
from rich.table import Table

from rollbook.assembly import assemble
from rollbook.night import sync
from rollbook.settings import load
from rollbook.store.published import PUBLISHED
from tests.bench.meter import machine
from tests.support.processes.commands import COMMAND
from tests.support.processes.servers import free_port, until
from tests.support.warehouses.staff import HEADER, URL
from tests.support.wire.service import Sandbox

FIRST, KEY = date(2026, 9, 24), "sandbox-key"
EVERY = 10.0  # seconds between two pages of a reader
PATHS = ("/", "/", "/watch", "/watch", "/classes", "/students", "/student/{}", "/student/{}", "/class/{}", "/compare")
HOST = URL.removeprefix("https://")


def school(warehouse: Path, students: int, nights: int, readers: int) -> None:
    """A made-up school, a list that puts each student into one group, and a reader for each group."""
    (own := warehouse / "own").mkdir(parents=True)
    with Sandbox(students, day=FIRST, api_key=KEY) as sandbox:
        for number in range(nights):
            if number == nights - 1:  # the ids are known then
                teams = (f"{student},G{n % readers}\n" for n, student in enumerate(ids_in(warehouse)))
                (own / "teams.csv").write_text("student_id,team\n" + "".join(teams))
            sandbox.day = day = FIRST + timedelta(days=number)
            night(warehouse, sandbox, day)
    lines = (f"reader{n}@school.example,team=G{n}\n" for n in range(readers))
    (warehouse / "readers.csv").write_text("login,sees\n" + "".join(lines))


def ids_in(warehouse: Path) -> list[int]:
    """The ids of the students."""
    with duckdb.connect(str(warehouse / PUBLISHED), read_only=True) as con:
        return _ids(con, "SELECT student_id FROM students ORDER BY 1")


def night(warehouse: Path, sandbox: Sandbox, day: date) -> None:
    """One night."""
    values: dict[str, Any] = {
        "base_url": sandbox.url,
        "api_key": KEY,
        "warehouse": warehouse,
        "first_date": FIRST,
        "_env_file": None,
    }
    sync(assemble(load(**values)).writer(), day)


class Reader(threading.Thread):
    """Opens pages of the reader's own until the end, and keeps how long each took."""

    def __init__(self, number: int, port: int, token: str, mine: dict[str, list[int]], until_then: float) -> None:
        super().__init__(daemon=True)
        self.draw, self.port, self.mine, self.until_then = random.Random(number), port, mine, until_then
        self.headers = {"Host": HOST, "Authorization": f"Bearer {token}", HEADER: f"reader{number}@school.example"}
        self.waited: list[float] = []
        self.statuses = Counter[int]()

    def run(self) -> None:
        """Open them."""
        time.sleep(self.draw.random() * EVERY)
        while time.monotonic() < self.until_then:
            began = time.monotonic()
            path = self.draw.choice(PATHS)
            of = self.mine["class" if "class/" in path else "student"]
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            connection.request("GET", path.format(self.draw.choice(of)), headers=self.headers)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            self.waited.append(time.monotonic() - began)
            self.statuses[answer.status] += 1
            time.sleep(max(0.0, began + EVERY - time.monotonic()))


def measured(warehouse: Path, readers: int, seconds: float, *, beside: bool) -> Table:
    """How long the readers waited."""
    port, home = free_port(), warehouse.parent / "home"
    env = {"ROLLBOOK_LOGIN_HEADER": HEADER, "ROLLBOOK_LOGIN_PROXIES": "127.0.0.1", "ROLLBOOK_EXPLORE_URL": URL}
    env |= {"ROLLBOOK_WAREHOUSE": str(warehouse), "DAGSTER_HOME": str(home)}
    process = subprocess.Popen(
        [*COMMAND, "explore", "--listen", f"127.0.0.1:{port}"], env={**os.environ, **env}, stdout=subprocess.DEVNULL
    )
    try:
        kept = until(lambda: next((home / "addresses").glob("explore-*.json"), None), 60)
        token = kept.read_text().partition('"token":"')[2].partition('"')[0]
        with duckdb.connect(str(warehouse / PUBLISHED), read_only=True) as con:
            mine = [
                {
                    "student": _ids(con, f"SELECT student_id FROM students_own WHERE team = 'G{n}'"),
                    "class": _ids(
                        con,
                        "SELECT DISTINCT class_id FROM student_classes SEMI JOIN"
                        f" (FROM students_own WHERE team = 'G{n}') USING (student_id)",
                    ),
                }
                for n in range(readers)
            ]
        time.sleep(3)
        began = sum(psutil.Process(process.pid).cpu_times()[:2])
        end = time.monotonic() + seconds
        crowd = [Reader(n, port, token, mine[n], end) for n in range(readers)]
        for each in crowd:
            each.start()
        played = _nights(warehouse, end) if beside else 0
        for each in crowd:
            each.join()
        memory = psutil.Process(process.pid).memory_info().rss / 1e6
        work = sum(psutil.Process(process.pid).cpu_times()[:2])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    waited = [1000 * one for each in crowd for one in each.waited]
    statuses = sum((each.statuses for each in crowd), Counter[int]())
    table = Table(title=f"{readers} readers of {readers} scopes, a page every {EVERY:g} s")
    for heading in (
        "pages",
        "answers",
        "median, ms",
        "95 %, ms",
        "most, ms",
        "core ms a page",
        "MB",
        "nights meanwhile",
    ):
        table.add_column(heading, justify="right")
    told = ", ".join(f"{count} of {status}" for status, count in sorted(statuses.items()))
    figures = median(waited), quantiles(waited, n=20)[-1], max(waited), 1000 * (work - began) / len(waited), memory
    table.add_row(str(len(waited)), told, *(f"{figure:,.0f}" for figure in figures), str(played))
    return table


def _ids(con: duckdb.DuckDBPyConnection, query: str) -> list[int]:
    return [row[0] for row in con.execute(query).fetchall()]


def _nights(warehouse: Path, end: float) -> int:
    """Play nights beside the readers, of another school, so that the readers' own stays as it is."""
    played = 0
    with tempfile.TemporaryDirectory() as other, Sandbox(600, day=FIRST, api_key=KEY) as sandbox:
        while time.monotonic() < end:
            sandbox.day = day = FIRST + timedelta(days=played)
            night(Path(other, "warehouse"), sandbox, day)
            played += 1
    return played


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-readers")
    parser.add_argument("--students", type=int, default=600)
    parser.add_argument("--nights", type=int, default=14)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--night", action="store_true", help="beside nights of a school of 600 on the same machine")
    chosen = parser.parse_args()
    out = Console(width=140)
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Path(folder, "warehouse")
        school(warehouse, chosen.students, chosen.nights, chosen.readers)
        out.print(measured(warehouse, chosen.readers, chosen.seconds, beside=chosen.night))
        out.print(machine(), highlight=False)


if __name__ == "__main__":
    main()
