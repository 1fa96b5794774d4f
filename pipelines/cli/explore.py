"""`rollbook explore`: the published file as a small web app, for people who do not write SQL."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.app import Panel, app, out, safe
from pipelines.cli.demo import choose_warehouse
from pipelines.cli.serve import stopping_on_signals
from pipelines.errors import NothingLandedError
from pipelines.settings import place
from pipelines.store.published.versions import PUBLISHED

LAST_QUERIES = 5  # seconds


@app.command(rich_help_panel=Panel.READ)
def explore(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on this machine.")] = 3001,
    edit: Annotated[
        bool, typer.Option("--edit", help="Edit your own copy of the app, a notebook in this folder.")
    ] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Show the demo's school.")] = False,
) -> None:
    """Show the school, its classes and students in the browser, until Ctrl-C or SIGTERM. It only reads.

    Listens on this machine only, and requires the token in the address that it prints.
    """
    if demo:
        choose_warehouse()
    published = place().warehouse_path / PUBLISHED
    if not published.exists():
        raise NothingLandedError(f"{published} does not exist yet: run `rollbook sync` first")
    show_app(port, edit=edit)


def show_app(port: int, *, edit: bool) -> None:
    """Serve the app, or open a copy of it for editing, until it is stopped."""
    from pipelines.explore import server

    with stopping_on_signals():
        if edit:
            server.edit(port, Path.cwd(), _say_where)
        else:
            server.serve(port, _say_where)
    if not edit:
        # A page's thread may be in the middle of a query, with a folder of its own: let it end and remove that. The
        # interpreter would wait for a long query without limit, or crash below it.
        until = time.monotonic() + LAST_QUERIES
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))
        out.file.flush()
        os._exit(0)


def _say_where(address: str) -> None:
    out.print(f"Open {safe(address)} in a browser on this machine; Ctrl-C stops it.")
