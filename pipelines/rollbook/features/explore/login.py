"""The door of `rollbook explore --listen`: who asks is who the school's sign-in says.

A reverse proxy signs people in, and says in a header who it is. That is believed only from the proxy's address together
with the token of this port, which the proxy sends as `Authorization: Bearer`: from the address alone, every account of
the proxy's machine could say who it is. Or it comes over a Unix socket, which only the proxy's group can open. Without
it a request gets nothing, from whatever address.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Scope

from rollbook.errors import ArgumentError
from rollbook.features.explore.readers import plain
from rollbook.util.address import Address
from rollbook.util.request_guard import PRIVATE, Guard, bearers, is_token, with_port

# Where a request has who signed in.
LOGIN = "rollbook.login"
LONGEST = 254  # characters of a login
UNIX = "unix:"

NOT_SIGNED_IN = "Nobody signed in here: open {url}\n"
WRONG_HOST = "People open {url}. The proxy there must pass the Host header on.\n"
FOREIGN = "Another web site sent this request; only the pages of {url} may.\n"


class Proxy(NamedTuple):
    """What is in front: the addresses from which it asks (None: a Unix socket, which nobody else opens), the header in
    which it says who signed in, and the address that people open.
    """

    addresses: frozenset[str] | None
    header: str
    url: str


class Door(Guard):
    """Lets in whom the proxy names, and says so in the request's scope (LOGIN). `address` has the token that counts."""

    def __init__(self, app: ASGIApp, proxy: Proxy, address: Callable[[], Address]) -> None:
        host, url = urlsplit(proxy.url).netloc, proxy.url
        foreign, wrong_host = FOREIGN.format(url=url), WRONG_HOST.format(url=url)
        super().__init__(app, address, 443, wrong_host=wrong_host, foreign=foreign)
        self.proxy, self.loopback, self.names = proxy, frozenset(), with_port([host], 443)

    def is_browsers(self, host: str, address: Address) -> bool:  # noqa: ARG002 - it has no name of its own
        """Whether a host is the one that people open."""
        return host in self.names

    def reply(self, scope: Scope, address: Address) -> Response | None:
        """The refusal of a request without a sign-in; None for one that has it."""
        login = self._login(HTTPConnection(scope), address)
        if login is None:
            return PlainTextResponse(NOT_SIGNED_IN.format(url=self.proxy.url), 401, headers=PRIVATE)
        scope[LOGIN] = login
        return None

    def _login(self, asked: HTTPConnection, address: Address) -> str | None:
        """Who signed in, if the proxy says so."""
        if self.proxy.addresses is not None:
            is_sent = any(is_token(given, address) for given in bearers(asked.headers))
            if not is_sent or asked.client is None or _plain_address(asked.client.host) not in self.proxy.addresses:
                return None
        return _one(asked.headers, self.proxy.header)


def _one(headers: Headers, name: str) -> str | None:
    """The login in a header that is there once; None for another one. A proxy may join two into one with a comma."""
    given = [value for key, value in headers.raw if key == name.lower().encode()]
    try:
        login = plain(given[0].decode()) if len(given) == 1 else ""
    except UnicodeDecodeError:
        return None
    return login if login.isprintable() and 0 < len(login) <= LONGEST and "," not in login else None


def _plain_address(host: str) -> str:
    """An address as ROLLBOOK_LOGIN_PROXIES has it, also where IPv4 comes over IPv6."""
    try:
        address = ip_address(host)
    except ValueError:
        return ""
    return str(getattr(address, "ipv4_mapped", None) or address)


def host_and_port(text: str) -> tuple[str, int]:
    """A host and a port as `--listen` has them. Raises ArgumentError."""
    with suppress(ValueError):
        parts = urlsplit(f"//{text}")
        if parts.hostname and parts.port and parts.netloc == text:
            return parts.hostname, parts.port
    raise ArgumentError(
        "Write --listen as ADDRESS:PORT, such as 127.0.0.1:3001 or 0.0.0.0:3001, or as unix:/run/rollbook/explore.sock"
    )


@contextmanager
def unix_socket(path: Path) -> Iterator[socket.socket]:
    """Listen on a Unix socket that its folder's group can open, and nobody else. Raises ArgumentError."""
    try:
        folder = path.parent.stat()
        if folder.st_mode & stat.S_IRWXO:
            raise ArgumentError(
                f"Other accounts may enter {path.parent}: `chmod o= {path.parent}`, and give it the proxy's group"
            )
        _free(path)
        opened = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            opened.bind(str(path))
        finally:
            os.umask(before)
        os.chown(path, -1, folder.st_gid)
        path.chmod(0o660)
        opened.listen()
    except OSError as error:
        raise ArgumentError(
            f"{path} cannot be opened ({error.strerror}): make its folder first, for this account and the proxy's"
            f" group, as `install -d -m 2750 -o rollbook -g caddy {path.parent}`"
        ) from None
    try:
        with opened:
            yield opened
    finally:
        path.unlink(missing_ok=True)


def _free(path: Path) -> None:
    """Remove a socket on which nobody listens any more. Raises ArgumentError."""
    if not path.exists():
        return
    with socket.socket(socket.AF_UNIX) as asked:
        if not stat.S_ISSOCK(path.stat().st_mode) or asked.connect_ex(str(path)) == 0:
            raise ArgumentError(f"{path} is there already: end what listens on it, or name another one")
    path.unlink()
