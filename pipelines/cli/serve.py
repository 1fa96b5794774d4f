"""`rollbook serve` and `rollbook explore`, which run until they are stopped: the UI with the daemon, and the web app.

`serve` runs Dagster's webserver behind the guard, and Dagster's daemon. It starts two processes itself instead of
`dagster dev`, which ignores a service manager's stop signals when it runs in the background, and orphans its children
when it is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Annotated

import typer

from pipelines import settings
from pipelines.cli.app import Panel, app, err, out, safe
from pipelines.cli.demo import KEY, choose_warehouse, prepare
from pipelines.errors import NothingLandedError, RollbookError
from pipelines.machine import listening
from pipelines.settings import DEMO, ROOT
from pipelines.store.published.versions import PUBLISHED
from pipelines.text import count_of

STOP_WITHIN = 20.0  # seconds
LAST_QUERIES = 5  # seconds

# Linux's prctl, which Python does not offer. On other systems a killed `serve` orphans its children.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_SET_PARENT_DEATH_SIGNAL = 1


@app.command(rich_help_panel=Panel.SYNC)
def serve(
    host: Annotated[
        str,
        typer.Option(
            help="The address that the UI listens on. It has no password: keep it on loopback. It answers to this host"
            " name and loopback's; ROLLBOOK_UI_HOSTS adds others."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The UI's port.")] = 3000,
    demo: Annotated[bool, typer.Option("--demo", help="Serve the demo's warehouse, and its made-up school.")] = False,
) -> None:
    """Run the UI and the daemon that starts the nightly sync, until Ctrl-C or SIGTERM."""
    with ExitStack() as stack:
        if demo:
            from pipelines.sandbox import Sandbox

            prepare(stack.enter_context(Sandbox(api_key=KEY)).url)
        names, runs = _what_is_served()
        workspace = ["-w", str(ROOT / "workspace.yaml")]
        web = [sys.executable, "-m", "pipelines.guard", host, str(port), *names]
        daemon = [sys.executable, "-m", "dagster._daemon", "run", *workspace]
        listening(host, port, "serve").close()
        stack.enter_context(stopping_on_signals())
        _create_dagster_tables()
        children = [stack.enter_context(_child(command)) for command in (web, daemon)]
        out.print(f"The UI is at http://{host}:{port}; {runs}.")
        _wait(children)


def _what_is_served() -> tuple[list[str], str]:
    """The host names that the UI answers to, and a clause that says when the syncs run. Raises SettingError."""
    registry = settings.registry()
    if registry is None:
        single = settings.load()
        return single.ui_names, f"the nightly sync runs at {single.cron} ({single.timezone})"
    sources = settings.sources(registry)
    if wrong := [name for name in registry.institutions if name not in sources]:
        err.print(f"[yellow]Warning:[/] wrong settings, so not synced: {', '.join(wrong)}; see `rollbook fleet check`")
    times = {(source.cron, source.timezone) for source in sources.values()}
    of = count_of(len(sources), "institution")
    return settings.ui_names(), f"the nightly syncs of {of} run at {count_of(len(times), 'different time')}"


def _create_dagster_tables() -> None:
    """Create Dagster's tables before two processes need them; in a child, to keep Dagster out of this process."""
    with _child([sys.executable, "-c", "import dagster\nwith dagster.DagsterInstance.get(): pass"]) as child:
        if child.wait():
            raise RollbookError(
                "Dagster's records do not open; its last lines are above. `rollbook doctor` may say more: fix what it"
                " names, then start `rollbook serve` again"
            )


class _Stop(Exception):  # noqa: N818 - not an error: a request to stop
    """SIGTERM or Ctrl-C was received."""


@contextmanager
def stopping_on_signals(exit_code: int = 0) -> Iterator[None]:
    """End the block on SIGTERM or Ctrl-C, and the command with this exit code if it is not 0."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the handler's signature
        raise _Stop

    before = {s: signal.signal(s, stop) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except _Stop:
        err.print("Stopping." if not exit_code else "Stopped. The next run continues where this one stopped.")
        if exit_code:
            raise typer.Exit(exit_code) from None
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


@contextmanager
def _child(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child in its own process group, so that Ctrl-C reaches it once, through this process."""
    child = subprocess.Popen(  # noqa: S603 - our own commands
        command,
        # Dagster reads `.env` where it is started; the demo's children find none.
        cwd=os.environ["DAGSTER_HOME"] if DEMO in os.environ else ROOT,
        env=os.environ,
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
    )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _end_with_parent() -> None:
    """In the child: stop when the parent is killed, instead of keeping the port and running nights unsupervised."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _wait(children: list[subprocess.Popen[bytes]]) -> None:
    """Wait until a child ends. If one ends by itself, stop both: a service manager then restarts both."""
    try:
        while True:
            for child in children:
                if child.poll() is not None:
                    name = "The UI" if child is children[0] else "The daemon"
                    raise RollbookError(
                        f"{name} ended by itself ({child.returncode}); its last lines are above. Start `rollbook serve`"
                        " again: runs and ticks go on where they stopped"
                    )
            time.sleep(0.5)
    finally:
        for child in children:  # both at once: each takes seconds to stop
            child.terminate()


@app.command(rich_help_panel=Panel.READ)
def explore(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on this machine.")] = 3001,
    demo: Annotated[bool, typer.Option("--demo", help="Show the demo's school.")] = False,
) -> None:
    """Show the school, its classes and students in the browser, until Ctrl-C or SIGTERM. It only reads.

    Listens on this machine only, and requires the token in the address that it prints.
    """
    if demo:
        choose_warehouse()
    published = settings.place().warehouse_path / PUBLISHED
    if not published.exists():
        raise NothingLandedError(f"{published} does not exist yet: run `rollbook sync` first")
    show_app(port)


def show_app(port: int) -> None:
    """Serve the app until it is stopped."""
    from pipelines.explore import server

    with stopping_on_signals():
        server.serve(
            port, lambda address: out.print(f"Open {safe(address)} in a browser on this machine; Ctrl-C stops it.")
        )
    # A page's thread may be in the middle of a query, with a folder of its own: let it end and remove that. The
    # interpreter would wait for a long query without limit, or crash below it.
    until = time.monotonic() + LAST_QUERIES
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))
    out.file.flush()
    os._exit(0)
