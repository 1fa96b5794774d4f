"""What all commands share: the app itself, its exit codes, and how it prints."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from pathlib import Path
from traceback import extract_tb
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.logging import RichHandler
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from pipelines import files
from pipelines.errors import RollbookError, unforeseen
from pipelines.settings import ROOT
from pipelines.text import printable

PACKAGE = ROOT / "pipelines"

app = typer.Typer(
    name="rollbook",
    help="Nightly student and class records in DuckDB, with every change kept.",
    epilog="Exit codes: 0 done, 1 failed, 2 a setting or argument is missing or malformed, 3 held for approval.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Terminal(Console):
    """Where all output goes: nothing that came from the service, a file or an argument is obeyed by the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is printed, in pieces; Rich's own control codes are marked as such."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else piece._replace(text=printable(piece.text, lines=True))


out = Terminal()
err = Terminal(stderr=True)


def main() -> None:
    """Run a command; what goes wrong becomes one line and an exit code.

    A traceback is shown when ROLLBOOK_DEBUG is set, and only of an error that nobody foresaw: it may quote records.
    """
    files.keep_private(os.environ.setdefault("DAGSTER_HOME", str(ROOT / "dagster_home")))
    logging.basicConfig(
        level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=err, show_path=False)]
    )
    try:
        app()
    except RollbookError as error:
        fail(error.message, error.exit_code)
    except Exception as error:
        if os.environ.get("ROLLBOOK_DEBUG"):
            raise
        look = (
            "Run it again with ROLLBOOK_DEBUG=1 to see all of it, which may quote pupils' records: read it before you"
            " pass it on"
        )
        fail(unforeseen(f"{type(error).__name__}{_place(error)}", look), RollbookError.exit_code)


def _place(error: BaseException) -> str:
    """Where in Rollbook an error came from, as far as it shows."""
    own = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(PACKAGE)]
    return f" in {Path(own[-1].filename).relative_to(PACKAGE.parent)}, line {own[-1].lineno}" if own else ""


def fail(message: str, exit_code: int) -> None:
    """End the command with one line on standard error."""
    err.print(f"[bold red]{'Held' if exit_code == 3 else 'Error'}:[/] {escape(message.removeprefix('Held: '))}")
    sys.exit(exit_code)


def day_of(moment: datetime | None) -> date | None:
    """The date that was typed."""
    return moment.date() if moment else None


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table for the terminal, a line a row; numbers to the right."""
    listed = [list(row) for row in rows]
    made = Table(title=safe(title), title_justify="left", title_style="bold", show_edge=False)
    for place, heading in enumerate(columns):
        numeric = all(type(row[place]) in (int, float) for row in listed if row[place] is not None)
        made.add_column(safe(heading), justify="right" if numeric and listed else "left", no_wrap=place == 0)
    for row in listed:
        made.add_row(*(safe(_worded(value)) for value in row))
    return made


def safe(text: str) -> str:
    """A text that came from elsewhere, as part of a line to print: neither markup nor a line of its own."""
    return escape(printable(text))


def _worded(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
