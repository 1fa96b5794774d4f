"""The contract's endpoints over lists of records, with the faults that a test gives it; and a made-up school's service.

`Service` answers from `students` and `classes`, which may be changed at any time; `Sandbox` is a Service whose records
are a day of an Institution. The package's docstring lists the choices where the contract is open.
"""

from __future__ import annotations

import re
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import msgspec

from pipelines.errors import ArgumentError
from pipelines.sandbox.institution import Institution, Record

DEFAULT_KEY = "sandbox-key"

_CLOCK_CHECK = 20.0  # seconds; soon after midnight, even on a machine that was asleep
_INTEGER = re.compile(r"-?[0-9]{1,18}")  # what fits into 64 bits
_LOWEST = {"page": 1, "limit": 1, "status": 0}
_HIGHEST = {"limit": 100, "status": 1}
_FILTERS = {"students": {"class_id", "course_id"}, "classes": {"status", "course_id", "teacher_id", "teacher_email"}}
_OF_A_CLASS: dict[str, Callable[[Record], Any]] = {
    "class_id": lambda own: own["class_id"],
    "status": lambda own: own["class_status"],
    "course_id": lambda own: own["course"]["course_id"],
    "teacher_id": lambda own: own["teacher"]["teacher_id"],
    "teacher_email": lambda own: own["teacher"]["email"].casefold(),
}
_SEARCHED = {"students": ("name", "email", "reference_id"), "classes": ("class_title", "class_code")}


# --- HTTP on loopback: the pupils are made up, but a key in clear text on a network would set a bad example -----------


@dataclass(frozen=True)
class Asked:
    """One request. `path` is what follows the last /svcapi/v1/, the names of headers are in lower case."""

    path: str
    params: dict[str, str]
    headers: dict[str, str]
    connection: int
    at: datetime
    method: str = "GET"

    @property
    def page(self) -> int:
        """The page asked for."""
        return int(self.params.get("page", "1"))

    @property
    def search(self) -> str | None:
        """The text searched for, if any."""
        return self.params.get("search")


@dataclass
class Reply:
    """What is answered. `payload` is encoded as JSON, unless `body` has the bytes themselves.

    `wire` is whole, "cut" (the body ends in the middle, and so does the connection) or "reset" (before any byte).
    """

    payload: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    body: bytes | None = None
    wire: str = "whole"
    delay: float = 0.0

    def content(self) -> bytes:
        """Return the body's bytes."""
        return self.body if self.body is not None else msgspec.json.encode(self.payload)


class Server(ThreadingHTTPServer):
    """Answers until `end`. Raises ArgumentError for a port that is taken."""

    daemon_threads = True

    def __init__(self, answer: Callable[[Asked], Reply], port: int = 0) -> None:
        self.answer, self.connections, self.stopping = answer, 0, threading.Event()
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            raise ArgumentError(f"Port {port} on 127.0.0.1 cannot be used. Choose another, or 0 for any.") from error
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def end(self) -> None:
        """Take no more connections, and reset those that ask again or still wait."""
        self.stopping.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing when a client leaves in the middle."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet, or the client waits for the second one
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1
        self._number = self.server.connections

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = target.path.removeprefix("/svcapi/v1/")
        params = dict(parse_qsl(target.query, keep_blank_values=True))
        asked = Asked(path, params, headers, self._number, datetime.now(UTC), self.command)
        reply = self.server.answer(asked)
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

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the service refuses them

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


# --- the contract's endpoints -----------------------------------------------------------------------------------------

# A fault: gets what would be answered, returns what is answered.
Bend = Callable[[Asked, Reply], Reply]


def school_of(seed: int) -> dict[str, Any]:
    """The school of a seed, as in the auth check: the schools of a district must differ."""
    return {"id": 4070 + seed, "name": f"Linden Vale School {seed}", "key": f"linden-vale-{seed}"}


class _RefusedError(Exception):
    """A request that violates the contract."""


