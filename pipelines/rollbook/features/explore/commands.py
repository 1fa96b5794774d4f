"""`rollbook explore`, and `rollbook readers`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from rollbook.errors import ArgumentError, MachineError, SettingError
from rollbook.features.explore.readers import FILE
from rollbook.features.explore.settings import ExploreSettings
from rollbook.features.morning.settings import MorningSettings
from rollbook.settings import is_of_all, load
from rollbook.store.published import PUBLISHED, check_is_there
from rollbook.terminal import (
    Demo,
    Panel,
    app,
    out,
    safe,
    table,
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
    listen: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="Serve a proxy with the school's sign-in instead, at 0.0.0.0:3001 or unix:PATH; each person then sees"
            " what readers.csv says.",
            show_default=False,
        ),
    ] = "",
    demo: Demo = False,
    browser: Browser = True,
) -> None:
    """Show the school, its classes and students in the browser, until Ctrl-C or SIGTERM. It changes no record.

    Listens on this machine only, and requires the token in the printed address; with --listen, a sign-in.
    """
    without_secrets()
    warehouse = warehouse_path(demo=demo)
    check_is_there(warehouse / PUBLISHED)
    if listen:
        show_readers(listen, warehouse)
    else:
        show_app(port, browser=browser)


@app.command(rich_help_panel=Panel.READ)
def readers(demo: Demo = False) -> None:
    """Show who sees what in `rollbook explore --listen`: each login of readers.csv, with how many students and classes.

    Also those who see nobody, with the line that leads to nobody; teachers, where ROLLBOOK_TEACHERS_SEE_THEIRS is on.
    """
    from rollbook.features.explore.seen import seen

    warehouse = warehouse_path(demo=demo)
    found = [*seen(warehouse, teachers=ExploreSettings.of(load(fetches=False)).teachers_see_theirs)]
    if not found:
        out.print(f"Nobody: {warehouse / FILE} has no line yet. Write login,sees there, and a line each, such as")
        out.print("hoy10@school.example,year=10")
        return
    listed = [(each.login, ", ".join(each.sees), f"{each.students:,}", f"{each.classes:,}") for each in found]
    out.print(table("", ("login", "sees", "students", "classes"), listed))
    for each in found:
        for problem in each.problems:
            out.print(safe(f"{each.login}: {problem}"))


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
    _end()


def show_readers(listen: str, warehouse: Path) -> None:
    """Serve the app to a proxy with a sign-in, until somebody stops it. Raises SettingError and ArgumentError."""
    from rollbook.features.explore import login, server
    from rollbook.features.explore.readers import Readers

    if is_of_all():
        raise ArgumentError("Who sees what is said of one institution: name it with --institution")
    settings = load(fetches=False)
    mine, url = ExploreSettings.of(settings), MorningSettings.of(settings).explore_url
    is_unix = listen.startswith(login.UNIX)
    wanted = {"LOGIN_HEADER": mine.login_header, "LOGIN_PROXIES": mine.login_proxies or is_unix, "EXPLORE_URL": url}
    if missing := [f"ROLLBOOK_{name}" for name, value in wanted.items() if not value]:
        raise SettingError(
            f"--listen needs a proxy with the school's sign-in in front: set {' and '.join(missing)}, as"
            " dagster_home/README.md shows"
        )
    who = Readers(warehouse, teachers=mine.teachers_see_theirs)
    with stopping_on_signals(), ExitStack() as stack:
        address_of: Callable[[], address.Address] = partial(address.Address, "", "")
        if is_unix:
            opened = stack.enter_context(login.unix_socket(Path(listen.removeprefix(login.UNIX)).absolute()))
            sends = ""
        else:
            host, port = login.host_and_port(listen)
            opened = stack.enter_context(listening(host, port, EXPLORE))
            try:
                address_of = stack.enter_context(address.serving(dagster_home(), EXPLORE, port)).read
            except OSError as error:
                raise MachineError(
                    f"The token for the proxy cannot be kept in {dagster_home()} ({error.strerror})"
                ) from None
            sends = ", which sends the token that ends the address of `rollbook open explore`"
        proxy = login.Proxy(None if is_unix else mine.proxies, mine.login_header, url)
        out.print(safe(f"Open {url} in a browser. The proxy there asks at {listen}{sends}; Ctrl-C stops it."))
        server.serve_readers([opened], who, proxy, address_of)
    _end()


def _end() -> None:
    """End the process once its last queries have ended, or soon."""
    # A page's thread may be in the middle of a query, with a folder of its own: let the thread end and remove the
    # folder. The interpreter would wait for a long query without limit, or crash.
    until = time.monotonic() + LAST_QUERIES
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))
    out.file.flush()
    os._exit(0)
