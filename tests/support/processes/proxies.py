"""Real reverse proxies as the recipes of dagster_home/deploy set them up, and a stand-in for oauth2-proxy."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rollbook.settings import ROOT
from tests.support.processes.commands import COMMAND
from tests.support.processes.servers import free_port, until

DEPLOY = ROOT / "dagster_home" / "deploy"
HOST = "rollbook.school.example"
# The cookie of who signed in, as the stand-in knows it.
SIGNED_IN = "signed_in"
_COOKIE = re.compile(rf"{SIGNED_IN}=([^;]+)")


class _SignIn(BaseHTTPRequestHandler):
    """Answers as oauth2-proxy does: 202 with who it is, or 401."""

    def do_GET(self) -> None:
        found = _COOKIE.search(self.headers.get("Cookie", ""))
        self.send_response(202 if found else 401)
        if found:
            self.send_header("X-Auth-Request-Email", found[1])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@contextmanager
def sign_in() -> Iterator[int]:
    """The stand-in, on a port."""
    server = ThreadingHTTPServer(("127.0.0.1", free_port()), _SignIn)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()


@contextmanager
def listening(warehouse: Path, folder: Path, where: str, settings: Mapping[str, str]) -> Iterator[Path]:
    """`rollbook explore --listen` as a service manager starts and ends it; yields the file of what it said."""
    said = folder / "explore.log"
    env = {**os.environ, **settings, "ROLLBOOK_WAREHOUSE": str(warehouse), "DAGSTER_HOME": str(folder / "home")}
    with said.open("wb") as log:
        process = subprocess.Popen(
            [*COMMAND, "explore", "--listen", where], cwd=folder, env=env, stdout=log, stderr=log
        )

    def is_open() -> bool:
        assert process.poll() is None, said.read_text()
        return "Ctrl-C stops it." in said.read_text()

    try:
        until(is_open, 120)
        yield said
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, said.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(30)


def token_in(folder: Path) -> str:
    """The token of the door that listens, with its home in a folder."""
    (kept,) = (folder / "home" / "addresses").glob("explore-*.json")
    return kept.read_text().partition('"token":"')[2].partition('"')[0]


@contextmanager
def proxied(kind: str, folder: Path, upstream: Path) -> Iterator[int]:
    """nginx or Caddy by its recipe before a Unix socket, without https; yields its port. Raises LookupError without it."""
    program = shutil.which(kind) or shutil.which(kind, path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise LookupError(f"{kind} is not installed")
    with sign_in() as asked:
        port = free_port()
        recipe = (DEPLOY / f"explore.{kind}").read_text()
        recipe = recipe.replace("/run/rollbook/explore.sock", str(upstream)).replace(
            "127.0.0.1:4180", f"127.0.0.1:{asked}"
        )
        if kind == "nginx":
            recipe = re.sub(r"\n +ssl_certificate.*", "", recipe).replace(
                "listen 443 ssl;", f"listen 127.0.0.1:{port};"
            )
            places = "".join(
                f"{p}_temp_path {folder}/{p};" for p in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            )
            frame = f"user root; daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}} http {{ access_log off; {places}"
            text, command = f"{frame}\n{recipe}}}\n", [program, "-p", str(folder), "-c"]
        else:
            text = f"{{\n\tadmin off\n\tauto_https off\n}}\n{recipe.replace(f'{HOST} {{', f'http://{HOST}:{port} {{')}"
            command = [program, "run", "--adapter", "caddyfile", "--config"]
        (settings := folder / "proxy.conf").write_text(text)
        with (folder / "proxy.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, str(settings)], stdout=log, stderr=log, env={"HOME": str(folder), "PATH": "/usr/bin:/bin"}
            )

        def listens() -> bool:
            assert process.poll() is None, (folder / "proxy.log").read_text()
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
                return True
            return False

        try:
            until(listens, 60)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def get(port: int, path: str, *headers: tuple[str, str], host: str = HOST) -> tuple[int, str, str]:
    """The status, the text and the `Location` of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in (("Host", host), *headers):
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), answer.headers.get("Location", "")
    connection.close()
    return found
