"""Guards Dagster's UI against requests from other web sites (CSRF, DNS rebinding, framing): it asks for no password.

Any page that an operator has open can make the browser send requests to this machine, and Dagster checks neither `Host`
nor `Origin`: even an image's URL can run a mutation. The guard lets through requests from the UI's own pages, and from
programs, which send no `Origin`.

`python -m pipelines.guard HOST PORT [NAME ...]` serves the UI behind the guard, as `rollbook serve` does. The names
imported from Dagster below are not public; they were checked against 1.13.27, the version that pyproject.toml pins.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from urllib.parse import urlsplit

import uvicorn
from dagster import DagsterInstance, __version__
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.cli import (
    DEFAULT_DB_STATEMENT_TIMEOUT,
    DEFAULT_POOL_MAX_OVERFLOW,
    DEFAULT_POOL_RECYCLE,
)
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipelines import files
from pipelines.dagster_internals import WorkspaceFileTarget, WorkspaceProcessContext, setup_interrupt_handlers
from pipelines.settings import ROOT

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - not a host that a browser can ask for
POLL_MS = 2000  # how often the UI polls for changes; Dagster's own default

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
    """ASGI middleware that lets only programs and the UI's own pages through.

    Every request's `Host` must be one of `hosts`. A request from a page must come from the same host and port, also for
    WebSockets. `/graphql` takes JSON by POST only, which a page cannot send to another site without a preflight.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self.app = app
        self.hosts = frozenset(hosts)

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
            return WRONG_HOST
        if any(origin.lower().partition("://")[2] != hosts[0] for origin in headers.getlist("origin")):
            return FOREIGN  # also for `null`, the origin of a sandboxed page
        if scope["type"] == "websocket":
            return None
        if scope["method"] not in ("GET", "HEAD") and headers.get("sec-fetch-site", "none") not in (
            "same-origin",
            "none",
        ):
            return FOREIGN
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
    """Return the `Host` values to accept for a UI that listens on this host and port and has these further names.

    A name without a port is accepted as it is (behind a proxy) and with the served port.
    """
    own = [] if host in EVERY_ADDRESS else [f"[{host}]" if ":" in host else host.lower()]
    allowed = set()
    for name in (*LOOPBACK, *own, *names):
        allowed |= {name} if urlsplit(f"//{name}").port else {name, f"{name}:{port}"}
    return allowed


def serve(host: str, port: int, names: Iterable[str] = ()) -> None:
    """Serve Dagster's UI behind the guard until SIGTERM or Ctrl-C. DAGSTER_HOME must be set."""
    files.keep_private(os.environ.get("DAGSTER_HOME"))
    setup_interrupt_handlers()
    with DagsterInstance.get() as instance:
        instance.optimize_for_webserver(DEFAULT_DB_STATEMENT_TIMEOUT, DEFAULT_POOL_RECYCLE, DEFAULT_POOL_MAX_OVERFLOW)
        workspace = WorkspaceFileTarget([str(ROOT / "workspace.yaml")])
        with WorkspaceProcessContext(instance, workspace, version=__version__) as context:
            app = create_app_from_workspace_process_context(context, live_data_poll_rate=POLL_MS)
            uvicorn.run(Guard(app, allowed_hosts(host, port, names)), host=host, port=port, log_level="warning")


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
