"""An S3 server on loopback (moto's, in an environment of its own), and what may go wrong on the way to the client."""

from __future__ import annotations

import http.client
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.request import urlopen

from rollbook.features.mirror.mirror import restore
from rollbook.night import past
from rollbook.settings import ROOT
from tests.support.nights import House
from tests.support.processes.servers import free_port, until
from tests.support.wire import environments
from tests.support.wire.listeners import listening

PINS = Path(__file__).with_name("s3.txt")
PLACE = ROOT / ".venv-s3"
START_WITHIN = 60.0
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "made-up",
    "AWS_SECRET_ACCESS_KEY": "made-up-secret",
    "AWS_REGION": "us-east-1",
}

# Called with the method, the path and the number of the request; returns what goes wrong, or nothing.
Fault = Callable[[str, str, int], str | None]


@contextmanager
def s3_server() -> Iterator[str]:
    """Yield the address of a server that is empty and accepts any credentials."""
    python = environments.interpreter(PINS, PLACE)
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def is_up() -> bool:
        assert process.poll() is None, "the S3 server ended"
        with suppress(OSError):
            urlopen(f"{url}/moto-api/", timeout=5).close()  # noqa: S310 - loopback
            return True
        return False

    process = subprocess.Popen(
        [str(python), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(is_up, START_WITHIN)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def make_bucket(url: str, name: str) -> None:
    """Make a bucket."""
    host = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    host.request("PUT", f"/{name}")
    assert host.getresponse().status == 200
    host.close()


def restored(house: House, into: Path) -> House:
    """The warehouse that a restore of a house's copy and a rebuild make."""
    restore(house.over["lake"], "", into)
    again = House(into, house.service, lake="")
    again.now, house.service.now = house.now, lambda: house.now  # it is the first house's service
    past.rebuild(again.rollbook().writer())
    return again


class Between:
    """A proxy before the server, with faults: `500`, `cut` (while the request comes), `lost` (the answer), `slow`."""

    def __init__(self, server: str) -> None:
        self.server = server.removeprefix("http://")
        self.fault: Fault = lambda *_: None
        self.requests = 0
        self.slow = 3.0
        self._count = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                with outer._count:
                    outer.requests += 1
                    wrong = outer.fault(self.command, self.path, outer.requests)
                if wrong == "cut":
                    self.rfile.read(min(1, int(self.headers.get("content-length") or 0)))
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if wrong == "500":
                    self.send_response(500)
                    self.send_header("content-length", "0")
                    self.end_headers()
                    return
                if wrong == "slow":
                    time.sleep(outer.slow)
                to = http.client.HTTPConnection(outer.server, timeout=60)
                to.request(self.command, self.path, body, dict(self.headers))
                answer = to.getresponse()
                content = answer.read()
                to.close()
                if wrong == "lost":
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                        self.send_header(name, value)
                length = answer.getheader("content-length") if self.command == "HEAD" else str(len(content))
                self.send_header("content-length", length or "0")
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one  # noqa: N815 - the base class's names

            def log_message(self, *_: object) -> None:
                pass

        self._listening = listening(Handler)

    def __enter__(self) -> Between:
        self.url = f"http://127.0.0.1:{self._listening.__enter__()}"
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.__exit__(None, None, None)
