"""What the commands that serve a web app share: their address, their socket, the browser, and how they stop."""

from __future__ import annotations

import os
import signal
import socket
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from rollbook.errors import ArgumentError, MachineError
from rollbook.settings import ROOT
from rollbook.terminal import err
from rollbook.util import address

# The web apps, as their addresses are kept.
UI, EXPLORE = "ui", "explore"


@contextmanager
def stopping_on_signals(exit_code: int = 0) -> Iterator[None]:
    """End the block on SIGTERM or Ctrl-C, and the command with the exit code unless that is 0."""
    before = {s: signal.signal(s, signal.default_int_handler) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except KeyboardInterrupt:
        err.print("Stopping." if not exit_code else "Stopped. The next run continues where this one stopped.")
        if exit_code:
            raise typer.Exit(exit_code) from None
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


Browser = Annotated[
    bool, typer.Option("--browser/--no-browser", help="Open it in the browser, where this terminal has one.")
]


def dagster_home() -> Path:
    """The folder where the addresses are kept, be it there or not."""
    return Path(os.environ.get("DAGSTER_HOME") or ROOT / "dagster_home").absolute()


def first_address(kept: address.Kept) -> str:
    """The address that lets a browser in: with the token, and with the app's own host name. Raises MachineError."""
    try:
        return kept.read().url(kept.port)
    except address.UnreadableError as error:
        raise MachineError(f"{error}: add --new to `rollbook open`, which writes another address") from None


def show(kept: address.Kept) -> None:
    """Open an app in the person's browser, if there is a screen to show it."""
    if _has_screen():
        webbrowser.open(kept.page(first_address(kept)).as_uri())


def listening(host: str, port: int, command: str) -> socket.socket:
    """Return a socket that listens on a port. Raises ArgumentError if the port is taken, suggesting another
    `--port`.
    """
    try:
        return address.listen(host, port)
    except OSError as error:
        raise ArgumentError(
            f"Port {port} of {host} cannot be opened ({os.strerror(error.errno or 0)}): choose another one with --port,"
            f" such as `rollbook {command} --port {port + 1 if port < 65535 else port - 1}`"
        ) from None


def _has_screen() -> bool:
    """Whether a person is at this terminal, and has a screen that shows windows."""
    is_shown = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return is_shown and sys.stdout.isatty()
