"""The shared file from the server of `rollbook explore`, while other processes remove readers and erase."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from rollbook.features.share.register import Register
from tests.support.nights import House, new_house
from tests.support.processes import canary
from tests.support.processes.commands import run_at
from tests.support.processes.desks import Answer, Desk, sharing
from tests.support.processes.exploring import exploring
from tests.support.records import classes
from tests.support.warehouses.erasures import erase, everybody
from tests.support.warehouses.school import School

pytestmark = [pytest.mark.nights, pytest.mark.timeout(300)]


def test_explore_serves_it_to_tokens_of_its_own_alone(small: School, tmp_path: Path) -> None:
    register, content = Register(small.warehouse), small.published.read_bytes()
    token = register.add("ash", names=True, at=datetime.now(UTC))
    with exploring(small.warehouse, tmp_path / "run") as explored:
        desk = Desk(explored.port, token)
        assert desk.attach() == len(content)
        assert desk.ask(headers={"Host": "rollbook.example.org"}).body == content
        theirs = {"Authorization": f"Bearer {explored.token}", "Host": explored.host}
        assert desk.ask(headers=theirs).status == 401
        assert desk.ask(headers=theirs | {"Cookie": f"rollbook-{explored.port}={explored.token}"}).status == 401
        assert desk.ask(headers=theirs, path="/students").status == 200
        for path in ("/students", "/file", "//file/rollbook.duckdb", "/files/rollbook.duckdb", "/health/../students"):
            assert desk.ask(path=path, headers={"Host": explored.host}).status == 401, path
        assert desk.read(0, 9).status == 206
        assert run_at(small.warehouse, "share", "remove", "ash").returncode == 0
        assert [desk.read(0, 9).status, desk.ask().status, desk.ask("HEAD").status] == [401] * 3
        assert explored.stop() == 0
        assert explored.asks_elsewhere() == []


def test_after_an_erasure_no_program_gets_a_byte_of_the_student(tmp_path: Path) -> None:
    with new_house() as house:
        house.night(1, everybody(1), classes(3))
        token = Register(house.warehouse).add("ash", names=True, at=house.now)
        with sharing(house.warehouse) as port:
            desk = Desk(port, token)
            size = desk.attach()
            assert has_canary(tmp_path, desk.read(0, size))
            other = Register(house.warehouse).add("elm", names=True, at=house.now)
            answers = read_during(house, Desk(port, other))
            assert {answer.status for answer in answers} <= {200, 206, 410, 503}
            since = [answer.status for answer in answers].index(503)
            assert any(has_canary(tmp_path, answer) for answer in answers[:since])
            assert not any(has_canary(tmp_path, answer) for answer in answers[since:])
            assert [desk.read(0, size).status, desk.read(0, 0).status] == [410, 410]
            desk.attach()
            assert not has_canary(tmp_path, desk.ask())


def read_during(house: House, desk: Desk) -> list[Answer]:
    """Erase the canary, while a program goes on attaching and reading; returns what it got."""
    is_over, answers = Event(), list[Answer]()

    def work() -> None:
        while not is_over.is_set():
            answers.extend((desk.ask("HEAD"), desk.read(0, 2**30)))

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        time.sleep(0.3)
        erase(house)
        is_over.set()
        working.result()
    return answers


def has_canary(folder: Path, answer: Answer) -> bool:
    """Whether a file that came whole has anything of the canary."""
    is_whole = answer.status in (200, 206) and len(answer.body) == int(answer.headers["Content-Length"]) > 0
    (folder / "got.duckdb").write_bytes(answer.body)
    return is_whole and bool(canary.found(folder))
