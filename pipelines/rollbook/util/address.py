"""The address of a web app of ours: a host name and a token, kept over restarts, for each app and port.

    DAGSTER_HOME/addresses/ui-3000.json    the host name and the token, an `Address`
                           ui-3000.html    leads a browser there: a command's arguments can be read by every account
                           ui-3000.lock    locked while the app listens on that port

Every account of the machine can reach a port on loopback, so an app requires a token. It is in the first address; a
cookie then keeps it, so that it is in no other one.

A browser sends a host's cookies to all its ports, and another account may listen on one of them. So each port has a
host name of its own, by chance, below `localhost`: browsers take it for this machine, and nobody else knows it. They
try both addresses of loopback for it, so an app listens on both. While no app runs, another account may take the port:
no address is handed out then.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from filelock import Timeout

from rollbook.util import files

ADDRESSES = "addresses"
TOKEN = "access_token"  # noqa: S105 - its name in the first address
LOOPBACK, LOOPBACK6 = "127.0.0.1", "::1"
_BELOW = ".localhost"
# An app that listens on one of these is found by a name of its own; another host is a name that browsers know.
_OF_IPV4, _OF_IPV6 = (LOOPBACK, "localhost", "0.0.0.0", ""), (LOOPBACK6, "::")  # noqa: S104 - compared with
# While `is_served` looks, it holds the lock itself.
_LOCK_SECONDS = 10.0


class UnreadableError(Exception):
    """There is no address in a file, or none that can be read."""


class Address(msgspec.Struct, frozen=True):
    """The host name under which a browser finds an app, and the token that lets it in."""

    name: str
    token: str

    def url(self, port: int) -> str:
        """The first address."""
        return f"http://{self.name}:{port}/?{TOKEN}={self.token}"

    @property
    def host(self) -> str:
        """The host on which the app listens, if browsers find it by that; empty if they do by the app's own name."""
        return "" if self.name.endswith(_BELOW) else self.name.strip("[]")


class Kept:
    """An app's address on a port, in its file below Dagster's `home`."""

    def __init__(self, home: Path, app: str, port: int) -> None:
        self.app, self.port = app, port
        self.path = home / ADDRESSES / f"{app}-{port}.json"
        self._page = self.path.with_suffix(".html")
        self._file = files.Decoded(lambda content, _: msgspec.json.decode(content, type=Address))
        self.address: Address | None = None  # as it was read last

    def read(self) -> Address:
        """The address as it is now. Where the file cannot be read any more, the last one that was read still counts.

        Raises UnreadableError if none was.
        """
        with suppress(OSError, msgspec.DecodeError):
            self.address = self._file.read(str(self.path))
        if self.address is None:
            raise UnreadableError(f"{self.path} cannot be read")
        return self.address

    def renew(self, host: str = "") -> None:
        """Change the token and the app's own host name; the old ones let nobody in any more. Raises OSError.

        Another `host` that browsers know is the name itself.
        """
        name = (f"[{host}]" if ":" in host else host) or f"{secrets.token_hex(6)}{_BELOW}"
        files.set_mode(files.folder(self.path.parent), files.PRIVATE_FOLDER)
        self._write(self.path, msgspec.json.encode(Address(name, secrets.token_urlsafe(16))))
        self._page.unlink(missing_ok=True)  # it has the old token

    def page(self, url: str) -> Path:
        """Write the private page that leads a browser to an address, and return its path. Raises OSError."""
        self._write(self._page, f'<meta http-equiv="refresh" content="0; url={url}">'.encode())
        return self._page

    def is_served(self) -> bool:
        """Whether the app listens on the port: only then nobody else does. Raises OSError."""
        lock = self.path.with_suffix(".lock")
        if not lock.exists():
            return False
        try:
            with files.Lock(lock, timeout=0):
                return False
        except Timeout:
            return True

    def _write(self, path: Path, content: bytes) -> None:
        files.write(path, content)
        if os.geteuid() == 0:  # what root wrote is the owner's, whose app must read it
            owner = self.path.parent.parent.stat()
            for new in (self.path.parent, path):
                os.chown(new, owner.st_uid, owner.st_gid, follow_symlinks=False)


@contextmanager
def serving(home: Path, app: str, port: int, host: str = LOOPBACK) -> Iterator[Kept]:
    """Say that an app listens on a port of a host, while the block runs; yields its address, made if there is none.

    Call it once the port is open. Raises OSError.
    """
    kept = Kept(home, app, port)
    with suppress(UnreadableError):
        kept.read()
    known_by = "" if host in (*_OF_IPV4, *_OF_IPV6) else host.lower()
    if kept.address is None or kept.address.host != known_by:
        kept.renew(known_by)
        kept.read()
    with files.Lock(kept.path.with_suffix(".lock"), timeout=_LOCK_SECONDS):
        yield kept


def known(home: Path, app: str, port: int | None = None) -> list[Kept]:
    """The addresses of an app, of one port or of all on which it ever listened, by port. Raises OSError."""
    ports = []
    for name in files.names(home / ADDRESSES):
        kind, _, number = name.removesuffix(".json").rpartition("-")
        if name.endswith(".json") and kind == app and number.isdecimal() and port in (None, int(number)):
            ports.append(int(number))
    return [Kept(home, app, each) for each in sorted(ports)]


def listened(host: str) -> list[str]:
    """Return the hosts to listen on for a host: loopback's other address, too, if the app is found by its own name."""
    other = LOOPBACK6 if host in _OF_IPV4 and _has_ipv6() else LOOPBACK if host in _OF_IPV6 else None
    return [host, other] if other else [host]


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError."""
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def _has_ipv6() -> bool:
    """Whether this machine has a loopback address of IPv6."""
    with suppress(OSError):
        listen(LOOPBACK6, 0).close()
        return True
    return False
