"""The commands that write: sync, backfill, rebuild, discard; and the sandbox to try them on."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from pipelines.cli import job
from pipelines.cli.app import (
    Panel,
    app,
    err,
    open_rollbook,
    out,
    parse_day,
    print_counts,
    progress_bars,
    received,
    safe,
)
from pipelines.errors import ArgumentError, HeldError, NothingLandedError
from pipelines.settings import Details
from pipelines.tables import SETS
from pipelines.text import count_of

if TYPE_CHECKING:
    from pipelines.landing.manifest import Hold, Manifest
    from pipelines.source.pagination import Progress as PageProgress
    from pipelines.sync import Backfilled, Rollbook

Day = Annotated[date, typer.Argument(parser=parse_day, metavar="DAY")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Publish without asking.")]


@app.command(rich_help_panel=Panel.SYNC)
def sync(
    day: Annotated[
        date | None,
        typer.Option("--date", parser=parse_day, metavar="DAY", help="The snapshot's date; today by default."),
    ] = None,
    approve: Annotated[
        bool,
        typer.Option("--approve", help="Merge this day's held sync (or the newest held one), without fetching again."),
    ] = False,
    details: Annotated[
        Details, typer.Option(help="Also fetch single-student records: of no, of changed or of all students.")
    ] = Details.none,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask the service even if this day was synced a few minutes ago.")
    ] = False,
) -> None:
    """Run the nightly job now: fetch everything once, evaluate it, merge it and publish.

    Within ROLLBOOK_CACHE_MINUTES of a complete sync of the same day, only the key is checked: what was fetched then is
    used again.
    Exits 0 when synced (with a warning if a set could not be proven complete), 1 when it failed, 2 when a setting or
    argument is missing or malformed, 3 when it was held. Unless it is synced, readers keep the last published file.
    """
    rollbook = open_rollbook(fetches=not approve)
    if approve:
        held = rollbook.landings.to_approve(day)
        _print_held(held, rollbook.landings.synced_since(held.snapshot_date))
        chosen = held.snapshot_date
    else:
        chosen = rollbook.partition(day or rollbook.today())
        rollbook.start_ahead()  # while Dagster loads
    before = rollbook.landings.counted(chosen)
    with shown_progress():
        job.sync(chosen, rollbook.settings.institution, approve=approve, details=details, fresh=fresh)
    synced = rollbook.landings.counted(chosen)[-1]
    _print_synced(synced)
    if not approve and before and before[-1].landing == synced.landing:
        at = synced.finished_at.astimezone(rollbook.settings.zone)
        out.print(f"This was fetched at {at:%H:%M}, and is used again. To fetch it anew: rollbook sync --fresh")


@app.command(rich_help_panel=Panel.SYNC)
def backfill(first: Day, last: Day, yes: Yes = False) -> None:
    """Rebuild the days FIRST to LAST from their landings, and update the history with them.

    Nothing is fetched: the service keeps no history. Days without a landing are listed and skipped; held landings stay
    held. Asks before it publishes if a table would lose more rows than a sync may remove without a hold. Exits 1 when
    no day of the range was landed or too many records are refused, 3 when it was not confirmed.
    """
    from pipelines.sync.landings import days_between

    rollbook = open_rollbook()
    asked = days_between(first, last)
    days = _partitions(rollbook, asked)
    try:
        with shown_progress():
            job.backfill(*days, rollbook.settings.institution, confirmed=yes)
    except job.RunFailedError as error:
        if error.exit_code != HeldError.exit_code or not _confirmed(error.message):
            raise
        with shown_progress():
            job.backfill(*days, rollbook.settings.institution, confirmed=True)
    _print_backfill(rollbook.landings.backfilled(asked, rollbook.lake.days()))


def _partitions(rollbook: Rollbook, days: Sequence[date]) -> tuple[date, date]:
    """The first and last partition of a range of days; without ROLLBOOK_FIRST_DATE, from the first landed day on.

    Raises NothingLandedError for an empty range, and ArgumentError for a day that is not a partition.
    """
    first = days[0] if rollbook.settings.first_date else max(days[0], rollbook.first_day())
    if first > days[-1]:
        raise NothingLandedError(". ".join(rollbook.landings.backfilled(days, {}).skipped.values()), days)
    return rollbook.partition(first), rollbook.partition(days[-1])


@app.command(rich_help_panel=Panel.SYNC)
def rebuild(
    yes: Yes = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="Give up what raw/ no longer holds: expired days, and landings that are missing."
        ),
    ] = False,
) -> None:
    """Rebuild the lake, the tables and the whole history from raw/ alone.

    Asks before it publishes if a table would lose more rows than a sync may remove without a hold. Exits 1 when raw/
    lacks what the history was made from (see --accept-loss) or too many records are refused, 3 when it was not
    confirmed; then nothing has changed.
    """
    from pipelines.sync import within_hold

    def confirm(hold: Hold) -> bool:
        return yes or within_hold(hold) or _confirmed_hold(hold)

    with shown_progress() as progress:
        rollbook = open_rollbook()
        rollbook.progress = progress
        done = rollbook.rebuild(confirm=confirm, accept_loss=accept_loss)
    _print_backfill(done)


@app.command(rich_help_panel=Panel.SYNC)
def discard(
    day: Day,
    landing: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Which of the day's landings; by default the last that counts."),
    ] = None,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why; kept with the landing and shown in ops.syncs. No names.")
    ] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Put a discarded landing back.")] = False,
    yes: Yes = False,
) -> None:
    """Discard a landing of a day: it no longer counts, and the history is computed without it.

    For a landing made with a wrong clock, from a service that served nonsense, or approved by mistake. It is moved
    aside within raw/ and stays readable; --undo restores it. Shows what would change and asks first. A day whose raw
    bodies have expired cannot be discarded. Exits 3 when it was not confirmed; then nothing has changed.
    """
    from pipelines.operations import discard as discards

    rollbook = open_rollbook()

    def confirm(hold: Hold) -> bool:
        return yes or _confirmed_hold(hold)

    if undo:
        back = discards.undo_discard(rollbook, day, landing, confirm=confirm)
        out.print(f"[bold green]Put back[/] landing {back.landing} of {day}; it counts again ({back.verdict}).")
        return
    if not reason.strip():
        raise ArgumentError('Say why: add --reason "...", which is kept with the landing')
    gone = discards.discard(rollbook, day, landing, reason=reason.strip(), confirm=confirm)
    advice = f"`rollbook discard {day} --undo` puts it back."
    out.print(f"[bold green]Discarded[/] landing {gone.landing} of {day}. {advice}")


@app.command(rich_help_panel=Panel.TRY)
def sandbox(
    students: Annotated[int, typer.Option(min=1, help="How many students the made-up institution has.")] = 500,
    day: Annotated[
        date | None,
        typer.Option(parser=parse_day, metavar="DAY", help="The day it serves; by default always today."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on loopback; 0 takes a free one.")] = 8765,
    seed: Annotated[int, typer.Option(help="Another seed makes another institution.")] = 1,
    key: Annotated[str, typer.Option(help="The API key it accepts.")] = "sandbox-key",
) -> None:
    """Serve a made-up institution that follows the records service's contract, on loopback, until Ctrl-C."""
    from pipelines.sandbox import serve as serve_sandbox

    def ready(base_url: str) -> None:
        out.print(f"Serving {count_of(students, 'student')} at {base_url}. In another terminal:\n")
        first, date_ = (f" ROLLBOOK_FIRST_DATE={day}", f" --date {day}") if day else ("", "")
        out.print(f"  ROLLBOOK_BASE_URL={base_url} ROLLBOOK_API_KEY={key}{first} rollbook sync{date_}\n")

    serve_sandbox(students, day, port, seed, key, on_ready=ready)


