"""What all commands share: the app itself, its exit codes, and how it prints."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.table import Table

from pipelines import files
from pipelines.errors import RollbookError
from pipelines.settings import ROOT

app = typer.Typer(
    name="rollbook",
    help="Nightly student and class records in DuckDB, with every change kept.",
    epilog="Exit codes: 0 done, 1 failed, 2 a setting or argument is missing or malformed, 3 held for approval.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def main() -> None:
    """Run a command; what Rollbook reports on purpose becomes one line and an exit code, without a traceback."""
    files.keep_private(os.environ.setdefault("DAGSTER_HOME", str(ROOT / "dagster_home")))
    logging.basicConfig(
        level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=err, show_path=False)]
    )
    try:
        app()
    except RollbookError as error:
        fail(error.message, error.exit_code)


def fail(message: str, exit_code: int) -> None:
    """End the command with one line on standard error."""
    err.print(f"[bold red]{'Held' if exit_code == 3 else 'Error'}:[/] {escape(message.removeprefix('Held: '))}")
    sys.exit(exit_code)


def day_of(moment: datetime | None) -> date | None:
    """The date that was typed."""
    return moment.date() if moment else None


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table for the terminal; numbers to the right."""
    listed = [list(row) for row in rows]
    made = Table(title=title, title_justify="left", title_style="bold", show_edge=False)
    for place, heading in enumerate(columns):
        numeric = all(type(row[place]) in (int, float) for row in listed if row[place] is not None)
        made.add_column(heading, justify="right" if numeric and listed else "left", no_wrap=place == 0)
    for row in listed:
        made.add_row(*(escape(_worded(value)) for value in row))
    return made


def _worded(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
