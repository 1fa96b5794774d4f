"""A records service on loopback whose faults are scripted: the other end of the wire for every test that fetches.

It serves lists of records as the contract says, remembers every request, and has the faults that a test gives it:

    with Service(students(250), classes(3)) as service:
        service.on(faults.status(500), path="students", page=2, times=2)
        ...
        assert [r.page for r in service.asked("students")] == [1, 2, 2, 2, 3]

`service.students` and `service.classes` may be changed at any time; `service.before`, called with each request before
it is answered, may change them while they are walked. (The sandbox is not this: it simulates an institution over many days.)
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

KEY = "k3y-of-the-made-up-school"
PREFIX = "/svcapi/v1/"
STUDENT_NAMES = ("name", "email", "reference_id")  # the fields that a search looks into


@dataclass(frozen=True)
class Asked:
    """One request as the service saw it."""

    path: str
    params: dict[str, str]
    headers: dict[str, str]
    connection: int
    at: datetime

    @property
    def page(self) -> int:
        """The page asked for."""
        return int(self.params.get("page", "1"))

    @property
    def search(self) -> str | None:
        """The name searched for, if any."""
        return self.params.get("search")


@dataclass
class Reply:
    """What the service is about to answer. `payload` is made JSON unless `body` holds the bytes themselves."""

    payload: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    body: bytes | None = None
    wire: str = "whole"
    delay: float = 0.0

    def content(self) -> bytes:
        """The body's bytes."""
        return self.body if self.body is not None else msgspec.json.encode(self.payload)


Bend = Callable[[Asked, Reply], Reply]


@dataclass
class _Planned:
    bend: Bend
    path: str | None
    page: int | None
    search: bool | None
    times: int | None
    skip: int

    def applies(self, asked: Asked) -> bool:
        if self.path not in (None, asked.path) or self.page not in (None, asked.page):
            return False
        if self.search is not None and self.search != (asked.search is not None):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times == 0:
            return False
        if self.times is not None:
            self.times -= 1
        return True


