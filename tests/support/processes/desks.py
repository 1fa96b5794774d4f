"""A published file that is served over loopback, and programs that read it by byte ranges, as DuckDB does."""

from __future__ import annotations

import http.client
import random
import threading
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from rollbook.features.share.register import Register
from rollbook.features.share.served import Share
from rollbook.store.published import PUBLISHED, Versions
from rollbook.util import files
from rollbook.util.request_guard import LIMITS
from tests.support.processes.servers import free_port, until

WORDS = 2**17  # of four bytes each, in a night's file


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    headers: http.client.HTTPMessage


class Nights:
    """A warehouse whose versions consist of their night's number: bytes of two nights would be two numbers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.versions = Versions(root, files.PRIVATE_FILE, files.PRIVATE_FOLDER)
        self.register = Register(root)
        self.versions.prepare()

    def publish(self, number: int) -> None:
        """Publish a night; each is longer than the last."""
        file = self.root / "next"
        file.write_bytes(array("I", [number] * (WORDS + number)).tobytes())
        self.publish_file(file)

    def publish_file(self, file: Path) -> None:
        """Publish a file as a writer does, which retires older versions."""
        self.versions.retire(leaving=2)
        self.versions.activate(self.versions.add(file))

    def token(self, name: str = "ash", *, names: bool = True) -> str:
        """A new reader's token."""
        return self.register.add(name, names=names, at=datetime.now(UTC))


class Desk:
    """A program with a token."""

    def __init__(self, port: int, token: str, file: str = PUBLISHED) -> None:
        self.token, self.path = token, f"/file/{file}"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str = "GET", headers: Mapping[str, str] | None = None, *, path: str = "") -> Answer:
        """A request with the token, unless the headers have another. Of an answer that is cut, what came."""
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        try:
            answer = self._ask_once(method, path or self.path, sent)
        except ConnectionError:  # uvicorn ends a connection that was silent for five seconds
            self.close()
            answer = self._ask_once(method, path or self.path, sent)
        try:
            body = answer.read()
        except http.client.IncompleteRead as cut:
            body = cut.partial
            self.close()
        return Answer(answer.status, body, answer.headers)

    def _ask_once(self, method: str, path: str, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        self._connection.request(method, path, headers=headers)
        return self._connection.getresponse()

    def attach(self) -> int:
        """Begin as an ATTACH does; returns the file's size."""
        answer = self.ask("HEAD")
        assert answer.status == 200
        return int(answer.headers["Content-Length"])

    def read(self, first: int, last: int) -> Answer:
        """A range of bytes."""
        return self.ask(headers={"Range": f"bytes={first}-{last}"})

    def numbers(self, size: int, step: int = 2**16) -> set[int]:
        """The numbers in the whole file, read in pieces in any order."""
        found = set[int]()
        starts = [*range(0, size, step)]
        random.shuffle(starts)
        for start in starts:
            answer = self.read(start, start + step - 1)
            assert answer.status == 206, (answer.status, answer.body[:200])
            found |= {*array("I", answer.body)}
        return found

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


@contextmanager
def sharing(root: Path) -> Iterator[int]:
    """Serve a warehouse's files in a thread, without the pages of `rollbook explore`; yields the port."""
    port = free_port()
    app = Starlette(routes=[Route("/file/{name:path}", Share(root).answer)])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="critical", **LIMITS))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, 30, 0.02)
        yield port
    finally:
        server.should_exit = True
        thread.join(30)
