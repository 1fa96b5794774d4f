"""Runs the service: uvicorn on loopback, in a thread for tests or in the foreground for a command.

Loopback only: the pupils are made up, but a key in clear text on a network would set a bad example.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from ipaddress import ip_address
from threading import Event, Thread
from types import FrameType, TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette

from pipelines.errors import ArgumentError
from pipelines.sandbox.institution import Institution
from pipelines.sandbox.service import DEFAULT_SCHOOL, School, Service, make_app, school_of

DEFAULT_KEY = "sandbox-key"
DEFAULT_PORT = 8765
_START_WITHIN = 10.0  # seconds
_STOP_WITHIN = 5.0
_CLOCK_CHECK = 20.0  # seconds; soon after midnight, even on a machine that was asleep
_KEPT_ALIVE = 75  # seconds, so that a client may pause between two pages without losing the connection


class Sandbox:
    """A records service in a thread of this process, for the length of a `with` block.

    `with Sandbox(students=500, day=date(2026, 11, 20)) as sandbox:` serves at `sandbox.base_url`. `sandbox.day` is the
    day being played and may be set at any time: when the assignment returns, the new day is served. Without a day it
    plays today (UTC) and stays there. Port 0 takes any free one.
    """

    def __init__(
        self,
        students: int = 500,
        *,
        seed: int = 1,
        day: date | None = None,
        api_key: str = DEFAULT_KEY,
        port: int = 0,
        host: str = "127.0.0.1",
        school: School = DEFAULT_SCHOOL,
        institution: Institution | None = None,
    ) -> None:
        """`institution` replaces `students` and `seed`.

        Raises ArgumentError as `make_app` does, and for a host that is not loopback.
        """
        self.api_key = api_key
        self.institution = institution or Institution(students, seed)
        self._address = (_loopback(host), port)
        self._app = make_app(self.institution, day=day or _today(), api_key=api_key, school=school)
        self._running: _Running | None = None

    @property
    def day(self) -> date:
        """The day being played."""
        return self._service.day

    @day.setter
    def day(self, day: date) -> None:
        self._service.day = day

    @property
    def base_url(self) -> str:
        """The URL before /svcapi/v1. Raises RuntimeError outside of the `with` block."""
        if self._running is None:
            raise RuntimeError("the sandbox is not running: use it in a `with` block")
        return self._running.base_url

    def __enter__(self) -> Self:
        self._running = _Running(self._app, *self._address)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            self._running.stop()
            self._running = None

    @property
    def _service(self) -> Service:
        service: Service = self._app.state.service
        return service


def serve(
    students: int = 500,
    day: date | None = None,
    port: int = DEFAULT_PORT,
    seed: int = 1,
    api_key: str = DEFAULT_KEY,
    *,
    host: str = "127.0.0.1",
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve in the foreground until SIGINT or SIGTERM, then finish the running requests and return.

    Plays `day`; without one, always today (UTC). `on_ready` is called once with the base URL, when the server answers.
    Raises ArgumentError for a host that is not loopback, a port that is taken, or a day before the school opened.
    """
    listener = _listen(_loopback(host), port)
    with listener:
        app = make_app(Institution(students, seed), day=day or _today(), api_key=api_key, school=school_of(seed))
        server = _Server(app, ready=lambda: on_ready and on_ready(_url(listener)))
        with _ClockFollower(app.state.service, is_followed=day is None):
            server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn without logs. Calls `ready` once it answers."""

    def __init__(self, app: Starlette, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                ws="none",
                log_config=None,
                log_level="critical",
                access_log=False,
                timeout_keep_alive=_KEPT_ALIVE,
                timeout_graceful_shutdown=2,
            )
        )
        self._ready = ready

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as uvicorn calls it
        """Shut down gracefully on a signal. uvicorn's own handler would raise the signal again afterwards."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


class _Running:
    """A server in a thread. It answers as soon as the constructor returns."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        self._listener = _listen(host, port)
        self.base_url = _url(self._listener)
        is_ready = Event()
        self._server = _Server(app, ready=is_ready.set)
        self._thread = Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}, name="sandbox", daemon=True
        )
        self._thread.start()
        if not is_ready.wait(_START_WITHIN):
            self.stop()
            raise RuntimeError(f"the sandbox did not start within {_START_WITHIN:.0f} seconds")

    def stop(self) -> None:
        """Stop the server and its thread; connections that stay open are cut."""
        self._server.should_exit = True
        self._thread.join(_STOP_WITHIN)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(_STOP_WITHIN)
        self._listener.close()
        if self._thread.is_alive():
            raise RuntimeError("the sandbox's server did not stop")


class _ClockFollower:
    """Advances the service's day with the real date (UTC) during the block, if `is_followed`."""

    def __init__(self, service: Service, is_followed: bool) -> None:
        self._service, self._is_followed, self._stopping = service, is_followed, Event()
        self._ahead = service.day - _today()
        self._thread = Thread(target=self._follow, name="sandbox clock", daemon=True)

    def __enter__(self) -> None:
        if self._is_followed:
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._is_followed:
            self._thread.join(_STOP_WITHIN)

    def _follow(self) -> None:
        while not self._stopping.wait(min(_CLOCK_CHECK, _until_midnight())):
            current = _today() + self._ahead
            if self._service.day != current:
                self._service.day = current


def _today() -> date:
    return datetime.now(UTC).date()


def _until_midnight() -> float:
    now = datetime.now(UTC)
    midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
    return (midnight - now).total_seconds() + 0.05


def _loopback(host: str) -> str:
    """Return the host. Raises ArgumentError unless it is loopback."""
    try:
        is_loopback = ip_address("127.0.0.1" if host == "localhost" else host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ArgumentError(f"The sandbox listens on this machine only, not on {host!r}. Use 127.0.0.1.")
    return host


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises ArgumentError for a port that is invalid or taken."""
    if not 0 <= port <= 65535:
        raise ArgumentError(f"{port} is not a port. Use one from 1 to 65535, or 0 for any free one.")
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ArgumentError(f"Port {port} on {host} cannot be used ({error.strerror}). Choose another.") from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