@contextmanager
def shown_progress() -> Iterator[PageProgress]:
    """Show a bar of the pages fetched, or of the days rebuilt, if there is a terminal."""
    from pipelines import runs

    with progress_bars() as bars:
        tasks = {}

        def show(name: str, done: int, total: int) -> None:
            bars.start()  # the previous stage may have stopped it
            if name not in tasks:
                tasks[name] = bars.add_task(f"pages of {name}" if name in SETS else name)
            bars.update(tasks[name], completed=done, total=total)
            if name not in SETS and done == total:
                bars.stop()  # a confirmation may follow

        runs.progress = show  # the job makes its own Rollbook
        try:
            yield show
        finally:
            runs.progress = None


def _confirmed_hold(hold: Hold) -> bool:
    """Show what would change, and ask whether to go on."""
    print_counts(hold.counts, "What would change", nothing="No current row would change.")
    return _confirmed(f"Note: {hold.reason}." if hold.reason else "")


def _confirmed(why: str) -> bool:
    """Ask whether to go on. Without a terminal nobody can answer, so the answer is no."""
    if not sys.stdin.isatty():
        return False
    if why:
        err.print(f"[bold yellow]{escape(why)}[/]")
    return typer.confirm("Go on?", default=False)


def _print_held(held: Manifest, synced_since: list[date]) -> None:
    """Print what an approval would merge."""
    out.print(f"Approving landing {held.landing} of {held.snapshot_date}, held because {escape(held.reason)}.")
    print_counts(held.counts, "When it was held")
    if synced_since:
        days = _days(synced_since)
        err.print(f"[yellow]Note:[/] newer days have been synced since ({days}): they stay as they are.")


def _print_synced(manifest: Manifest) -> None:
    """Print what a sync did."""
    out.print(f"[bold green]Synced[/] {manifest.snapshot_date}: {received(manifest.received)}.")
    if manifest.reason:
        err.print(f"[yellow]Warning:[/] {safe(manifest.reason)}.")
    for name, count in manifest.rejected.items():
        refused = f"{count_of(count, 'record')} of {name} {'was' if count == 1 else 'were'} refused"
        err.print(f"[yellow]Warning:[/] {refused}; see ops.rejects.")
    print_counts(manifest.counts)


def _print_backfill(done: Backfilled) -> None:
    if done.rebuilt:
        out.print(f"[bold green]Rebuilt[/] {count_of(len(done.rebuilt), 'day')}: {_days(done.rebuilt)}.")
    for reason in done.skipped.values():
        err.print(f"[yellow]Skipped:[/] {reason}.")
    for day, landings in done.held.items():
        if day in done.rebuilt:
            err.print(f"[yellow]Skipped:[/] landing {', '.join(map(str, landings))} of {day} is held.")


def _days(days: Iterable[date]) -> str:
    listed = sorted(days)
    return str(listed[0]) if len(listed) == 1 else f"{listed[0]} to {listed[-1]}"
