"""Shared by all commands: the app itself, its exit codes, and how it prints."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from traceback import extract_tb
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from rollbook import __version__
from rollbook.errors import RollbookError, SettingError, unexpected_error
from rollbook.settings import (
    DEBUG,
    DEMO,
    HANDED,
    INSTITUTION,
    INSTITUTIONS,
    PREFIX,
    ROOT,
    common_path,
    place,
    public_environment,
    secrets_in_environment,
)
from rollbook.store.published import DEMO_FOLDER
from rollbook.tables import SETS
from rollbook.util import files
from rollbook.util.text import cell, printable

if TYPE_CHECKING:
    from rollbook.landing.manifest import TableCounts
    from rollbook.source.pagination import Progress as Show
    from rollbook.store.warehouse import Contents

PACKAGE = Path(__file__).resolve().parent.parent
# Dagster's configuration, which a Dagster home without one gets.
CONFIGURATION = PACKAGE / "defs" / "dagster.yaml"
# How serious a finding is, as the terminal shows it.
LEVELS = {"ok": "[green]     ok[/]", "warning": "[yellow]warning[/]", "failed": "[bold red] failed[/]"}

app = typer.Typer(
    name="rollbook",
    help="Nightly student and class records in DuckDB, with every change kept.",
    epilog="Exit codes: 0 done, 1 failed, 2 a setting or argument is missing or malformed, 3 held for approval.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # wraps paragraphs; the default keeps the line breaks of the source
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Panel(StrEnum):
    """The headings of `rollbook --help`, in their order."""

    TRY = "Try it"
    SYNC = "Sync and repair"
    ASK = "See how it is doing"
    READ = "Read the data"
    PRIVACY = "Data protection"
    SEVERAL = "Several institutions"


class Terminal(Console):
    """Prints all output. Control characters from the service, a file or an argument never reach the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print. Sentences are soft-wrapped, so that a command can be copied whole; a table in a pipe is not cut."""
        if all(isinstance(text, str) for text in objects):
            options.setdefault("soft_wrap", True)
        else:
            options.setdefault("crop", self.is_terminal)
        super().print(*objects, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape control characters in the rendered text; Rich's own control codes are marked as such and stay."""
        if isinstance(renderable, Table) and not self.is_terminal:
            options = (options or self.options).update(max_width=10_000)
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, lines=True))


class LogLines(logging.Handler):
    """Prints log records like other output: one soft-wrapped line each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        level = "[bold red]Error" if record.levelno >= logging.ERROR else "[yellow]Warning"
        # In a run, Dagster has put its job and id in front of the message.
        text = getattr(record, "dagster_meta", {}).get("orig_message") or self.format(record)
        err.print(f"{level}:[/] {escape(printable(text, lines=True))}")


out = Terminal()
err = Terminal(stderr=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"rollbook {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # noqa: ARG001 - handled by its callback
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    named: Annotated[
        str | None,
        typer.Option(
            "--institution",
            metavar="NAME",
            help="The institution, if there is an institutions.toml.",
        ),
    ] = None,
) -> None:
    if named is not None:
        os.environ[INSTITUTION] = named


def main() -> None:
    """Run a command; an error becomes one line and an exit code.

    A traceback is shown only for an unexpected error when ROLLBOOK_DEBUG is set: it may quote records.
    """
    files.keep_private(os.environ.setdefault("DAGSTER_HOME", str(ROOT / "dagster_home")))
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[LogLines()])
    try:
        app()
    except RollbookError as error:
        fail(error.message, error.exit_code)
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        advice = (
            "Run it again with ROLLBOOK_DEBUG=1 to see the traceback. It may quote pupils' records: read it before you"
            " share it"
        )
        own = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(PACKAGE)]
        place = f" in {Path(own[-1].filename).relative_to(PACKAGE.parent)}, line {own[-1].lineno}" if own else ""
        fail(unexpected_error(f"{type(error).__name__}{place}", advice), RollbookError.exit_code)


def fail(message: str, exit_code: int) -> None:
    """End the command with one line on standard error."""
    err.print(f"[bold red]{'Held' if exit_code == 3 else 'Error'}:[/] {escape(message.removeprefix('Held: '))}")
    sys.exit(exit_code)


def parse_day(text: str) -> date:
    """Parse an argument that is a day. Raises typer.BadParameter."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 - a day has no time zone
    except ValueError:
        raise typer.BadParameter(f"{printable(repr(text))} is not a day: write one like 2026-09-01") from None


def confirmed(question: str = "Go on?") -> bool:
    """Ask whether to go on. Without a terminal nobody can answer, so the answer is no."""
    return sys.stdin.isatty() and typer.confirm(question, default=False)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, widest: int | None = None) -> Table:
    """A table for the terminal, one line per row; numbers are right-aligned. Columns are at most `widest` wide."""
    listed = [list(row) for row in rows]
    result = Table(title=safe(title), title_justify="left", title_style="bold", show_edge=False)
    for index, heading in enumerate(columns):
        numeric = all(type(row[index]) in (int, float) for row in listed if row[index] is not None)
        justify: JustifyMethod = "right" if numeric and listed else "left"
        result.add_column(
            safe(heading), justify=justify, no_wrap=index == 0 and widest is None, overflow="fold", max_width=widest
        )
    for row in listed:
        result.add_row(*(safe(cell(value)) for value in row))
    return result


