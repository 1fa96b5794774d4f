"""Where the service runs: loopback only, in a thread or in the foreground, with a clock that moves, and fast."""

import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import httpx
import pytest

from pipelines.errors import ArgumentError
from pipelines.sandbox import DEFAULT_KEY, Institution, Sandbox, serve, server
from tests.support.processes.servers import until

DAY = date(2026, 11, 20)


def get(base_url: str, path: str, key: str = DEFAULT_KEY) -> httpx.Response:
    return httpx.get(f"{base_url}/svcapi/v1{path}", headers={"X-API-Key": key}).raise_for_status()


def played_at(base_url: str) -> str:
    return str(get(base_url, "/auth").json()["data"]["timestamp"][:10])


def test_the_day_moves_while_serving_and_back() -> None:
    with Sandbox(students=120, day=DAY) as sandbox:
        school = Institution(120)
        for day in (DAY, DAY + timedelta(days=1), DAY + timedelta(days=40), DAY - timedelta(days=3)):
            sandbox.day = day
            assert sandbox.day == day
            assert played_at(sandbox.base_url) == day.isoformat()
            assert get(sandbox.base_url, "/students?limit=100").json()["data"] == school.on(day).students[:100]
            assert get(sandbox.base_url, "/classes?limit=100").json()["data"] == school.on(day).classes[:100]
        with pytest.raises(ArgumentError, match="opened on"):
            sandbox.day = date(2000, 1, 1)
        assert played_at(sandbox.base_url) == (DAY - timedelta(days=3)).isoformat()


def test_a_move_of_the_clock_in_mid_walk_never_mixes_days_within_a_page() -> None:
    days = [DAY, DAY + timedelta(days=3)]
    first_pages = [Institution(150).on(day).students[:100] for day in days]
    assert first_pages[0] != first_pages[1]
    with Sandbox(students=150, day=DAY) as sandbox, httpx.Client(headers={"X-API-Key": DEFAULT_KEY}) as client:
        over = threading.Event()

        def move() -> None:
            for turn in range(20):
                sandbox.day = days[turn % 2]
            over.set()

        mover = threading.Thread(target=move)
        mover.start()
        while not over.is_set():
            body = client.get(f"{sandbox.base_url}/svcapi/v1/students?limit=100").json()
            assert body["data"] in first_pages
        mover.join(10)


def test_leaving_the_block_frees_the_port_and_ends_the_thread_though_a_client_holds_on() -> None:
    before = set(threading.enumerate())
    with httpx.Client(headers={"X-API-Key": DEFAULT_KEY}) as client:
        with Sandbox(students=20, day=DAY) as sandbox:
            url = sandbox.base_url
            client.get(f"{url}/svcapi/v1/auth").raise_for_status()
        started = time.monotonic()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/svcapi/v1/auth")
        assert time.monotonic() - started < 2
    assert set(threading.enumerate()) <= before
    with pytest.raises(RuntimeError, match="not running"):
        _ = sandbox.base_url
    with Sandbox(students=20, day=DAY, port=int(url.rpartition(":")[2])) as again:
        assert again.base_url == url


def test_an_error_in_the_block_stops_the_sandbox_too() -> None:
    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), Sandbox(students=20, day=DAY):
        _ = 1 / 0
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.0.2.7", "::", "example.org"])  # noqa: S104 - must be refused
def test_only_loopback_is_listened_on(host: str) -> None:
    with pytest.raises(ArgumentError, match="this machine only"):
        Sandbox(students=5, day=DAY, host=host)
    with pytest.raises(ArgumentError, match="this machine only"):
        serve(5, DAY, 0, host=host)


def test_a_port_that_is_taken_or_impossible_is_said_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ArgumentError, match=f"Port {port} on 127.0.0.1 cannot be used"):
            serve(5, DAY, port)
        with pytest.raises(ArgumentError, match=f"Port {port}"), Sandbox(students=5, day=DAY, port=port):
            pass
    with pytest.raises(ArgumentError, match="70000 is not a port"):
        serve(5, DAY, 70000)


def test_without_a_day_today_is_played() -> None:
    earlier = datetime.now(UTC).date()
    with Sandbox(students=20) as sandbox:
        assert earlier <= sandbox.day <= datetime.now(UTC).date()


def test_the_day_moves_on_at_midnight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is looked at again after midnight; one that started ahead stays ahead."""
    now = [date(2026, 11, 20)]
    monkeypatch.setattr(server, "_today", lambda: now[0])
    monkeypatch.setattr(server, "_CLOCK_CHECK", 0.01)
    sandbox = Sandbox(students=20, day=date(2026, 12, 1))
    with server._ClockFollower(sandbox._service, is_followed=True):
        now[0] = date(2026, 11, 21)
        until(lambda: sandbox.day == date(2026, 12, 2), 10, every=0.01)
        now[0] = date(2026, 11, 25)
        until(lambda: sandbox.day == date(2026, 12, 6), 10, every=0.01)
    with server._ClockFollower(sandbox._service, is_followed=False):
        now[0] = date(2026, 11, 26)
        time.sleep(0.1)
        assert sandbox.day == date(2026, 12, 6)


def _serve(students: int, day: date | None, ready: Connection) -> None:
    serve(students, day, 0, on_ready=ready.send)


@contextmanager
def serving(students: int, day: date | None) -> Iterator[tuple[str, BaseProcess]]:
    """`serve` in a process of its own, ended at the latest with the block."""
    there, here = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(students, day, here), daemon=True)
    process.start()
    try:
        assert there.poll(60), "the sandbox did not start"
        yield there.recv(), process
    finally:
        process.kill()
        process.join(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_foreground_server_plays_today_and_stops_when_told(number: signal.Signals) -> None:
    earlier = datetime.now(UTC).date().isoformat()
    with serving(50, day=None) as (base_url, process):
        assert earlier <= played_at(base_url) <= datetime.now(UTC).date().isoformat()
        assert process.pid is not None
        os.kill(process.pid, number)
        process.join(60)
        assert process.exitcode == 0
