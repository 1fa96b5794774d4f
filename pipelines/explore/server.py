"""Serves the app behind the guard of `util.request_guard`.

It listens on loopback only and requires a token: the pages name pupils, and every account of the machine can reach a
port on loopback.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from importlib.resources import as_file, files
from typing import Any

import uvicorn

from pipelines.errors import ArgumentError
from pipelines.util.machine import listening
from pipelines.util.request_guard import Guard, allowed_hosts

HOST = "127.0.0.1"
STOP_WITHIN = 3  # seconds, for open pages

WRONG_HOST = (
    "This is `rollbook explore`, and it answers to this machine's own names only: open the address that it printed.\n"
)
FOREIGN = "Another web site sent this request; only the pages of `rollbook explore` may.\n"


def serve(port: int, ready: Callable[[str], None]) -> None:
    """Serve the app until SIGTERM or Ctrl-C. `ready` is called with its address when the port is open.

    Raises ArgumentError when marimo is not installed or the port is taken.
    """
    try:
        import marimo
    except ModuleNotFoundError:
        raise ArgumentError("`rollbook explore` needs the extra `explore`: pip install 'rollbook[explore]'") from None
    packaged = files("pipelines.explore").joinpath("notebook.py")
    with listening(HOST, port, "explore") as opened, as_file(packaged) as notebook:
        token = secrets.token_urlsafe(16)
        app: Any = marimo.create_asgi_app(quiet=True, token=token).with_app(path="/", root=str(notebook)).build()
        guarded = Guard(app, allowed_hosts(HOST, port), wrong_host=WRONG_HOST, foreign=FOREIGN)
        config = uvicorn.Config(guarded, log_level="error", timeout_graceful_shutdown=STOP_WITHIN)
        ready(f"http://{HOST}:{port}/?access_token={token}")
        try:
            uvicorn.Server(config).run(sockets=[opened])
        finally:
            for mounted in app.routes:  # the thread of each open page then ends after its current query
                mounted.app.state.session_manager.close_all_sessions()
