"""The commands that only read: status, doctor, diff."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pipelines.cli.app import Panel, app, err, open_rollbook, out, print_counts, received, safe
from pipelines.cli.demo import choose_warehouse
from pipelines.machine import in_bytes
from pipelines.store.published.versions import PSEUDONYMOUS
from pipelines.text import count_of, printable

if TYPE_CHECKING:
    from pipelines.operations.status import PseudonymousFile, Status

MARKS = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "failed": "[bold red]failed[/]"}


def home() -> Path | None:
    """Dagster's home folder, or None if there is none."""
    path = Path(os.environ.get("DAGSTER_HOME", ""))
    return path if path.is_absolute() and path.is_dir() else None


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
    else:
        _print_status(known)


@app.command(rich_help_panel=Panel.ASK)
def doctor() -> None:
    """Check whether a sync could run here and now, and say what to do if not.

    Checks the settings and versions; whether this account may write to the warehouse; whether anything in it is
    damaged, held or late; whether the service accepts the key, whose key it is, and whether the service's clock and
    this machine's agree; one page of each set, flattened and discarded; whether the free disk space suffices for one
    sync and for a year of nights; and Dagster's instance. Sends three requests and writes nothing.

    Exits 0 when a sync could run, with or without warnings, and 1 when it could not. If a setting is missing or
    malformed, names it and exits 2.
    """
    from pipelines.cli.instance import examine_instance
    from pipelines.operations.doctor import Doctor, Level

    rollbook = open_rollbook(fetches=True)
    levels = set()
    for finding in (*examine_instance(home()), *Doctor(rollbook).examine()):
        levels.add(finding.level)
        out.print(f"{MARKS[finding.level]:>8}  [bold]{finding.what}[/]: {safe(finding.says)}")
    if Level.FAILED in levels:
        err.print("[bold red]A sync could not run:[/] see the failures above.")
        raise typer.Exit(1)
    out.print("[bold green]A sync could run.[/]")


@app.command(rich_help_panel=Panel.ASK)
def diff() -> None:
    """Show what a sync would do now, without doing it: fetch everything, compare, write nothing.

    Both sets are read as in a sync, and missing records are searched for by name. The responses go to a folder in the
    warehouse's build/ that is removed at the end; the published file, the raw bodies and Dagster's records do not
    change. Shows for each table what would be added, changed and removed, whether the walks were proven complete, and
    whether the sync would be held, and why.

    Exits 1 when the service could not be read, else 0.
    """
    from pipelines.operations.diff import diff as compare

    rollbook = open_rollbook(fetches=True)
    found = compare(rollbook)
    day = found.manifest.snapshot_date
    titles = {"synced": "[bold green]Would be synced[/]", "held": "[bold yellow]Would be held[/]"}
    came = received(found.manifest.received)
    out.print(f"{titles.get(found.outcome, '[bold red]Would fail[/]')}: {day}, {came}.")
    if found.reason:
        out.print(f"Why: {safe(found.reason)}." if found.outcome != "synced" else f"But: {safe(found.reason)}.")
    for name, count in (found.rejected or {}).items():
        out.print(f"{count_of(count, 'record')} of {name} would be refused.")
    if found.counts:
        print_counts(found.counts, nothing="No current row would change.")
    out.print("Nothing was written.")


def _print_status(known: Status) -> None:
    for name, says in _lines(known):
        out.print(f"[bold]{name:<11}[/] {safe(says)}")
    for problem in known.problems:
        out.print(f"[bold red]{'damaged':<11}[/] {safe(problem)}")


def _lines(known: Status) -> Iterator[tuple[str, str]]:
    last, good = known.last_sync, known.last_good
    if good is not None:
        yield "institution", f"{known.school_id} {known.school_name or ''}".strip()
    if last is None:
        yield "last sync", "none yet: run `rollbook sync`"
    else:
        yield "last sync", f"{last.snapshot_date}: {last.outcome}, {_ago(last.finished_at)}, in {last.seconds:.1f} s"
        moved = f"{last.rows_added:,} rows added, {last.rows_changed:,} changed, {last.rows_removed:,} removed"
        yield "", f"{received(last.received)}; {moved}"
        if last.reason:
            yield "", last.reason
    if good is not None and last is not None and good != last:
        yield "readers see", f"{good.snapshot_date}, synced {_ago(good.finished_at)}"
    late = "" if known.is_fresh else ": it was not synced. Run `rollbook sync`, and see what it says"
    yield "fresh" if known.is_fresh else "LATE", f"the last night due was {known.due:%Y-%m-%d %H:%M %Z}{late}"
    yield "next run", f"{known.next_run:%Y-%m-%d %H:%M %Z} ({known.cron} in {known.timezone}), if `rollbook serve` runs"
    for hold in known.holds:
        yield "held", f"{hold.snapshot_date}: {hold.reason}. If it is right: {hold.approve}"
    for gone in known.discarded:
        yield "discarded", f"{gone.snapshot_date}, landing {gone.landing}: {gone.reason}. To put it back: {gone.undo}"
    for text in known.unproven:
        yield "UNPROVEN", f"{text}."
    yield "history", _days(known)
    if known.pseudonymous is not None:
        yield "codes", _pseudonymous(known.pseudonymous)
    yield "on disk", _sizes(known)


def _days(known: Status) -> str:
    days, expired = known.history, known.expired
    if not days.count:
        return "no days yet"
    text = f"{count_of(days.count, 'day')}, {days.first} to {days.last}"
    if expired.count:
        text += (
            f"; of these {expired.count} ({expired.first} to {expired.last}) are only in the history: their raw bodies"
            " and snapshots were deleted, and a rebuild that would lose them is refused"
        )
    return text


def _pseudonymous(file: PseudonymousFile) -> str:
    if not file.is_wanted:
        return f"{PSEUDONYMOUS} is still there, though ROLLBOOK_PSEUDONYMOUS is not set: the next sync removes it"
    if file.is_current:
        return f"{PSEUDONYMOUS} matches the published file"
    if file.published_at is None:
        return f"{PSEUDONYMOUS} is missing or damaged: the next sync makes it"
    return (
        f"{PSEUDONYMOUS} does NOT match the published file, but the version made {_ago(file.published_at)}, up to"
        f" {file.newest_day}: the next sync makes it again"
    )


def _sizes(known: Status) -> str:
    s = known.sizes
    parts = {
        "published": s.published,
        "kept older files": s.previous,
        "raw": s.raw,
        "snapshots": s.snapshots,
        "build": s.build,
    }
    if s.dagster is not None:
        parts["Dagster"] = s.dagster
    return ", ".join(f"{name} {in_bytes(size)}" for name, size in parts.items()) + f"; {in_bytes(s.free)} free"


def _ago(moment: datetime) -> str:
    past = datetime.now(UTC) - moment
    if past < timedelta(0):
        return f"at {moment:%Y-%m-%d %H:%M} UTC, which is in the future by this machine's clock"
    hours = past // timedelta(hours=1)
    if hours >= 48:
        return f"{count_of(past.days, 'day')} ago"
    return f"{hours} h ago" if hours else f"{past // timedelta(minutes=1)} min ago"
