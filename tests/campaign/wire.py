"""The service of a simulation in this process: no sockets, no threads, so that a seed plays the same each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import httpx

from tests.support.wire.service import Asked, Reply, Service

ADDRESS = "http://127.0.0.1:9"


class _Pieces(httpx.SyncByteStream):
    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    def __iter__(self) -> Iterator[bytes]:
        content = self.reply.content()
        if self.reply.wire == "cut":
            yield content[: len(content) // 2]
            raise httpx.RemoteProtocolError("the connection ended in the middle")
        yield content


@contextmanager
def in_process(service: Service) -> Iterator[None]:
    """Let every httpx client ask this service, and nobody else."""

    class Wire(httpx.BaseTransport):
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            path = request.url.path.removeprefix("/svcapi/v1/")
            reply = service.answer(
                Asked(path, dict(request.url.params), dict(request.headers), 1, datetime.now(UTC), request.method)
            )
            if reply.wire == "reset":
                raise httpx.ReadError("the connection was reset")
            return httpx.Response(reply.status, headers=reply.headers, stream=_Pieces(reply))

    service.url = ADDRESS
    with patch("httpx._client.HTTPTransport", Wire):
        yield
