"""Middleware that protects the web apps served on this machine from requests by other web sites.

Any page open in the browser can send requests to this machine (CSRF), also under a host name that resolves to it (DNS
rebinding), or show the app in a frame (clickjacking). Dagster's UI checks neither `Host` nor `Origin`: even an image's
URL can run a mutation. The guard accepts requests from the app's own pages, and from programs, which send no `Origin`.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
ONLY_POST = "Queries are sent to /graphql by POST, as application/json. For a query by hand, use a GraphQL client.\n"


class Guard:
    """ASGI middleware that accepts requests only from programs and the app's own pages.

    Every request's `Host` must be one of `hosts`. A page's request, including a WebSocket's, must come from the same
    host and port. `/graphql` takes only JSON by POST, which a page cannot send cross-origin without a preflight.
    `wrong_host` and `foreign` are the messages for refused requests.
    """

    def __init__(
        self, app: ASGIApp, hosts: Iterable[str], *, wrong_host: str = WRONG_HOST, foreign: str = FOREIGN
    ) -> None:
        self.app = app
        self.hosts = frozenset(hosts)
        self.wrong_host, self.foreign = wrong_host, foreign

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with 403 and a message, or pass the request on."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif refusal := self.refusal(scope):
            await PlainTextResponse(refusal, 403)(scope, receive, send)
        else:
            await self.app(scope, receive, _deny_framing(send))

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


def _deny_framing(send: Send) -> Send:
    """Add the header that stops other sites from showing the UI in a frame (clickjacking)."""

    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["X-Frame-Options"] = "SAMEORIGIN"
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
