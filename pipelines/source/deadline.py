"""One deadline over a whole exchange: connecting, the TLS handshake, the headers, the body.

A read timeout does not limit the whole: a byte a minute never trips it. So every wait on the network is cut to the time
left until the deadline. `client` decides what happens when the deadline passes.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx


class Deadline:
    """The time by which the current exchange must end. Until `begin` is called, it has already passed."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, seconds: float) -> None:
        """Start an exchange that may take this many seconds."""
        self.seconds = seconds
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self._until - time.monotonic()

    def within(self, timeout: float | None) -> float:
        """Return the next wait's timeout (s), cut to the time left. Raises httpcore.ReadTimeout if none is left."""
        left = self.left
        if left <= 0:
            raise httpcore.ReadTimeout
        return left if timeout is None else min(left, timeout)


def bound(client: httpx.Client, deadline: Deadline) -> None:
    """Apply a deadline to all connections of a client, including those through proxies.

    httpcore accepts a custom network backend, but httpx has no argument for it. So this replaces the backend in httpx's
    private attributes; the version bounds on httpx in pyproject.toml and the deadline's tests guard that.
    """
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            pool = transport._pool
            pool._network_backend = _Backend(pool._network_backend, deadline)


class _Backend(httpcore.NetworkBackend):
    """Opens connections that respect the deadline."""

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
        stream = self._backend.connect_tcp(host, port, self._deadline.within(timeout), local_address, socket_options)
        return _Stream(stream, self._deadline)


class _Stream(httpcore.NetworkStream):
    """A connection whose waits are cut to the time left."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what is available."""
        return self._stream.read(max_bytes, self._deadline.within(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all of it."""
        self._stream.write(buffer, self._deadline.within(timeout))

    def close(self) -> None:
        """Close, without waiting."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Start TLS."""
        stream = self._stream.start_tls(ssl_context, server_hostname, self._deadline.within(timeout))
        return _Stream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """Return the connection's property that httpcore asks for."""
        return self._stream.get_extra_info(info)
