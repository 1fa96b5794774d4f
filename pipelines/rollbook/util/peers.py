"""Finds the other end of a connection: the account whose program holds it, as Linux tells of this machine's own.

A port on loopback is open to every account of the machine. Linux lists all TCP connections with the accounts that hold
them, in `/proc/net/tcp` and `tcp6`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

# The connection's other end was closed: whose it was cannot be said any more.
CLOSED = -1
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))

Address = tuple[str, int]
_End = tuple[IPv4Address | IPv6Address, int]


def holder(client: Address | None, server: Address | None) -> int | None:
    """The number of the account that holds the client's end of a connection; CLOSED if nobody does.

    None if it cannot be known: on another system than Linux, or of another machine's connection.
    """
    if sys.platform != "linux" or client is None or server is None:
        return None
    ends = _end(client), _end(server)
    with suppress(OSError):
        for table in TABLES:
            for local, remote, uid, inode in _connections(table, client[1]):
                if (local, remote) == ends:
                    # A closed end is listed for a while, as the superuser's and without an inode.
                    return uid if inode else CLOSED
    return CLOSED if ends[0][0].is_loopback else None


def _connections(table: Path, port: int) -> Iterator[tuple[_End, _End, int, int]]:
    """Yield the connections of a table from a port: both ends, the account's number, and the inode."""
    if not table.exists():  # there is no IPv6
        return
    for line in table.read_text(encoding="ascii").splitlines()[1:]:
        _, local, remote, _, _, _, _, uid, _, inode, *_ = line.split()
        if local.endswith(f":{port:04X}"):
            yield _decoded(local), _decoded(remote), int(uid), int(inode)


def _decoded(text: str) -> _End:
    """An end such as `0100007F:1F90`: each four bytes of the address stand in this machine's order."""
    address, _, port = text.partition(":")
    words = [bytes.fromhex(address[i : i + 8]) for i in range(0, len(address), 8)]
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return _plain(ip_address(packed)), int(port, 16)


def _end(address: Address) -> _End:
    return _plain(ip_address(address[0].partition("%")[0])), address[1]


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    return getattr(address, "ipv4_mapped", None) or address
