"""The commands that only read: status, doctor."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pipelines import machine
from pipelines.cli.app import Panel, app, err, home, open_rollbook, out, received, safe
from pipelines.cli.demo import choose_warehouse
from pipelines.store.published.versions import PSEUDONYMOUS
from pipelines.text import count_of, printable

if TYPE_CHECKING:
    from pipelines.operations.doctor import Finding
    from pipelines.operations.status import Status

MARKS = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "failed": "[bold red]failed[/]"}


@app.command(rich_help_panel=Panel.ASK)
def status(
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object to standard output, and nothing else.")
    ] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Show the demo's warehouse.")] = False,
) -> None:
    """Show at a glance how the warehouse is doing. Nothing is fetched or changed.

    Shows the last sync and its result; whether the last night due was synced (by ROLLBOOK_CRON, in
    ROLLBOOK_TIMEZONE) and when the next one is; syncs that are held and wait for your approval, each with the command
    that merges it; how far the history reaches, and which of its days are no longer on disk (ROLLBOOK_KEEP_DAYS);
    disk usage.

    Always exits 0; a late night is marked LATE, and `is_fresh` is false in the JSON. With --json, times have a zone,
    sizes are in bytes, and unknown values are null.
    """
    from pipelines.operations.status import load_status

    if demo:
        choose_warehouse()
    known = load_status(open_rollbook(), home())
    if as_json:
        text = msgspec.json.format(msgspec.json.encode(known), indent=2).decode()
        sys.stdout.write(printable(text, lines=True) + "\n")
        return
    for name, says in _lines(known):
        out.print(f"[bold]{name:<11}[/] {safe(says)}")
    for problem in known.problems:
        out.print(f"[bold red]{'damaged':<11}[/] {safe(problem)}")


def _lines(known: Status) -> Iterator[tuple[str, str]]:
    last, good, days, expired = known.last_sync, known.last_good, known.history, known.expired
    if good is not None:
        yield "institution", f"{known.school_id} {known.school_name or ''}".strip()
    if last is None:
        yield "last sync", "none yet: run `rollbook sync`"
    else:
        ended = f"{last.outcome}, at {last.finished_at:%Y-%m-%d %H:%M} UTC, in {last.seconds:.1f} s"
        yield "last sync", f"{last.snapshot_date}: {ended}"
        moved = f"{last.rows_added:,} rows added, {last.rows_changed:,} changed, {last.rows_removed:,} removed"
        yield "", f"{received(last.received)}; {moved}"
        if last.reason:
            yield "", last.reason
        if good is not None and good != last:
            yield "readers see", f"{good.snapshot_date}, synced at {good.finished_at:%Y-%m-%d %H:%M} UTC"
    late = "" if known.is_fresh else ": it was not synced. Run `rollbook sync`, and see what it says"
    yield "fresh" if known.is_fresh else "LATE", f"the last night due was {known.due:%Y-%m-%d %H:%M %Z}{late}"
    yield "next run", f"{known.next_run:%Y-%m-%d %H:%M %Z} ({known.cron} in {known.timezone}), if `rollbook serve` runs"
    for hold in known.holds:
        yield "held", f"{hold.snapshot_date}: {hold.reason}. If it is right: {hold.command}"
    for gone in known.discarded:
        yield (
            "discarded",
            f"{gone.snapshot_date}, landing {gone.landing}: {gone.reason}. To put it back: {gone.command}",
        )
    for text in known.unproven:
        yield "UNPROVEN", f"{text}."
    yield "history", f"{count_of(days.count, 'day')}, {days.first} to {days.last}" if days.count else "no days yet"
    if expired.count:
        lost = "their raw bodies and snapshots were deleted, and a rebuild that would lose them is refused"
        yield "", f"of these {expired.count} ({expired.first} to {expired.last}) are only in the history: {lost}"
    if (file := known.pseudonymous) is not None:
        behind = f"does NOT match the published file, but is up to {file.newest_day or 'no day'}"
        ahead = f"the next sync {'makes it again' if file.is_wanted else 'removes it'}"
        matches = file.is_wanted and file.is_current
        yield "codes", f"{PSEUDONYMOUS} {'matches the published file' if matches else f'{behind}: {ahead}'}"
    yield "on disk", ", ".join(f"{name} {machine.in_bytes(size)}" for name, size in known.sizes.items())


@app.command(rich_help_panel=Panel.ASK)
def doctor() -> None:
    """Check whether a sync could run here and now, and say what to do if not.

    Checks the settings; whether this account may write to the warehouse; whether anything in it is
    damaged, held or late; whether the service accepts the key, whose key it is, and whether the service's clock and
    this machine's agree; one page of each set, flattened and discarded; whether the free disk space suffices for one
    sync and for a year of nights; and Dagster's instance. Sends three requests and writes nothing.

    Exits 0 when a sync could run, with or without warnings, and 1 when it could not. If a setting is missing or
    malformed, names it and exits 2.
    """
    from pipelines.operations.doctor import Doctor, Level

    rollbook = open_rollbook(fetches=True)
    levels = set()
    for finding in (*_examine_dagster(home()), *Doctor(rollbook).examine()):
        levels.add(finding.level)
        out.print(f"{MARKS[finding.level]:>8}  [bold]{finding.what}[/]: {safe(finding.says)}")
    if Level.FAILED in levels:
        err.print("[bold red]A sync could not run:[/] see the failures above.")
        raise typer.Exit(1)
    out.print("[bold green]A sync could run.[/]")


def _examine_dagster(home: Path | None) -> Iterator[Finding]:
    """Check that the instance in Dagster's home opens, and that a daemon runs, which starts the nightly sync."""
    import dagster as dg

    from pipelines.operations.doctor import Finding, Level

    if home is None or not os.access(home, os.W_OK | os.X_OK):
        says = f"{os.environ.get('DAGSTER_HOME')} is not a folder that this account may write to: set DAGSTER_HOME"
        yield Finding("Dagster", Level.FAILED, f"{says} to one with a dagster.yaml in it, or chown it")
        return
    if home.stat().st_mode & 0o077:  # owned by another account: the command makes its own folder private
        yield Finding("Dagster", Level.WARNING, f"{home} can be read by others on this machine: chmod 700 {home}")
    if not (home / "dagster.yaml").exists():
        says = f"{home} has no dagster.yaml: copy dagster_home/dagster.yaml there, or two syncs may run at a time"
        yield Finding("Dagster", Level.WARNING, says)
    try:
        with dg.DagsterInstance.get() as instance:
            count = instance.get_runs_count()
            beats = instance.get_daemon_heartbeats()
    except Exception as error:  # noqa: BLE001 - after any error the instance cannot be used
        says = f"the instance in {home} does not open ({type(error).__name__}): {str(error).splitlines()[0]}"
        yield Finding("Dagster", Level.FAILED, says)
        return
    yield Finding("Dagster", Level.OK, f"{count:,} runs in {home}, {machine.in_bytes(machine.size(home))}")
    newest = max((beat.timestamp for beat in beats.values()), default=0.0)
    if datetime.now(UTC).timestamp() - newest > 300:
        says = "no daemon is running, so nothing starts the nightly sync: run `rollbook serve`, or sync from cron"
        yield Finding("Dagster", Level.WARNING, says)