class Service:
    """A records service on a free port of loopback, for the length of a `with` block. It remembers every request.

    `before`, called with each request before it is answered, may change the records while they are walked.
    """

    def __init__(
        self,
        students: Iterable[Record] = (),
        classes: Iterable[Record] = (),
        *,
        key: str = DEFAULT_KEY,
        school: Mapping[str, Any] | None = None,
        cap: int = 100,
        port: int = 0,
    ) -> None:
        """`cap` is the most records of a page, whatever is asked for. Raises ArgumentError for an empty key."""
        if not key:
            raise ArgumentError("The sandbox needs a key. Give it one that is not empty.")
        self.students, self.classes = list(students), list(classes)
        self.details: dict[int, Any] = {}  # by student; of the others, what their records say
        self.others: dict[str, list[Record]] = {}  # sets that the contract does not have, by their endpoint
        self.key, self.school, self.cap = key, school or school_of(1), cap
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.before: Callable[[Asked], None] | None = None
        self.requests: list[Asked] = []
        self._plan: list[Bend] = []
        self._port = port

    def __enter__(self) -> Self:
        self._server = Server(self.answer, self._port)
        self.port, self.url = self._server.server_port, self._server.url
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.end()

    @property
    def connections(self) -> int:
        """How many connections there have been."""
        return self._server.connections

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

        def planned(asked: Asked, reply: Reply) -> Reply:
            nonlocal skip, times
            if (
                path not in (None, asked.path)
                or page not in (None, asked.page)
                or search not in (None, asked.search is not None)
                or times == 0
            ):
                return reply
            if skip:
                skip -= 1
                return reply
            if times is not None:
                times -= 1
            return bend(asked, reply)

        self._plan.append(planned)

    def mend(self) -> None:
        """Forget every plan."""
        self._plan.clear()

    def answer(self, asked: Asked) -> Reply:
        """Answer one request."""
        self.requests.append(asked)
        if self.before is not None:
            self.before(asked)
        reply = self.stated(asked)
        for planned in self._plan:
            reply = planned(asked, reply)
        return reply

    def stated(self, asked: Asked) -> Reply:
        """Return what the contract says, without faults."""
        if asked.headers.get("x-api-key") != self.key:
            return error_reply(401, "AUTH_REQUIRED", "A valid API key is required.")
        if asked.method != "GET":
            return error_reply(405, "METHOD_NOT_ALLOWED", "The service only answers GET.")
        try:
            return self._good(asked)
        except _RefusedError as error:
            return error_reply(400, "INVALID_PARAMETER", str(error))

    def _good(self, asked: Asked) -> Reply:
        if asked.path == "auth":
            data = {
                "authenticated": True,
                "school": self.school,
                "api_key_name": "nightly",
                "timestamp": f"{self.now():%Y-%m-%d %H:%M:%S}",
            }
            return Reply({"success": True, "data": data, "message": "The API key is valid and active."})
        if asked.path == "students":
            return self.listed(asked, self.students)
        if asked.path == "classes":
            return self.listed(asked, self.classes)
        if asked.path in self.others:
            return self.listed(asked, self.others[asked.path])
        if asked.path.startswith("student/"):
            own = _integer({"student_id": asked.path.removeprefix("student/")}, "student_id")
            found = next((each for each in self.students if each.get("id") == own), None)
            if found is None:
                return error_reply(404, "STUDENT_NOT_FOUND", "No student with this id is listed.")
            return Reply({"success": True, "data": self.details.get(found["id"]) or self._detail(found)})
        return error_reply(404, "NOT_FOUND", "No such path.")

    def _detail(self, student: Record) -> Record:
        """Return a student with whole classes and their courses; the contract leaves the shape open."""
        taken = {entry["class_id"] for entry in student.get("classes") or []}
        classes = [each for each in self.classes if each["class_id"] in taken]
        return student | {"classes": classes, "courses": [each["course"] for each in classes], "assignments": []}

    def listed(self, asked: Asked, records: list[Record]) -> Reply:
        """Answer a list operation: the page of these records that pass the filters."""
        records = self._search(asked, self._filter(asked, records))
        page, limit = _integer(asked.params, "page", 1), min(_integer(asked.params, "limit", 50), self.cap)
        pages = -(-len(records) // limit)
        pagination = {
            "page": page,
            "limit": limit,
            "total_count": len(records),
            "total_pages": pages,
            "has_next": page < pages,
            "has_prev": page > 1 and pages > 0,
        }
        data = records[(page - 1) * limit : page * limit]
        return Reply({"success": True, "data": data, "pagination": pagination})

    def _filter(self, asked: Asked, records: list[Record]) -> list[Record]:
        for name in asked.params.keys() & _FILTERS.get(asked.path, set()):
            wanted = asked.params[name].casefold() if name == "teacher_email" else _integer(asked.params, name)
            of_classes = records if asked.path == "classes" else self.classes
            passing = [each for each in of_classes if _OF_A_CLASS[name](each) == wanted]
            if asked.path == "students":
                ids = {each["class_id"] for each in passing}
                taken_by = ({entry["class_id"] for entry in each.get("classes") or []} for each in records)
                passing = [each for each, taken in zip(records, taken_by, strict=True) if taken & ids]
            records = passing
        return records

    def _search(self, asked: Asked, records: list[Record]) -> list[Record]:
        sought = (asked.search or "").casefold()
        if not sought:
            return records
        fields = _SEARCHED.get(asked.path, ())
        return [each for each in records if any(sought in str(each.get(name) or "").casefold() for name in fields)]


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
        institution: Institution | None = None,
    ) -> None:
        """`institution` replaces `students` and `seed`. Raises ArgumentError for a day before the school opened."""
        super().__init__(key=api_key, school=school or school_of(seed), port=port)
        self.institution = institution or Institution(students, seed)
        self.now = lambda: datetime.combine(self.day, datetime.now(UTC).time())
        self.day = day or _today()

    @property
    def day(self) -> date:
        """The day being played."""
        return self._day

    @day.setter
    def day(self, day: date) -> None:
        played = self.institution.on(day)
        # Of a hundred thousand students a search would otherwise take a tenth of a second.
        self._texts = ["\n".join(each[name] for name in _SEARCHED["students"]).casefold() for each in played.students]
        self._day, self.students, self.classes = day, played.students, played.classes

    def _search(self, asked: Asked, records: list[Record]) -> list[Record]:
        if asked.search and records is self.students:
            sought = asked.search.casefold()
            return [each for each, text in zip(records, self._texts, strict=True) if sought in text]
        return super()._search(asked, records)


