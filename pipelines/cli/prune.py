"""`rollbook prune`: deletes files and Dagster runs that are past their retention."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.app import Panel, app, err, open_rollbook, out
from pipelines.cli.diagnostics import home
from pipelines.machine import in_bytes
from pipelines.text import count_of


@app.command(rich_help_panel=Panel.SYNC)
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    keep_days: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Keep the last N days, instead of ROLLBOOK_KEEP_DAYS."),
    ] = None,
) -> None:
    """Delete old raw bodies and snapshots, and Dagster's old runs. The nightly sync does the same by itself.

    Raw bodies and snapshots are deleted when they are older than ROLLBOOK_KEEP_DAYS (if unset, all are kept) and the
    published history already has their content: the current tables, history and changes stay as they are. Deleted days
    cannot be rebuilt or backfilled any more; a rebuild that would lose them is refused, and `rollbook status` lists
    them. Files are deleted one night after their views, and a held day is kept until it is approved. The last three
    published files are kept, and Dagster's runs of the last 400 days.

    With --dry-run, shows the days and the bytes and deletes nothing.
    """
    from pipelines.operations import capacity
    from pipelines.operations.prune import prune as prune_now

    rollbook = open_rollbook() if keep_days is None else open_rollbook(keep_days=keep_days)
    found = capacity.expiry(rollbook)
    if found.keep_days is None:
        out.print("ROLLBOOK_KEEP_DAYS is not set: raw bodies and snapshots of all days are kept.")
    elif not found.days:
        out.print(f"Nothing is older than the last {count_of(found.keep_days, 'day')}.")
    else:
        days = f"{count_of(len(found.days), 'day')} ({found.days[0]} to {found.days[-1]})"
        freed = f"{in_bytes(found.raw)} of raw bodies and {in_bytes(found.snapshots)} of snapshots"
        out.print(f"{'Would delete' if dry_run else 'Deleting'} {days}: {freed}. Their content stays in the history.")
        if not dry_run:
            prune_now(rollbook)
    _prune_runs(dry_run=dry_run)


def _prune_runs(*, dry_run: bool) -> None:
    where = home()
    if where is None:
        err.print("[yellow]Warning:[/] DAGSTER_HOME is not a folder, so Dagster's runs were not pruned.")
        return
    from pipelines import runs

    with runs.open_instance() as instance:
        old = runs.delete_old_runs(instance, dry_run=dry_run)
    out.print(f"{'Would delete' if dry_run else 'Deleted'} {old} of Dagster's runs, older than {runs.KEEP_DAYS} days.")
