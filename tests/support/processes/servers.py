"""`rollbook serve` as a person starts it: on a free port, over a warehouse and an instance of its own."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from rollbook.settings import ROOT
from rollbook.util.address import Kept
from tests.support.processes.commands import COMMAND, dagster_home

T = TypeVar("T")

# A busy machine takes long to import Dagster four times.
START_WITHIN = 240.0
RUNS = "query { runsOrError { ... on Runs { results { runId status startTime tags { key value } } } } }"


def until(look: Callable[[], T | None], seconds: float, every: float = 0.3) -> T:
    """Wait until `look` returns something, and return that; fails when it takes too long."""
    deadline = time.monotonic() + seconds
    while True:
        result = look()
        if result:
            return result
        assert time.monotonic() < deadline, f"nothing within {seconds:g} seconds"
        time.sleep(every)


def free_port() -> int:
    """A port that nobody listens on, for a server that is about to start.

    The kernel assigns ports from 32768 on to any socket that asks for none in particular. An ephemeral port could be
    given to another test before the server is there.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Served:
    """A running `rollbook serve`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log
        self.kept = Kept(log.parent, "ui", port)

    @property
    def url(self) -> str:
        """Where a browser finds the UI that was let in."""
        return f"http://{self.kept.read().name}:{self.port}"

    @property
    def address(self) -> str:
        """Where a browser is let in."""
        return self.kept.read().url(self.port)

    def family(self) -> set[int]:
        """The ids of all processes that carry this server's DAGSTER_HOME, no matter under which parent."""
        mark = f"DAGSTER_HOME={self.log.parent}\0".encode()
        numbers = set()
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdecimal() and mark in (folder / "environ").read_bytes() + b"\0":
                    numbers.add(int(folder.name))
            except OSError:  # somebody else's, or already gone
                continue
        return numbers - {os.getpid()}

    def stop(self) -> None:
        """Ask the server to stop, as a service manager does; else kill the server, which the return code shows."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(90)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)

    def ask(self, query: str, **variables: Any) -> Any:
        """One GraphQL query of a program."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.kept.read().token}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/graphql", body, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
            return json.load(answer)["data"]

    def runs(self) -> list[dict[str, Any]]:
        """The id, status, start and tags of all runs, the newest first."""
        runs = self.ask(RUNS)["runsOrError"]["results"]
        return [{**run, "tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in runs]

    def worker_of(self, run_id: str) -> int | None:
        """The process that does a run's work, and so holds the lock."""
        lock = str(self.log.parent / "storage" / run_id / "process.lock")
        for number in sorted(self.family()):
            with suppress(OSError):  # the process has ended
                if any(os.readlink(fd) == lock for fd in Path(f"/proc/{number}/fd").iterdir()):  # noqa: PTH115
                    return number
        return None

    def answers(self) -> bool:
        """Whether the UI is up; fails when the command ended instead."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def serving(home: Path, env: Mapping[str, str], *arguments: str, port: int | None = None) -> Iterator[Served]:
    """`rollbook serve`, up and answering; stopped by SIGTERM at the end of the block, if still running.

    `home` is DAGSTER_HOME and gets the dagster.yaml of the project; the variable marks all processes of the server.
    """
    dagster_home(home)
    with served_bare({**os.environ, **env, "DAGSTER_HOME": str(home)}, port or free_port(), *arguments) as served:
        yield served


@contextmanager
def served_bare(
    env: Mapping[str, str], port: int, *arguments: str, command: Sequence[str] = COMMAND, folder: Path = ROOT
) -> Iterator[Served]:
    """The same with an environment alone, for a `rollbook` that is started in a folder."""
    log = Path(env["DAGSTER_HOME"]) / "serve.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*command, "serve", "--port", str(port), *arguments],
            cwd=folder,
            env=env,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    served = Served(process, port, log)
    try:
        try:
            until(served.answers, START_WITHIN)
        except AssertionError as error:
            ended = process.poll()
            state = "still starting" if ended is None else f"ended with {ended}"
            raise AssertionError(f"not up ({state}); its log: {log.read_text()[-4000:]}") from error
        yield served
    finally:
        if process.poll() is None:
            served.stop()
        for number in served.family():  # only what this server started
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
