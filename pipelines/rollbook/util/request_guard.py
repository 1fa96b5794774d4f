"""Middleware that protects the web apps served on this machine: Dagster's UI and `rollbook explore`.

Every account of the machine can reach a port on loopback, and Dagster's UI has no login. So a request needs the token
of `util.address`: a browser has it as a cookie, which the first address sets, a program or a reverse proxy sends it as
`Authorization: Bearer`. The cookie is taken under the app's own host name and those of ROLLBOOK_UI_HOSTS alone: under
`localhost`, a browser would send it to the ports of all accounts.

Any page open in the browser can send requests to this machine (CSRF), also under a host name that resolves to it (DNS
rebinding), or show the app in a frame (clickjacking). Dagster's UI checks neither `Host` nor `Origin`: even an image's
URL can run a mutation. So a request must also come from the app's own pages, or from a program, which sends no
`Origin`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from jinja2 import Template
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rollbook.util import pages
from rollbook.util.address import TOKEN, Address

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
# Answers everybody, for a service manager or a load balancer: that the app is up, and nothing else.
HEALTH = "/health"
KEEP_SECONDS = 30 * 24 * 3600  # for which a browser keeps the cookie

WRONG_HOST = (
    "Rollbook does not answer under this host name. Open the address that `rollbook open` prints. If the name in your"
    " browser's address bar is right, such as a proxy's, put it into ROLLBOOK_UI_HOSTS (with its port, if it shows one)"
    " and start `rollbook serve` again.\n"
)
FOREIGN = (
    "Another web site sent this request; only the UI's own pages may. If the UI is behind a proxy, have that pass the"
    " Host header on, and put the name in your browser's address bar into ROLLBOOK_UI_HOSTS.\n"
)
NOT_LET_IN = (
    "This needs a token. Run `{command}` on the machine where Rollbook runs: it opens the page, and prints its address,"
    " which ends with the token. A program sends it as `Authorization: Bearer TOKEN`.\n"
)
ONLY_POST = "Queries are sent to /graphql by POST, as application/json. For a query by hand, use a GraphQL client.\n"
# For uvicorn: its other parser has no limit on headers, and a request's own headers must not say who asks.
LIMITS: dict[str, Any] = {"http": "h11", "h11_max_incomplete_event_size": 2**16, "proxy_headers": False}
PRIVATE = {"Cache-Control": "no-store"}


class Guard:
    """ASGI middleware that accepts requests only from programs and the app's own pages, and only with the token.

    `address` returns what counts now. Every request's `Host` must be its name, loopback's, or one of `names`, by which
    browsers reach the app, too. A page's request, including a WebSocket's, must come from the same host and port.
    `/graphql` takes only JSON by POST, which a page cannot send cross-origin without a preflight. `command` is what
    opens the page; `wrong_host` and `foreign` are the messages for refused requests.
    """

    def __init__(
        self,
        app: ASGIApp,
        address: Callable[[], Address],
        port: int,
        names: Iterable[str] = (),
        *,
        command: str = "rollbook open",
        wrong_host: str = WRONG_HOST,
        foreign: str = FOREIGN,
    ) -> None:
        self.app, self.address, self.command = app, address, command
        self.cookie = f"rollbook-{port}"
        self.names, self.loopback = with_port(names, port), with_port(LOOPBACK, port)
        self.wrong_host, self.foreign = wrong_host, foreign

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with 403, ask for the token with 401, or pass the request on."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == HEALTH:
            await PlainTextResponse("ok\n")(scope, receive, send)
        else:
            address, answer = self.address(), _hardened(send)
            if refusal := self.refusal(scope, address):
                await PlainTextResponse(refusal, 403)(scope, receive, answer)
            elif reply := self.reply(scope, address):
                await reply(scope, receive, answer)
            elif scope["type"] == "websocket":
                await self._listened(address, scope, receive, send)
            else:
                await self.app(scope, receive, answer)

    def refusal(self, scope: Scope, address: Address) -> str | None:
        """Return the message for a request that may not be sent so; None if it may."""
        headers = Headers(scope=scope)
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or not (self.is_browsers(hosts[0], address) or hosts[0] in self.loopback):
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

    def is_browsers(self, host: str, address: Address) -> bool:
        """Whether a browser's cookie may be kept under a host. The own name has any port: a container's, a tunnel's."""
        return host == address.name or host.startswith(f"{address.name}:") or host in self.names

    def reply(self, scope: Scope, address: Address) -> Response | None:
        """Return the answer to a request without the token, or with the token in its address; None if it may pass."""
        asked = HTTPConnection(scope)
        is_sent = any(is_token(given, address) for given in bearers(asked.headers))
        can_keep = self.is_browsers(asked.headers["host"].lower(), address)
        is_page = can_keep and scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        is_first = is_page and is_token(asked.query_params.get(TOKEN, ""), address)
        is_kept = can_keep and is_token(asked.cookies.get(self.cookie, ""), address)
        if not (is_sent or is_kept or is_first):
            return self._ask(asked.query_params, is_page=is_page)
        if not is_page or TOKEN not in asked.query_params:
            return None
        to = RedirectResponse(_without_token(scope["path"], asked.query_params), 303, headers=PRIVATE)
        if is_first:
            is_https = asked.headers.get("x-forwarded-proto", "") == "https"
            to.set_cookie(self.cookie, address.token, KEEP_SECONDS, httponly=True, samesite="lax", secure=is_https)
        return to

    def _ask(self, query: QueryParams, *, is_page: bool) -> Response:
        """The answer that says how to come in: a person gets a form."""
        headers = PRIVATE | {"WWW-Authenticate": "Bearer"}
        if not is_page:
            return PlainTextResponse(NOT_LET_IN.format(command=self.command), 401, headers=headers)
        rest = [pair for pair in query.multi_items() if pair[0] != TOKEN]
        return HTMLResponse(_form().render(command=self.command, token=TOKEN, kept=rest), 401, headers=headers)

    async def _listened(self, address: Address, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a WebSocket on until the token is changed: it can ask for all that a request can."""
        is_open = True

        async def ask() -> Message:
            message = await receive()
            return message if self.address() == address else {"type": "websocket.disconnect", "code": 1008}

        async def answer(message: Message) -> None:
            nonlocal is_open
            if self.address() != address:
                message = {"type": "websocket.close", "code": 1008}
            if is_open:
                is_open = message["type"] != "websocket.close"
                await send(message)

        await self.app(scope, ask, answer)


def with_port(names: Iterable[str], port: int) -> frozenset[str]:
    """Return the `Host` values for host names: a name without a port is accepted both without one (behind a proxy) and
    with the served port.
    """
    values: set[str] = set()
    for name in map(str.lower, names):
        values |= {name} if urlsplit(f"//{name}").port else {name, f"{name}:{port}"}
    return frozenset(values)


def is_token(given: str, address: Address) -> bool:
    """Whether a text is the token, without telling by the time how much of it is right."""
    return secrets.compare_digest(given.encode(), address.token.encode())


def bearers(headers: Headers) -> list[str]:
    """The tokens of a program. A proxy may pass on another kind of `Authorization`, of its own login."""
    pairs = [value.partition(" ") for value in headers.getlist("authorization")]
    return [token.strip() for kind, _, token in pairs if kind.lower() == "bearer"]


def _without_token(path: str, query: QueryParams) -> str:
    """The address of the same page, on this host: `//evil.example/` would lead to another one."""
    rest = urlencode([pair for pair in query.multi_items() if pair[0] != TOKEN])
    return quote(f"/{path.lstrip('/')}") + (f"?{rest}" if rest else "")


@cache
def _form() -> Template:
    return pages.environment("rollbook.util.pages").get_template("token.html")


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
