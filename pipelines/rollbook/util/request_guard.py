"""Middleware that protects the web apps served on this machine from requests by other web sites.

Any page open in the browser can send requests to this machine (CSRF), also under a host name that resolves to it (DNS
rebinding), or show the app in a frame (clickjacking). Dagster's UI checks neither `Host` nor `Origin`: even an image's
URL can run a mutation. The guard accepts requests from the app's own pages, and from programs, which send no `Origin`,
and of this machine's accounts only those that may use the app.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rollbook.util import machine, peers

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - not a host that a browser can ask for

WRONG_HOST = (
    "This is Rollbook's UI, and it does not accept requests under this host name. If the name in your browser's address"
    " bar is right, put it into ROLLBOOK_UI_HOSTS (with its port, if it shows one) and start `rollbook serve` again.\n"
)
FOREIGN = (
    "Another web site sent this request; only the UI's own pages may. If the UI is behind a proxy, have that pass the"
    " Host header on, and put the name in your browser's address bar into ROLLBOOK_UI_HOSTS.\n"
)
OTHER_ACCOUNT = (
    "This is another account's Rollbook. That account can let yours in: by its name in ROLLBOOK_UI_ACCOUNTS and"
    " a new start.\n"
)
ONLY_POST = "Queries are sent to /graphql by POST, as application/json. For a query by hand, use a GraphQL client.\n"
# For uvicorn: its other parser has no limit on headers, and a request's own headers must not say who asks.
LIMITS: dict[str, Any] = {"http": "h11", "h11_max_incomplete_event_size": 2**16, "proxy_headers": False}
# The header by which the app learns whose program asks; it is never the request's own.
ACCOUNT = "x-rollbook-account"
SUPERUSER = 0


class Guard:
    """ASGI middleware that accepts requests only from programs and the app's own pages.

    Every request's `Host` must be one of `hosts`. A page's request, including a WebSocket's, must come from the same
    host and port. `/graphql` takes only JSON by POST, which a page cannot send cross-origin without a preflight. Where
    the system says whose program asks, it must be this account's, the superuser's or that of one of `accounts`, by
    name. `wrong_host` and `foreign` are the messages for refused requests.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Iterable[str],
        *,
        accounts: Iterable[str] = (),
        wrong_host: str = WRONG_HOST,
        foreign: str = FOREIGN,
    ) -> None:
        self.app = app
        self.hosts = frozenset(hosts)
        self.accounts = frozenset(accounts)
        self.wrong_host, self.foreign = wrong_host, foreign

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with 403 and a message, or pass the request on."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        holder = peers.holder(scope.get("client"), scope.get("server"))
        name = "" if holder is None else machine.name_of_account(holder)
        if refusal := self.refusal(scope) if self.lets_in(holder, name) else OTHER_ACCOUNT:
            await PlainTextResponse(refusal, 403)(scope, receive, send)
            return
        del (headers := MutableHeaders(scope=scope))[ACCOUNT]
        if name:
            headers[ACCOUNT] = name
        await self.app({**scope, "headers": headers.raw}, receive, _hardened(send))

    def lets_in(self, holder: int | None, name: str) -> bool:
        """Whether this account may use the app; None if whose program asks cannot be known."""
        return holder in (None, SUPERUSER, os.geteuid()) or (holder != peers.CLOSED and name in self.accounts)

    def refusal(self, scope: Scope) -> str | None:
        """Return the message for a request to refuse; None if it may pass."""
        headers = Headers(scope=scope)
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return self.wrong_host
        if any(origin.lower().partition("://")[2] != hosts[0] for origin in headers.getlist("origin")):
            return self.foreign  # also for `null`, the origin of a sandboxed page
        if scope["type"] == "websocket":
            return None
        if scope["method"] not in ("GET", "HEAD") and headers.get("sec-fetch-site", "none") not in (
            "same-origin",
            "none",
        ):
            return self.foreign
        types = [kind.partition(";")[0].strip().lower() for kind in headers.getlist("content-type")]
        if scope["path"].rstrip("/") == "/graphql" and (scope["method"] != "POST" or types != ["application/json"]):
            return ONLY_POST
        return None


def _hardened(send: Send) -> Send:
    """Add the headers that stop other sites from showing the UI in a frame (clickjacking), and browsers from taking a
    file for another kind.
    """

    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["X-Frame-Options"], headers["X-Content-Type-Options"] = "SAMEORIGIN", "nosniff"
        await send(message)

    return send_with_header


def allowed_hosts(host: str, port: int, names: Iterable[str] = ()) -> set[str]:
    """Return the `Host` values to accept for a UI that listens on this host and port; `names` are further host names.

    A name without a port is accepted both without one (behind a proxy) and with the served port.
    """
    own = [] if host in EVERY_ADDRESS else [f"[{host}]" if ":" in host else host.lower()]
    allowed = set()
    for name in (*LOOPBACK, *own, *names):
        allowed |= {name} if urlsplit(f"//{name}").port else {name, f"{name}:{port}"}
    return allowed
