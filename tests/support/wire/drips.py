"""A server on loopback that sends a test's bytes at the test's pace, HTTP or not.

It sends what a server library would not: headers that never end, bodies that trickle, packed zeros.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

# After so long the connection is closed, so that a test fails instead of hanging.
MAX_SECONDS = 6.0

Send = Callable[[bytes], None]


@dataclass
class Drip:
    """The server's address, and the head of each request so far."""

    url: str = ""
    heads: list[bytes] = field(default_factory=list)


@contextmanager
def sending(pieces: Callable[[], Iterable[bytes]], *, every: float = 0.0) -> Iterator[Drip]:
    """Answer each connection's first request with some pieces, one `every` so many seconds, then close."""
    drip, done = Drip(), threading.Event()
    threads: list[threading.Thread] = []

    def talk(connection: socket.socket) -> None:
        over = threading.Timer(MAX_SECONDS, connection.shutdown, (socket.SHUT_RDWR,))
        over.start()
        with connection, suppress(OSError):
            drip.heads.append(connection.recv(65_536))
            for piece in pieces():
                connection.sendall(piece)
                if every and done.wait(every):
                    break
        over.cancel()

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=talk, args=(connection,), daemon=True))
            threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        drip.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        try:
            yield drip
        finally:
            done.set()
            listening.shutdown(socket.SHUT_RDWR)
            serving.join(5)
            for thread in threads:
                thread.join(MAX_SECONDS + 1)


def head(**headers: str) -> bytes:
    """The head of a 200."""
    lines = ["HTTP/1.1 200 OK", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def chunk(content: bytes) -> bytes:
    """A piece of a body of unknown length."""
    return b"%x\r\n%s\r\n" % (len(content), content)
