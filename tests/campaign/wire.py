"""The service of a simulation in this process, and work without threads, so that a seed plays the same each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import httpx

from tests.support.wire.service import Asked, Reply, Service

PORT = 9


class InTurn(Executor):
    """Does each piece of work at once; two lives on two cores gain nothing by threads."""

    def __init__(self, _: int) -> None: ...

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **named))
        return done


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
def in_process(*services: Service) -> Iterator[None]:
    """Let every httpx client ask the services, each at a port of its own, and nobody else; and DuckDB work in turn."""
    at = {PORT + place: service for place, service in enumerate(services)}

    class Wire(httpx.BaseTransport):
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            path = request.url.path.removeprefix("/svcapi/v1/")
            reply = at[request.url.port or 0].bent(
                Asked(
                    path=path,
                    params=dict(request.url.params),
                    headers=dict(request.headers),
                    method=request.method,
                    connection=1,
                    at=datetime.now(UTC),
                )
            )
            if reply.wire == "reset":
                raise httpx.ReadError("the connection was reset")
            return httpx.Response(reply.status, headers=reply.headers, stream=_Pieces(reply))

    for port, service in at.items():
        service.url = f"http://127.0.0.1:{port}"
    one = patch.multiple("rollbook.store.database", THREADS=1, ThreadPoolExecutor=InTurn)
    with patch("httpx._client.HTTPTransport", Wire), one:
        yield
