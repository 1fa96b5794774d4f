"""Rollbook's command in a process of its own, and the command's Dagster home.

The process is forked from one that has imported what all commands need: to start a Python and import everything takes a
second of a core, ten times as long as most commands take.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rollbook.settings import ROOT
from rollbook.terminal import CONFIGURATION

COMMAND = (str(Path(sys.executable).with_name("rollbook")),)

# The settings of a service that nobody runs.
UNREACHABLE = {"ROLLBOOK_BASE_URL": "http://127.0.0.1:9", "ROLLBOOK_API_KEY": "k", "ROLLBOOK_RETRY_SECONDS": "0"}

# The command's own modules are not imported before: they see the variables of the process during the import.
_IMPORTED = (
    "typer",
    "rich.markdown",
    "rich.progress",
    "rich.table",
    "rollbook.night.past",
    "rollbook.reading.query",
    "rollbook.night.diff",
    "rollbook.night.discard",
    "rollbook.health.doctor",
    "rollbook.rights.erasure",
    "jinja2",
    "httpcore",
    "upath",
    "pandas",  # pyarrow imports pandas for the first array
)
_SECONDS = 200


def run_command(
    *arguments: str, env: Mapping[str, str], cwd: Path = ROOT, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command to the end, with more variables than this process's."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.processes.kills", *_IMPORTED])
    with tempfile.TemporaryDirectory() as root:
        streams = [Path(root, name) for name in ("in", "out", "err")]
        for stream in streams:
            stream.write_text(stdin if stream.name == "in" else "")
        variables = {
            **os.environ,
            "COLUMNS": "200",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            **env,
        }
        process = context.Process(target=_run, args=(arguments, variables, cwd, streams))
        process.start()
        process.join(_SECONDS)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(arguments, _SECONDS)
        _, out, err = (stream.read_text() for stream in streams)
        return subprocess.CompletedProcess([*COMMAND, *arguments], process.exitcode, out, err)


def run_in_dagster(home: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A sync of today as a run of Dagster's, without a server. The folder is Dagster's home: no `.env` is read."""
    job = ("-m", "rollbook.definitions", "--select", "*", "--partition", f"{datetime.now(UTC):%Y-%m-%d}")
    command = [sys.executable, "-m", "dagster", "asset", "materialize", *job]
    variables = {**os.environ, **env, "DAGSTER_HOME": str(home)}
    return subprocess.run(
        command, env=variables, cwd=home, capture_output=True, text=True, check=False, timeout=_SECONDS
    )


def run_at(warehouse: Path, *arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command over a warehouse, without a key and from another folder: a reader needs neither."""
    own = {"ROLLBOOK_WAREHOUSE": str(warehouse), "COLUMNS": "250"}
    return run_command(*arguments, env=own | env, cwd=Path("/"), stdin=stdin)


def _run(arguments: tuple[str, ...], variables: dict[str, str], cwd: Path, streams: list[Path]) -> None:
    """Be the command: with arguments, variables, folder and three streams."""
    for number, (stream, how) in enumerate(zip(streams, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)):
        os.dup2(os.open(stream, how), number)
    sys.stdin, sys.stdout, sys.stderr = open(0, closefd=False), open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    os.chdir(cwd)
    sys.argv = [*COMMAND, *arguments]
    sys.orig_argv = [sys.executable, *sys.argv]
    from rollbook.cli import main

    main()


def dagster_home(home: Path) -> Path:
    """A folder for DAGSTER_HOME, with the project's dagster.yaml."""
    home.mkdir(exist_ok=True)
    shutil.copyfile(CONFIGURATION, home / "dagster.yaml")
    return home


class Program:
    """A Python program in a new process, which is told lines and answers with lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._input, self._output = process, process.stdin, process.stdout

    def read(self) -> str:
        """The program's next line."""
        return self._output.readline().rstrip("\n")

    def ask(self, line: object) -> str:
        """Tell the program a line; returns the answer."""
        self._input.write(f"{line}\n")
        self._input.flush()
        return self.read()

    def end(self) -> list[str]:
        """End the input and wait; returns what else the program said. It must have met no error."""
        printed, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return printed.splitlines()


@contextmanager
def program(*arguments: object) -> Iterator[Program]:
    """Run Python for as long as the block lasts."""
    command = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Program(process)
        finally:
            process.kill()
