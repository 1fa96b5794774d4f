"""`rollbook prune`: letting go of what retention no longer asks for."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.app import app, err, out
from pipelines.cli.diagnostics import home
from pipelines.machine import in_bytes
from pipelines.operations import capacity
from pipelines.operations.prune import prune as prune_now
from pipelines.settings import load
from pipelines.sync import Rollbook


@app.command()
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    keep_days: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Keep the last N days, whatever ROLLBOOK_KEEP_DAYS says."),
    ] = None,
) -> None:
    """Let go of old raw bodies and snapshots, and of Dagster's old runs. A nightly sync does the same by itself.

    Raw bodies and snapshots go when they are older than ROLLBOOK_KEEP_DAYS (unset, all are kept), and only where the
    published history already holds what they said: the current tables, history and changes stay as they are. What is
    let go of cannot be rebuilt or backfilled any more; from then on a rebuild that would lose those days is refused,
    and `rollbook status` says which they are. A day stays for one night after the views let go of it, and one that is
    held waits for its approval. Of published files the last three are kept, of Dagster's runs those of 400 days.

    With --dry-run nothing goes, and it shows the days and the bytes.
    """
    rollbook = Rollbook(load() if keep_days is None else load(keep_days=keep_days))
    found = capacity.expiry(rollbook)
    if found.keep_days is None:
        out.print("ROLLBOOK_KEEP_DAYS is not set: raw bodies and snapshots of all days are kept.")
    elif not found.days:
        out.print(f"Nothing is older than the last {found.keep_days} days.")
    else:
        days = f"{len(found.days)} day{'s' if len(found.days) > 1 else ''} ({found.days[0]} to {found.days[-1]})"
        freed = f"{in_bytes(found.raw)} of raw bodies and {in_bytes(found.snapshots)} of snapshots"
        out.print(
            f"{'Would let go' if dry_run else 'Letting go'} of {days}: {freed}. The history keeps what they said."
        )
        if not dry_run:
            prune_now(rollbook)
    _prune_runs(dry_run=dry_run)


def _prune_runs(*, dry_run: bool) -> None:
    where = home()
    if where is None:
        err.print("[yellow]Warning:[/] DAGSTER_HOME is no folder, so Dagster's runs were not looked at.")
        return
    from pipelines import runs

    with runs.opened() as instance:
        old = runs.old(instance, runs.KEPT_DAYS)
        if not old:
            out.print(f"None of Dagster's runs is older than {runs.KEPT_DAYS} days.")
            return
        words = f"{len(old)} of Dagster's runs, older than {runs.KEPT_DAYS} days"
        if dry_run:
            out.print(f"Would let go of {words}.")
        else:
            runs.let_go(instance, runs.KEPT_DAYS)
            out.print(f"Let go of {words}.")
