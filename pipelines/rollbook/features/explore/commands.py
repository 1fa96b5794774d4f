"""`rollbook explore`."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from rollbook.store.published import PUBLISHED, check_is_there
from rollbook.terminal import (
    Demo,
    Panel,
    app,
    out,
    safe,
    warehouse_path,
    without_secrets,
)
from rollbook.terminal.serving import (
    EXPLORE,
    Browser,
    dagster_home,
    first_address,
    listening,
    show,
    stopping_on_signals,
)
from rollbook.util import address

LAST_QUERIES = 5  # seconds


@app.command(rich_help_panel=Panel.READ)
def explore(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on this machine.")] = 3001,
    demo: Demo = False,
    browser: Browser = True,
) -> None:
    """Show the school, its classes and students in the browser, until Ctrl-C or SIGTERM. It changes no record.

    Listens on this machine only, and requires the token in the printed address.
    """
    without_secrets()
    check_is_there(warehouse_path(demo=demo) / PUBLISHED)
    show_app(port, browser=browser)


def show_app(port: int, *, browser: bool) -> None:
    """Serve the app until somebody stops it. With `browser`, open it in the person's browser."""
    from rollbook.features.explore import server

    with stopping_on_signals(), ExitStack() as stack:
        hosts = address.listened(address.LOOPBACK)
        opened = [stack.enter_context(listening(host, port, EXPLORE)) for host in hosts]
        try:
            kept = stack.enter_context(address.serving(dagster_home(), EXPLORE, port))
        except OSError:  # this account may only read there: the address ends with the command
            home = Path(stack.enter_context(TemporaryDirectory(prefix="rollbook-")))
            kept = stack.enter_context(address.serving(home, EXPLORE, port))
        out.print(f"Open {safe(first_address(kept))} in a browser on this machine; Ctrl-C stops it.")
        if browser:
            show(kept)
        server.serve(opened, kept)
    # A page's thread may be in the middle of a query, with a folder of its own: let the thread end and remove the
    # folder. The interpreter would wait for a long query without limit, or crash.
    until = time.monotonic() + LAST_QUERIES
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))
    out.file.flush()
    os._exit(0)
