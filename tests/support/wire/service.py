"""A records service over scripted records, with any faults, for every test that fetches.

with Service(students(250), classes(3)) as service:
    service.on(faults.status(500), path="students", page=2, times=2)
    ...
    assert [r.page for r in service.asked("students")] == [1, 2, 2, 2, 3]

The service answers as the sandbox does, but on a special server: a proper server never cuts an answer off, or resets a
connection.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from rollbook import sandbox
from rollbook.sandbox import error_reply

__all__ = ["KEY", "Asked", "Bend", "Reply", "Sandbox", "Server", "Service", "error_reply"]

KEY = "k3y-of-the-made-up-school"


@dataclass(frozen=True, kw_only=True)
class Asked(sandbox.ReceivedRequest):
    """A request, the time, and the connection."""

    connection: int
    at: datetime


@dataclass
class Reply(sandbox.Reply):
    """An answer, after a `delay`.

    `wire` is whole, "cut" (the body ends in the middle, and so does the connection) or "reset" (before any byte).
    """

    wire: str = "whole"
    delay: float = 0.0


# A fault: gets what would be answered, returns what is answered.
Bend = Callable[[Asked, Reply], sandbox.Reply]


class Server(ThreadingHTTPServer):
    """Answers until `end`."""

    daemon_threads = True

    def __init__(self, answer: Callable[[Asked], sandbox.Reply]) -> None:
        self.answer, self.connections, self.stopping = answer, 0, threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def end(self) -> None:
        """Take no more connections, and reset connections that ask again or still wait."""
        self.stopping.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing when a client leaves in the middle."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet, or the client waits for the second packet
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1
        self._number = self.server.connections

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        request = Asked(
            path=target.path.removeprefix("/svcapi/v1/"),
            params=dict(parse_qsl(target.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
            method=self.command,
            connection=self._number,
            at=datetime.now(UTC),
        )
        reply = _whole(self.server.answer(request))
        if self.server.stopping.wait(reply.delay) or reply.wire == "reset":
            # Lingering for no time makes the kernel reset the connection instead of closing it.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return
        content = reply.content()
        self.send_response_only(reply.status, "Answered")
        for name, value in ({"content-length": str(len(content))} | reply.headers).items():
            self.send_header(name, value)
        self.end_headers()
        if reply.wire == "cut":
            content = content[: len(content) // 2]
            self.close_connection = True
        self.wfile.write(content)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the service refuses other methods

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class Faulty(sandbox.Service):
    """A service with faults, on a free port of loopback until the end of the block.

    It remembers every request. `before`, called with each request before the answer, may change the records during the
    walk.
    """

    def __init__(self, *arguments: Any, **over: Any) -> None:
        super().__init__(*arguments, **over)
        self.before: Callable[[Asked], None] | None = None
        self.requests: list[Asked] = []
        self._plan: list[Bend] = []

    def __enter__(self) -> Self:
        self._listening = Server(self.bent)
        self.port, self.url = self._listening.server_port, self._listening.url
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.end()

    @property
    def connections(self) -> int:
        """How many connections there have been."""
        return self._listening.connections

    def on(
        self,
        bend: Bend,
        *,
        path: str | None = None,
        page: int | None = None,
        search: bool | None = False,
        times: int | None = 1,
        skip: int = 0,
    ) -> None:
        """Bend the next `times` answers (None: all) to such a request, after letting `skip` answers pass.

        `search` tells searches from plain lists: only lists by default, None for both. The oldest plan that applies
        bends an answer first; a later plan bends the result.
        """

        def planned(request: Asked, reply: Reply) -> sandbox.Reply:
            nonlocal skip, times
            if (
                path not in (None, request.path)
                or page not in (None, request.page)
                or search not in (None, request.search is not None)
                or times == 0
            ):
                return reply
            if skip:
                skip -= 1
                return reply
            if times is not None:
                times -= 1
            return bend(request, reply)

        self._plan.append(planned)

    def mend(self) -> None:
        """Forget every plan."""
        self._plan.clear()

    def bent(self, request: Asked) -> Reply:
        """Answer one request, with the faults that are planned."""
        self.requests.append(request)
        if self.before is not None:
            self.before(request)
        reply = _whole(self.answer(request))
        for planned in self._plan:
            reply = _whole(planned(request, reply))
        return reply

    def asked(self, path: str, *, search: bool = False) -> list[Asked]:
        """The requests for a path so far: the searches, or everything else."""
        return [r for r in self.requests if r.path == path and (r.search is not None) == search]


class Service(Faulty):
    """A service of some students and classes."""

    def __init__(
        self, students: Iterable[dict[str, Any]] = (), classes: Iterable[dict[str, Any]] = (), **over: Any
    ) -> None:
        school = {"id": 41, "name": "Made-up School", "key": "made-up-school"}
        super().__init__(students, classes, **{"key": KEY, "school": school, **over})

    def hide(self, *ids: int) -> None:
        """Leave some students out of the list, though a search finds them."""

        def bend(request: Asked, reply: Reply) -> sandbox.Reply:
            return self.listed(request, [s for s in self.students if s["id"] not in ids])

        self.on(bend, path="students", times=None)


class Sandbox(Faulty, sandbox.Sandbox):
    """The made-up school, with faults."""


def _whole(reply: sandbox.Reply) -> Reply:
    return reply if isinstance(reply, Reply) else Reply(reply.payload, reply.status, reply.headers, reply.body)
