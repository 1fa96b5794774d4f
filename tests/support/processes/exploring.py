"""`rollbook explore` as a person starts it, with a record of every request to another machine, and what the pages show."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page

from tests.support.processes.commands import COMMAND
from tests.support.processes.servers import free_port, until

START_WITHIN = 120.0  # seconds, on a busy machine

# Python's own record of what a process connects to, looks up, and listens on; for each child, too.
_RECORD = """
import os, sys
def _record(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):
        target = args[0] if event == "socket.getaddrinfo" else args[1]
        with open(os.environ["ASKED"], "a") as log:
            log.write(f"{event} {target!r}\\n")
sys.addaudithook(_record)
"""


@dataclass
class Explored:
    """A running `rollbook explore`: the printed address, the output, and the connections."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path
    asked: Path

    @property
    def port(self) -> int:
        """The address."""
        return urlsplit(self.address).port or 0

    @property
    def host(self) -> str:
        """The name and the port of the server."""
        return urlsplit(self.address).netloc

    @property
    def token(self) -> str:
        """The token."""
        return self.address.partition("access_token=")[2]

    def page(self, path: str) -> str:
        """The address of a page, for a browser that has the token."""
        return f"http://{self.host}{path}"

    def asks_elsewhere(self) -> list[str]:
        """The lookups and connections of all processes to other machines."""
        own = re.compile(
            r"socket\.(bind .*|\w+ (None|b?'(127\.0\.0\.1|localhost|::1)'|\('(127\.0\.0\.1|::1)', .*\)|'/.*'))"
        )
        return [line for line in self.asked.read_text().splitlines() if not own.fullmatch(line)]

    def stop(self) -> int:
        """Ask the server to stop, as a service manager does, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def exploring(
    warehouse: Path,
    folder: Path,
    *arguments: str,
    command: tuple[str, ...] = ("explore",),
    home: Path | None = None,
    port: int | None = None,
) -> Iterator[Explored]:
    """`rollbook explore` over a warehouse, started in a folder; ended when the block is left. `home` is DAGSTER_HOME."""
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "sitecustomize.py").write_text(_RECORD)
    log, audit = folder / "explore.log", folder / "asked.log"
    path = os.pathsep.join(filter(None, (str(folder / "site"), os.environ.get("PYTHONPATH"))))
    env = {**os.environ, "ROLLBOOK_WAREHOUSE": str(warehouse), "PYTHONPATH": path, "ASKED": str(audit)}
    env["DAGSTER_HOME"] = str(home or folder / "home")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*COMMAND, *command, "--port", str(port or free_port()), *arguments],
            cwd=folder,
            env=env,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )

    def address() -> str | None:
        assert process.poll() is None, log.read_text()
        matches = re.search(r"http://\S+", log.read_text())
        return matches[0] if matches else None

    try:
        yield Explored(process, until(address, START_WITHIN), log, audit)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(30)


@contextmanager
def staying_home(page: Page, explored: Explored) -> Iterator[None]:
    """Fails when the page, or the server, asks anything of another host or port, or the page has an error."""
    lines: list[str] = []
    errors: list[str] = []

    page.on("request", lambda request: lines.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield
    assert lines
    assert errors == []
    strangers = [url for url in map(urlsplit, lines) if url.scheme not in ("data", "blob")]
    assert [url for url in strangers if url.netloc != explored.host] == []
    assert explored.asks_elsewhere() == []


def rows(table: Locator) -> list[list[str]]:
    """The rows that are seen of a table below the headings, read at one moment."""
    rows: list[list[str]] = table.locator("tbody").evaluate(
        "body => [...body.rows].filter(row => row.checkVisibility())"
        ".map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )
    return rows


def table(page: Page, *headings: str) -> Locator:
    """The table with such headings."""
    tables = page.locator("table")
    for heading in headings:
        tables = tables.filter(has=page.locator("th", has_text=re.compile(f"^{re.escape(heading)}$")))
    return tables


def fits(page: Page) -> bool:
    """Whether nothing makes the page itself scroll sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))
