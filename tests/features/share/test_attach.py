"""Real DuckDB attaches the published file by the lines that `rollbook share add` prints."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rollbook.settings import ROOT
from rollbook.store.database import connect
from tests.support.processes.commands import run_at
from tests.support.processes.desks import Nights
from tests.support.processes.exploring import exploring
from tests.support.warehouses.school import FIRST, School
from tests.support.wire import environments

PINS = Path(__file__).with_name("httpfs.txt")
PLACE = ROOT / ".venv-httpfs"
PROGRAM = Path(__file__).with_name("attached.py")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Analyst:
    """A DuckDB of another Python."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, statement: str) -> Any:
        """The rows, or the error's text."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(statement)}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["error"] if "error" in answer else [tuple(row) for row in answer["rows"]]


@pytest.fixture(scope="module")
def python() -> Path:
    """The Python with httpfs; where it cannot be had the tests fail in CI, and elsewhere are skipped aloud."""
    try:
        return environments.interpreter(PINS, PLACE)
    except environments.EnvironmentFailedError as error:
        message = f"DuckDB with httpfs is {error}; no real ATTACH over HTTP was tried"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


@contextmanager
def analyst(python: Path) -> Iterator[Analyst]:
    """A DuckDB with httpfs, for as long as the block lasts."""
    command = [str(python), str(PROGRAM)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Analyst(process)
        process.kill()


def lines(school: School, port: int, name: str, *options: str) -> list[str]:
    """The lines that an analyst types, with the address of a server."""
    added = run_at(school.warehouse, "share", "add", name, *options, ROLLBOOK_PSEUDONYMOUS="1")
    assert added.returncode == 0, added.stderr
    typed = added.stdout.replace("https://rollbook.example.org", f"http://127.0.0.1:{port}")
    return typed.splitlines()[-3:]


def test_three_lines_open_the_school_until_the_token_is_taken_away(small: School, python: Path, tmp_path: Path) -> None:
    small.sync(FIRST, pseudonymous=True)
    with exploring(small.warehouse, tmp_path / "run") as explored, analyst(python) as book:
        secret, attach, use = lines(small, explored.port, "ash", "--names", "--yes")
        assert "database does not exist" in book.ask(attach)
        assert book.ask(secret) == [(True,)]
        assert [book.ask(attach), book.ask(use)] == [[], []]
        for query in (
            "SELECT COUNT(*), SUM(HASH(student_id)) FROM students",
            "SELECT COUNT(*) FROM students_to_watch",
            f"SELECT COUNT(*) FROM students_as_of('{FIRST}')",
            "SELECT COUNT(*) FROM history.student_classes",
            "SELECT COUNT(*) FROM data_quality",
        ):
            assert book.ask(query) == small.rows(query), query
        assert "read-only" in book.ask("DELETE FROM students")
        book.ask("SET enable_external_file_cache = false")  # with it, DuckDB keeps what was read of this version
        assert [book.ask(each) for each in ("USE memory", "DETACH rollbook", attach, use)] == [[]] * 4
        assert run_at(small.warehouse, "share", "remove", "ash").returncode == 0
        assert "HTTP 401" in book.ask("SELECT SUM(HASH(c)) FROM changes AS c")
        assert [book.ask("USE memory"), book.ask("DETACH rollbook")] == [[], []]
        assert "database does not exist" in book.ask(attach)
        # Without names, beside no other secret.
        secret, attach, use = lines(small, explored.port, "elm")
        assert book.ask(secret.replace("SECRET", "OR REPLACE SECRET")) == [(True,)]
        assert [book.ask(attach), book.ask(use)] == [[], []]
        assert book.ask("SELECT COUNT(*), COUNT(name) FROM students") == [(61, 0)]
        assert book.ask("SELECT COUNT(*) FROM students_to_watch") == small.rows(
            "SELECT COUNT(*) FROM students_to_watch"
        )
        assert "database does not exist" in book.ask(attach.replace("-pseudonymous", "").replace("AS rollbook", "AS x"))


def test_the_secret_goes_to_no_other_address(python: Path) -> None:
    with analyst(python) as book:
        book.ask("CREATE SECRET rollbook (TYPE http, BEARER_TOKEN 't', SCOPE 'https://rollbook.example.org/file/')")
        which = "SELECT name FROM which_secret('{}', 'http')"
        assert book.ask(which.format("https://rollbook.example.org/file/rollbook.duckdb")) == [("rollbook",)]
        assert book.ask(which.format("https://rollbook.example.com/file/rollbook.duckdb")) == []
        assert book.ask(which.format("https://rollbook.example.org.evil.example/file/")) == []


def test_eight_programs_attach_one_night_each_through_thirty_publishes(nights: Nights, port: int, python: Path) -> None:
    known = dict[int, int]()

    def publish(number: int) -> None:
        file = nights.root / "next"
        with connect(file, scratch=nights.root) as con:
            con.execute(
                f"CREATE TABLE n AS SELECT {number} AS night, HASH(i, {number}) AS value FROM RANGE(200_000) AS t (i)"
            )
            ((known[number],),) = con.execute("SELECT BIT_XOR(value) FROM n").fetchall()
        nights.publish_file(file)

    is_over = threading.Event()
    address = f"http://127.0.0.1:{port}/file/"

    def work(book: Analyst, token: str) -> list[int]:
        read = []
        book.ask(f"CREATE SECRET s (TYPE http, BEARER_TOKEN '{token}', SCOPE '{address}')")
        while not is_over.is_set():
            assert book.ask(f"ATTACH '{address}rollbook.duckdb' AS rollbook (READ_ONLY)") == []
            ((night, last, count, value),) = book.ask(
                "SELECT MIN(night), MAX(night), COUNT(*), BIT_XOR(value) FROM rollbook.n"
            )
            assert (last, count, value) == (night, 200_000, known[night])
            assert book.ask("DETACH rollbook") == []
            read.append(night)
        return read

    publish(3)
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        books = [stack.enter_context(analyst(python)) for _ in range(8)]
        working = [pool.submit(work, book, nights.token(f"reader-{n}")) for n, book in enumerate(books)]
        for number in range(4, 34):
            publish(number)
        is_over.set()
        read = [number for each in working for number in each.result()]
    assert len(read) > 30
    assert len({*read}) > 5
