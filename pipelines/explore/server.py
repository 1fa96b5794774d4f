"""Serves the app behind the guard of `door`, or opens a copy of the notebook in marimo's editor behind the same guard.

Both listen on loopback only and require a token: the pages name pupils, every account of the machine can reach a port
on loopback, and the editor runs any code that is typed into it.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from pipelines.door import Guard, allowed_hosts
from pipelines.errors import ArgumentError
from pipelines.machine import listening

HOST = "127.0.0.1"
COPY = "rollbook_explore.py"
STOP_WITHIN = 3  # seconds, for open pages

WRONG_HOST = (
    "This is `rollbook explore`, and it answers to this machine's own names only: open the address that it printed.\n"
)
FOREIGN = "Another web site sent this request; only the pages of `rollbook explore` may.\n"


def serve(port: int, ready: Callable[[str], None]) -> None:
    """Serve the app until SIGTERM or Ctrl-C. `ready` is called with its address when the port is open.

    Raises ArgumentError when marimo is not installed or the port is taken.
    """
    marimo = _marimo()
    packaged = files("pipelines.explore").joinpath("notebook.py")
    with listening(HOST, port, "explore") as opened, as_file(packaged) as notebook:
        token = secrets.token_urlsafe(16)
        app = marimo.create_asgi_app(quiet=True, token=token).with_app(path="/", root=str(notebook)).build()
        config = uvicorn.Config(_guard(app, port), log_level="error", timeout_graceful_shutdown=STOP_WITHIN)
        ready(f"http://{HOST}:{port}/?access_token={token}")
        try:
            uvicorn.Server(config).run(sockets=[opened])
        finally:
            for mounted in app.routes:  # the thread of each open page then ends after its current query
                mounted.app.state.session_manager.close_all_sessions()


def edit(port: int, folder: Path, ready: Callable[[str], None]) -> None:
    """Open a copy of the notebook in `folder` in marimo's editor; an existing copy is opened unchanged.

    `ready` is called with its address. Raises ArgumentError when marimo is not installed, the port is taken, or the
    folder cannot be written to.
    """
    _marimo()
    from marimo._cli.cli import main
    from marimo._server import start

    listening(HOST, port, "explore").close()
    token = secrets.token_urlsafe(16)
    # marimo has no public way to add a middleware to its editor. `start` makes the app by this name (0.25.2).
    editor: Any = start
    editor.create_starlette_app = partial(_guarded_editor, editor.create_starlette_app, port)
    copy = own_copy(folder)
    ready(f"http://{HOST}:{port}/?access_token={token}")
    options = ("--headless", "--skip-update-check", "--no-sandbox", "--host", HOST, "--port", str(port))
    main(["-q", "-y", "edit", str(copy), *options, "--token-password", token], standalone_mode=False)


def own_copy(folder: Path) -> Path:
    """The analyst's own copy of the notebook in a folder, created if missing and never overwritten."""
    copy = folder / COPY
    if not copy.exists():
        try:
            with as_file(files("pipelines.explore").joinpath("notebook.py")) as notebook:
                shutil.copyfile(notebook, copy)
        except OSError as error:
            raise ArgumentError(
                f"A copy of the notebook cannot be made in {folder} ({error.strerror}): run `rollbook explore --edit`"
                " in a folder of yours"
            ) from None
    return copy


def _guarded_editor(make: Callable[..., Any], port: int, **options: Any) -> Any:
    """The app that marimo makes, with the guard as its outermost middleware."""
    app = make(**options)
    app.add_middleware(_guard, port=port)
    return app


def _guard(app: ASGIApp, port: int) -> Guard:
    return Guard(app, allowed_hosts(HOST, port), wrong_host=WRONG_HOST, foreign=FOREIGN)


def _marimo() -> Any:
    """Import marimo. Raises ArgumentError with the command that installs it."""
    try:
        import marimo
    except ModuleNotFoundError:
        raise ArgumentError("`rollbook explore` needs the extra `explore`: pip install 'rollbook[explore]'") from None
    return marimo