def print_counts(tables: Iterable[TableCounts], title: str = "", *, nothing: str = "Nothing changed.") -> None:
    """Print what differs in each table, or that nothing does."""
    rows = [(c.table, c.before, c.added, c.changed, c.removed) for c in tables if c.added or c.changed or c.removed]
    out.print(table(title, ("table", "rows before", "added", "changed", "removed"), rows) if rows else nothing)


def print_json(value: object) -> None:
    """Write one JSON object to standard output."""
    sys.stdout.write(printable(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), lines=True) + "\n")


def home() -> Path | None:
    """Dagster's home folder, or None if there is none."""
    path = Path(os.environ.get("DAGSTER_HOME", ""))
    return path if path.is_absolute() and path.is_dir() else None


def made_home() -> Path:
    """Dagster's home folder, made if it is not there, with our `dagster.yaml` if it has none.

    Raises SettingError.
    """
    path = Path(os.environ.get("DAGSTER_HOME", ""))
    if not path.is_absolute():
        raise SettingError(f"DAGSTER_HOME={path} must be a whole path, such as {path.absolute()}")
    if path.exists() and not path.is_dir():
        raise SettingError(f"DAGSTER_HOME={path} is a file: set it to a folder, in which Dagster keeps its records")
    try:
        files.folder(path)
        configuration = path / CONFIGURATION.name
        if not configuration.exists():
            files.write(configuration, CONFIGURATION.read_bytes())
    except OSError as error:
        raise SettingError(
            f"DAGSTER_HOME={path} cannot be made or written to ({error.strerror}): set it to a folder that this account"
            " may write to"
        ) from None
    return path


def without_secrets() -> dict[str, str]:
    """Execute this command again without the secrets of its environment, if there are any; returns them.

    For commands that run for long or start processes, at their begin: the system shows the environment with which a
    process started for as long as the process lives, and each child gets a copy.
    """
    if number := os.environ.pop(HANDED, None):
        with os.fdopen(int(number), encoding="ascii") as file:
            handed: dict[str, str] = json.load(file)
        return handed
    if secrets := secrets_in_environment():
        with TemporaryFile("w", encoding="ascii") as file:  # without a name
            json.dump(secrets, file)
            file.flush()
            file.seek(0)
            os.set_inheritable(file.fileno(), True)
            variables = {HANDED: str(file.fileno())} | public_environment()
            os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], variables)  # noqa: S606 - this command
    return {}


Demo = Annotated[bool, typer.Option("--demo", help="Use the demo's warehouse.")]


def made_up(folder: str) -> dict[str, str]:
    """The variables of a made-up school, which has a warehouse and a Dagster home of its own and reads no `.env`."""
    warehouse = common_path() / folder
    home = files.folder(warehouse / "dagster_home")
    shutil.copyfile(CONFIGURATION, home / CONFIGURATION.name)
    return {DEMO: "1", f"{PREFIX}WAREHOUSE": str(warehouse), "DAGSTER_HOME": str(home)}


def choose_warehouse() -> None:
    """Make this process and its children use the demo's warehouse and Dagster home, and no `.env`."""
    for name in (INSTITUTION, INSTITUTIONS):  # the demo's school is not in a registry
        os.environ.pop(name, None)
    os.environ |= made_up(DEMO_FOLDER)


def warehouse_path(*, demo: bool) -> Path:
    """The warehouse that a command reads. Raises SettingError."""
    if demo:
        choose_warehouse()
    return place().warehouse_path


@contextmanager
def progress() -> Iterator[Show]:
    """Show a bar for each part of the work, on a terminal. Yields a callback show(name, done, total)."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        tasks = {}

        def show(name: str, done: int, total: int) -> None:
            bars.start()  # the previous stage may have stopped it
            if name not in tasks:
                tasks[name] = bars.add_task(f"pages of {name}" if name in SETS else name)
            bars.update(tasks[name], completed=done, total=total)
            if name not in SETS and done == total:
                bars.stop()  # a confirmation may follow

        yield show


def received(records: Mapping[str, int]) -> str:
    """The number of records received per set, as `500 students, 20 classes`."""
    return ", ".join(f"{count:,} {name}" for name, count in records.items()) or "no records"


def contents_of(file: Contents) -> str:
    """What a published file holds: its newest day and landing, and how many records."""
    day = f"{file.day}, landing {file.landing}" if file.day else "no day"
    return f"{day}: {received(file.records)}"


def safe(text: str) -> str:
    """Escape external text for a printed line: its markup and line breaks have no effect."""
    return escape(printable(text))
