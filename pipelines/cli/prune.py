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

    rollbook = open_rollbook()
    keep = rollbook.settings.keep_days
    days, size = capacity.expiry(rollbook)
    if keep is None:
        out.print("ROLLBOOK_KEEP_DAYS is not set: raw bodies and snapshots of all days are kept.")
    elif not days:
        out.print(f"Nothing is older than the last {count_of(keep, 'day')}.")
    else:
        what = f"{count_of(len(days), 'day')} ({days[0]} to {days[-1]}): {in_bytes(size)} of raw bodies and snapshots"
        out.print(f"{'Would delete' if dry_run else 'Deleting'} {what}. Their content stays in the history.")
        if not dry_run:
            prune_now(rollbook)
    if home() is None:
        err.print("[yellow]Warning:[/] DAGSTER_HOME is not a folder, so Dagster's runs were not pruned.")
        return
    from pipelines import runs

    with runs.open_instance() as instance:
        old = runs.delete_old_runs(instance, dry_run=dry_run)
    out.print(f"{'Would delete' if dry_run else 'Deleted'} {old} of Dagster's runs, older than {runs.KEEP_DAYS} days.")