class Service:
    """The service: a context manager that serves on a free port of loopback, in a thread, until it is left."""

    def __init__(
        self,
        students: Iterable[dict[str, Any]] = (),
        classes: Iterable[dict[str, Any]] = (),
        *,
        key: str = KEY,
        school: dict[str, Any] | None = None,
        cap: int = 100,
    ) -> None:
        self.students = list(students)
        self.classes = list(classes)
        self.details: dict[int, Any] = {}
        # Sets that the contract does not have, by their endpoint.
        self.others: dict[str, list[dict[str, Any]]] = {}
        self.key = key
        self.school = school or {"id": 41, "name": "Made-up School", "key": "made-up-school"}
        self.cap = cap
        self.compress = False
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.before: Callable[[Asked], None] | None = None
        self.requests: list[Asked] = []
        self.connections = 0
        self._plan: list[_Planned] = []
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)

    @property
    def url(self) -> str:
        """The base address, known once it serves."""
        return f"http://127.0.0.1:{self.port}"

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
        """Bend the next `times` answers (None: all) to such a request, after letting `skip` of them pass.

        `search` tells searches from plain lists: only lists by default, None for both. The oldest plan that applies
        bends an answer first; a later one that applies bends what came of it.
        """
        self._plan.append(_Planned(bend, path, page, search, times, skip))

    def hide(self, *ids: int) -> None:
        """Leave these students out of the list, though a search finds them."""

        def bend(asked: Asked, reply: Reply) -> Reply:
            return self._list(asked, [s for s in self.students if s["id"] not in ids], STUDENT_NAMES)

        self.on(bend, path="students", times=None)

    def mend(self) -> None:
        """Forget every plan."""
        self._plan.clear()

    def asked(self, path: str, *, search: bool = False) -> list[Asked]:
        """The requests for one path so far: its searches, or everything else."""
        return [r for r in self.requests if r.path == path and (r.search is not None) == search]

    def __enter__(self) -> Service:
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive(), "the service did not stop"

    # --- the wire ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        open_now: set[asyncio.Task[None]] = set()

        def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            task = asyncio.ensure_future(self._talk(reader, writer, self.connections))
            open_now.add(task)
            task.add_done_callback(open_now.discard)

        server = await asyncio.start_server(take, sock=self._socket)
        await self._stop.wait()
        server.close()
        for task in list(open_now):
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    asked = _parse(await reader.readuntil(b"\r\n\r\n"), connection)
                    if not await self._answer(asked, writer):
                        break
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection is not to be used again."""
        self.requests.append(asked)
        reply = self._reply(asked)
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if reply.wire == "reset":
            # Lingering for no time makes the kernel send RST instead of FIN.
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return False
        content = reply.content()
        headers = dict(reply.headers)
        if self.compress and "gzip" in asked.headers.get("accept-encoding", ""):
            content = gzip.compress(content, 1)
            headers["content-encoding"] = "gzip"
        headers.setdefault("content-length", str(len(content)))
        lines = [f"HTTP/1.1 {reply.status} Answered", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        cut = reply.wire == "cut"
        writer.write("\r\n".join(lines).encode("latin-1") + (content[: len(content) // 2] if cut else content))
        await writer.drain()
        return not cut

    # --- the contract ------------------------------------------------------------------------------------------------

    def _reply(self, asked: Asked) -> Reply:
        if self.before is not None:
            self.before(asked)
        if asked.headers.get("x-api-key") != self.key:
            reply = error_reply(401, "AUTH_REQUIRED", "A valid API key is required")
        else:
            reply = self._good(asked)
        for planned in self._plan:
            if planned.applies(asked):
                reply = planned.bend(asked, reply)
        return reply

    def _good(self, asked: Asked) -> Reply:
        if asked.path == "auth":
            return Reply(
                {
                    "success": True,
                    "data": {
                        "authenticated": True,
                        "school": self.school,
                        "api_key_name": "nightly",
                        "timestamp": f"{self.now():%Y-%m-%d %H:%M:%S}",
                    },
                    "message": "API key is valid and active",
                }
            )
        if asked.path == "students":
            return self._list(asked, self.students, STUDENT_NAMES)
        if asked.path == "classes":
            return self._list(asked, self.classes, ("class_title", "class_code"))
        if asked.path in self.others:
            return self._list(asked, self.others[asked.path], ())
        if asked.path.startswith("student/"):
            return self._detail(int(asked.path.partition("/")[2]))
        return error_reply(404, "NOT_FOUND", "No such path")

    def _list(self, asked: Asked, records: list[dict[str, Any]], searched: tuple[str, ...]) -> Reply:
        if asked.search is not None:
            sought = asked.search.casefold()
            records = [r for r in records if any(sought in str(r.get(f) or "").casefold() for f in searched)]
        limit = min(int(asked.params.get("limit", "50")), self.cap)
        total, page = len(records), asked.page
        pages = -(-total // limit)
        return Reply(
            {
                "success": True,
                "data": records[(page - 1) * limit : page * limit],
                "pagination": {
                    "page": page,
                    "limit": limit,
                    "total_count": total,
                    "total_pages": pages,
                    "has_next": page < pages,
                    "has_prev": page > 1,
                },
            }
        )

    def _detail(self, student_id: int) -> Reply:
        found = next((s for s in self.students if s.get("id") == student_id), None)
        if found is None:
            return error_reply(404, "NOT_FOUND", "No such student")
        data = self.details.get(student_id, {**found, "courses": [{"course_id": 70, "assignments": []}]})
        return Reply({"success": True, "data": data})


def error_reply(status: int, code: str, message: str) -> Reply:
    """The contract's error body."""
    return Reply({"error": True, "message": message, "status_code": status, "error_code": code}, status)


def _parse(head: bytes, connection: int) -> Asked:
    first, *lines = head.decode("latin-1").split("\r\n")
    target = urlsplit(first.split(" ")[1])
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
    params = dict(parse_qsl(target.query, keep_blank_values=True))
    return Asked(target.path.removeprefix(PREFIX), params, headers, connection, datetime.now(UTC))
