"""The commands that write: sync, backfill, rebuild; and the sandbox to try them on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines.cli import job
from pipelines.cli.app import app, day_of, err, out, table
from pipelines.landing import Manifest
from pipelines.settings import Details, load
from pipelines.sync import Backfilled, Rollbook

Day = Annotated[datetime, typer.Argument(formats=["%Y-%m-%d"], metavar="DAY")]


@app.command()
def sync(
    day: Annotated[
        datetime | None,
        typer.Option("--date", formats=["%Y-%m-%d"], metavar="DAY", help="The snapshot's date; today by default."),
    ] = None,
    approve: Annotated[
        bool, typer.Option("--approve", help="Merge what this day's sync held, without fetching again.")
    ] = False,
    details: Annotated[
        Details, typer.Option(help="Fetch single-student records as well: of none, of the changed, of all.")
    ] = "none",
) -> None:
    """Fetch everything once, judge it, merge it and publish: the nightly job, now.

    Exits 0 when synced (with a warning if a set could not be proven complete), 1 when it failed, 2 when a setting or
    argument is missing or malformed, 3 when it was held. Readers keep the last published file unless it is synced.
    """
    rollbook = Rollbook(load())
    chosen = rollbook.partition(day_of(day) or rollbook.today())
    with watching():
        job.sync(chosen, approve=approve, details=details)
    tell(rollbook.counted(chosen)[-1])


@app.command()
def backfill(first: Day, last: Day) -> None:
    """Rebuild the days FIRST to LAST from what was landed then, and put history right.

    Nothing is fetched: the service keeps no history. A day on which nothing was landed is named and left out; held
    landings stay held. Exits 1 when no day of the range was landed.
    """
    rollbook = Rollbook(load())
    days = (rollbook.partition(first.date()), rollbook.partition(last.date()))
    rollbook.in_order(*days)
    job.backfill(*days)
    _tell_backfill(rollbook.landed(*days))


@app.command()
def rebuild() -> None:
    """Make the lake, the tables and the history anew from raw/ alone, by the definition of history."""
    _tell_backfill(Rollbook(load()).rebuild())


@app.command()
def sandbox(
    students: Annotated[int, typer.Option(min=1, help="How many students the made-up institution has.")] = 500,
    day: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], metavar="DAY", help="The day it plays; by default it follows the calendar."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on loopback; 0 takes a free one.")] = 8765,
    seed: Annotated[int, typer.Option(help="Another seed makes another institution.")] = 1,
    key: Annotated[str, typer.Option(help="The API key it accepts.")] = "sandbox-key",
) -> None:
    """Serve a made-up institution that follows the records service's contract, on loopback, until Ctrl-C."""
    from pipelines.sandbox import serve as serve_sandbox

    def ready(base_url: str) -> None:
        out.print(f"Serving {students:,} students at {base_url}. In another terminal:\n")
        out.print(f"  ROLLBOOK_BASE_URL={base_url} ROLLBOOK_API_KEY={key} rollbook sync\n")

    serve_sandbox(students, day_of(day), port, seed, key, on_ready=ready)


@contextmanager
def watching() -> Iterator[None]:
    """Show the pages as they come, where there is a terminal to show them on."""
    from pipelines.resources import Writer

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=err,
        transient=True,
    ) as bars:
        tasks = {}

        def watch(name: str, page: int, pages: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(f"pages of {name}")
            bars.update(tasks[name], completed=page, total=pages)

        Writer.watch = watch
        try:
            yield
        finally:
            Writer.watch = None


def tell(manifest: Manifest) -> None:
    """Say what a sync did."""
    students, classes = (next((w.received for w in manifest.walks if w.set == s), 0) for s in ("students", "classes"))
    out.print(f"[bold green]Synced[/] {manifest.snapshot_date}: {students:,} students, {classes:,} classes.")
    if manifest.reason:
        err.print(f"[yellow]Warning:[/] {manifest.reason}.")
    for name, count in manifest.rejected.items():
        err.print(f"[yellow]Warning:[/] {count:,} records of {name} were refused; see ops.rejects.")
    moved = [c for c in manifest.counts if c.added or c.changed or c.removed]
    if moved:
        rows = ((c.table, c.added, c.changed, c.removed) for c in moved)
        out.print(table("", ("table", "added", "changed", "removed"), rows))
    else:
        out.print("Nothing changed.")


def _tell_backfill(done: Backfilled) -> None:
    if done.rebuilt:
        count = len(done.rebuilt)
        out.print(f"[bold green]Rebuilt[/] {count} day{'s' if count > 1 else ''}: {_days(done.rebuilt)}.")
    for reason in done.skipped.values():
        err.print(f"[yellow]Left out:[/] {reason}.")
    for day, landings in done.held.items():
        if day in done.rebuilt:
            err.print(f"[yellow]Left out:[/] landing {', '.join(map(str, landings))} of {day} is held.")


def _days(days: Iterable[date]) -> str:
    listed = sorted(days)
    return str(listed[0]) if len(listed) == 1 else f"{listed[0]} to {listed[-1]}"