def serve(students: int, day: date | None, port: int, seed: int, key: str, *, on_ready: Callable[[str], None]) -> None:
    """Serve in the foreground until SIGINT or SIGTERM. Plays `day`; without one, always today (UTC).

    `on_ready` is called once with the URL, when the server answers. Raises ArgumentError as `Sandbox` and `Server` do.
    """
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with Sandbox(students, seed=seed, day=day, api_key=key, port=port) as sandbox:
        on_ready(sandbox.url)
        while not stopping.wait(_CLOCK_CHECK):
            if day is None and sandbox.day != _today():
                sandbox.day = _today()


def error_reply(status: int, code: str, message: str) -> Reply:
    """Return the contract's error body."""
    return Reply({"error": True, "message": message, "status_code": status, "error_code": code}, status)


def _integer(values: Mapping[str, str], name: str, default: int = 0) -> int:
    """Return the value as an integer within its bounds. Raises _RefusedError."""
    text = values.get(name, str(default))
    if not _INTEGER.fullmatch(text):
        raise _RefusedError(f"{name} must be an integer.")
    value = int(text)
    if value < _LOWEST.get(name, value) or value > _HIGHEST.get(name, value):
        raise _RefusedError(f"{name} must be between {_LOWEST[name]} and {_HIGHEST.get(name, 10**18)}.")
    return value


def _today() -> date:
    return datetime.now(UTC).date()
