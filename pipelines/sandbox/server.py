"""A small HTTP server on loopback, in threads: what is asked, what is answered, and the faults of a connection.

Loopback only: the pupils are made up, but a key in clear text on a network would set a bad example. Knows nothing of
the contract (`service.py`).
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from pipelines.errors import ArgumentError


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
