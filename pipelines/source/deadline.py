"""One deadline over a whole exchange: connecting, the TLS handshake, the headers, the body.

A timeout per read bounds none of these, since a byte a minute never trips it. So every wait on the network is cut to
what is left until the deadline. What comes of a wait that was too long is decided in `client`.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx


class Deadline:
    """The moment at which the exchange under way ends, come what may. None may go on before one has begun."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, seconds: float) -> None:
        """Let an exchange begin that may take so many seconds."""
        self.seconds = seconds
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then, less than none afterwards."""
        return self._until - time.monotonic()

    def within(self, timeout: float | None) -> float:
        """The timeout of the next wait, cut to what is left. Raises httpcore.ReadTimeout when nothing is."""
        left = self.left
        if left <= 0:
            raise httpcore.ReadTimeout
        return left if timeout is None else min(left, timeout)


def bound(client: httpx.Client, deadline: Deadline) -> None:
    """Hold all connections of a client, those through proxies too, to a deadline.

    httpcore takes a network backend of one's own, but httpx has no argument to hand one on: it is put where httpx keeps
    httpcore's, which the bounds on httpx's version in pyproject.toml and the tests of the deadline watch over.
    """
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            pool = transport._pool
            pool._network_backend = _Backend(pool._network_backend, deadline)


class _Backend(httpcore.NetworkBackend):
    """Makes connections that keep to the deadline."""

    def __init__(self, backend: httpcore.NetworkBackend, deadline: Deadline) -> None:
        self._backend = backend
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect."""
        made = self._backend.connect_tcp(host, port, self._deadline.within(timeout), local_address, socket_options)
        return _Stream(made, self._deadline)


class _Stream(httpcore.NetworkStream):
    """A connection whose every wait is cut to what is left."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what there is."""
        return self._stream.read(max_bytes, self._deadline.within(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all of it."""
        self._stream.write(buffer, self._deadline.within(timeout))

    def close(self) -> None:
        """Close, which waits for nobody."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Encrypt."""
        made = self._stream.start_tls(ssl_context, server_hostname, self._deadline.within(timeout))
        return _Stream(made, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks of a connection."""
        return self._stream.get_extra_info(info)
