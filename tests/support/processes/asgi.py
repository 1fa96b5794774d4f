"""Requests to an app in this process, from any address and with any headers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

PROXY, TOKEN = "10.0.0.9", "the-token-of-the-door"


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int
    headers: Mapping[str, str]
    text: str


def ask(
    app: ASGIApp,
    path: str,
    headers: Iterable[tuple[str, str]],
    *,
    client: str | None = PROXY,
    method: str = "GET",
    sent: str = "",
    version: str = "1.1",
) -> Answer:
    """The answer to a request; `client` is the address that asks, None over a Unix socket."""
    parts: list[bytes] = []
    begun: dict[str, object] = {}
    bare, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": version,
        "method": method,
        "scheme": "http",
        "path": unquote(bare),
        "raw_path": bare.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        "client": None if client is None else (client, 40_000),
        "server": ("127.0.0.1", 3001),
    }

    unread = [sent.encode()]

    async def receive() -> Message:
        if not unread:
            await asyncio.sleep(3600)  # nobody leaves before the answer is whole
        return {"type": "http.request", "body": unread.pop(), "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            begun.update(message)
        else:
            parts.append(message.get("body", b""))

    async def whole() -> None:
        await app(scope, receive, send)

    asyncio.run(whole())
    told = {name.decode(): value.decode() for name, value in begun["headers"]}  # type: ignore[attr-defined]
    return Answer(int(str(begun["status"])), told, b"".join(parts).decode())
