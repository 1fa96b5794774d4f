"""The sandbox over HTTP.

On loopback only: the pupils are made up, but a key in clear text on a network would set a bad example.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from socket import create_server
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from rollbook.errors import ArgumentError
from rollbook.sandbox.institution import MadeUpInstitution, Record
from rollbook.sandbox.odd import Odd
from rollbook.sandbox.service import DEFAULT_KEY, SEARCHED, ReceivedRequest, Reply, Service, school_of

HOST = "127.0.0.1"
_CLOCK_CHECK = 20.0  # seconds; soon after midnight, even on a machine that was asleep
_STOP_WITHIN = 1  # seconds, for requests that are being answered


def app(answer: Callable[[ReceivedRequest], Reply]) -> Starlette:
    """The application that answers every request."""

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        reply = answer(
            ReceivedRequest(
                path=request.url.path.removeprefix("/svcapi/v1/"),
                params=dict(request.query_params),
                headers=dict(request.headers),
                method=request.method,
            )
        )
        await Response(reply.content(), reply.status, reply.headers)(scope, receive, send)

    return Starlette(routes=[Mount("/", endpoint)])


class Server:
    """Serves an application on a port of loopback for the length of a `with` block, in a thread."""

    def __init__(self, application: Starlette, port: int = 0) -> None:
        self._application, self._port = application, port

    def __enter__(self) -> Self:
        """Raises ArgumentError for a port that cannot be used."""
        try:
            opened = create_server((HOST, self._port))
        except (OSError, OverflowError) as error:
            raise ArgumentError(f"Port {self._port} on {HOST} cannot be used. Choose another, or 0 for any.") from error
        self.port: int = opened.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}"
        config = uvicorn.Config(
            self._application,
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_STOP_WITHIN,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [opened]}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()


class Sandbox(Service):
    """The service of a made-up school. `day` is the day being played, which may be set at any time.

    When the assignment returns, the new day is served. Without a day it plays today (UTC) and stays there.
    """

    def __init__(
        self,
        students: int = 500,
        *,
        seed: int = 1,
        day: date | None = None,
        api_key: str = DEFAULT_KEY,
        port: int = 0,
        school: Mapping[str, Any] | None = None,
        institution: MadeUpInstitution | None = None,
        odd: bool = False,
    ) -> None:
        """`institution` replaces `students` and `seed`; an `odd` one answers like many real services (`odd.py`).

        Raises ArgumentError for a day before the school opened.
        """
        super().__init__(key=api_key, school=school or school_of(seed))
        self.institution = institution or MadeUpInstitution(students, seed)
        self.now = lambda: datetime.combine(self.day, datetime.now(UTC).time())
        self.day = day or _today()
        self._server = Server(app(Odd(self.answer).answer if odd else self.answer), port)

    def __enter__(self) -> Self:
        self._server.__enter__()
        self.port, self.url = self._server.port, self._server.url
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)

    @property
    def day(self) -> date:
        """The day being played."""
        return self._day

    @day.setter
    def day(self, day: date) -> None:
        played = self.institution.on(day)
        # Of a hundred thousand students a search would otherwise take a tenth of a second.
        self._texts = ["\n".join(each[name] for name in SEARCHED["students"]).casefold() for each in played.students]
        self._day, self.students, self.classes = day, played.students, played.classes

    def _search(self, request: ReceivedRequest, records: list[Record]) -> list[Record]:
        if request.search and records is self.students:
            sought = request.search.casefold()
            return [each for each, text in zip(records, self._texts, strict=True) if sought in text]
        return super()._search(request, records)


def serve(
    students: int, day: date | None, port: int, seed: int, key: str, *, odd: bool, on_ready: Callable[[str], None]
) -> None:
    """Serve in the foreground until SIGINT or SIGTERM. Plays `day`; without one, always today (UTC).

    `on_ready` is called once with the URL, when the server answers. Raises ArgumentError as `Sandbox` does.
    """
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with Sandbox(students, seed=seed, day=day, api_key=key, port=port, odd=odd) as sandbox:
        on_ready(sandbox.url)
        while not stopping.wait(_CLOCK_CHECK):
            if day is None and sandbox.day != _today():
                sandbox.day = _today()


def _today() -> date:
    return datetime.now(UTC).date()
