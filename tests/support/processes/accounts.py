"""Requests of another account of this machine, for tests that the superuser runs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NOBODY = 65534


@contextmanager
def connected(port: int, host: str = "127.0.0.1", *, account: int | None = None) -> Iterator[socket.socket]:
    """A connection of an account (default: our own)."""
    if account is not None and os.geteuid() != 0:
        pytest.skip("only the superuser can ask as another account: run this test as root")
    own = os.geteuid()
    os.seteuid(own if account is None else account)
    try:
        opened = socket.create_connection((host, port), timeout=30)
    finally:
        os.seteuid(own)
    with opened:
        yield opened


def ask_raw(opened: socket.socket, request: bytes) -> bytes:
    """Everything that comes back for a request that closes the connection."""
    opened.sendall(request)
    return b"".join(iter(lambda: opened.recv(65536), b""))
