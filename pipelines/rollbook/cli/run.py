"""The commands that write, or put back: sync, backfill, rebuild, discard, restore, prune, mirror.

They call the night's functions, without Dagster; where Dagster runs, its sensor records what they did.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from rollbook import settings
from rollbook.errors import ArgumentError, NotConfirmedError
from rollbook.landing.manifest import Details, Hold
from rollbook.opening import open_rollbook
from rollbook.tables import WALKED
from rollbook.terminal import (
    Demo,
    Panel,
    app,
    confirmed,
    contents_of,
    err,
    home,
    made_home,
    out,
    parse_day,
    print_counts,
    print_json,
    progress,
    received,
    safe,
    table,
)
from rollbook.util import files
from rollbook.util.machine import in_bytes
from rollbook.util.text import count_of

if TYPE_CHECKING:
    from rollbook.landing.manifest import Manifest
    from rollbook.night.past import Backfilled
    from rollbook.opened import Rollbook
    from rollbook.store.warehouse import Contents

Day = Annotated[date, typer.Argument(parser=parse_day, metavar="DAY")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Publish without asking.")]


@app.command(rich_help_panel=Panel.SYNC)
def init(
    base_url: Annotated[
        str, typer.Option(prompt="Address of the records service", metavar="URL", help="Asked for if it is not given.")
    ],
) -> None:
    """Write the service's address into `.env` and the API key into `.api-key`, and make the folder that Dagster needs.

    Asks for the key, or reads it from standard input: it never stands in a command, nor in the environment. A file that
    is there stays as it is.
    """
    from dotenv import set_key

    path, key_file = settings.ROOT / ".env", settings.ROOT / ".api-key"
    for there in filter(Path.exists, (path, key_file)):
        raise ArgumentError(f"{there} is there already: change it with an editor")
    key = typer.prompt("API key", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline().strip()
    settings.load(fetches=True, base_url=base_url.strip(), api_key=key)  # malformed ones are refused
    files.write(key_file, f"{key}\n".encode())
    files.write(path, b"")
    for name, value in (("BASE_URL", base_url.strip()), ("API_KEY_FILE", key_file.name)):
        set_key(path, f"{settings.PREFIX}{name}", value, quote_mode="always")
    files.set_mode(path, files.PRIVATE_FILE)
    made_home()
    out.print(
        f"Wrote {safe(str(path))} and, for the key alone, {safe(str(key_file))}: only you can read them. Next:"
        " `rollbook doctor`, then `rollbook sync`."
    )


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
    every_day: Annotated[
        bool, typer.Option("--all", help="With --approve: merge the held syncs of all days, in their order.")
    ] = False,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="With --approve: why; kept with it. No names.")] = "",
    details: Annotated[
        Details, typer.Option(help="Also fetch single-student records: of no, of changed or of all students.")
    ] = Details.none,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask the service even if this day was synced a few minutes ago.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what a sync would do now: fetch, compare, write nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --approve: do not ask.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write the result as one JSON object to standard output, and nothing else.")
    ] = False,
) -> None:
    """Sync now, as each night: fetch everything once, evaluate, merge and publish.

    Within ROLLBOOK_CACHE_MINUTES of a complete sync of the same day, only the key is checked: what was fetched then is
    used again. An approval shows what is held (`rollbook held` shows who would go) and asks first; without a terminal,
    add --yes. It merges the held sync that the command shows, and nothing that another sync holds meanwhile.
    With --approve --all, no held day stays a hole in the history.

    Exits 0 when synced (with a warning if a set could not be proven complete), 1 when it failed, 2 when a setting or
    argument is missing or malformed, 3 when held. Unless the day is synced, readers keep the last published file.

    With --dry-run, both sets are read as in a sync, and missing records are searched for by name; the published file
    and the raw bodies do not change. Shows what would be added, changed and removed, and whether the
    sync would be held, and why. Exits 1 when the service could not be read, else 0.
    """
    if as_json and (dry_run or approve):
        raise ArgumentError("--json prints the result of a sync: leave out --dry-run and --approve")
    if dry_run:
        if day or approve:
            raise ArgumentError("--dry-run shows what a sync of today would do: leave out --date and --approve")
        _print_preview(open_rollbook(fetches=True))
        return
    rollbook = open_rollbook(fetches=not approve)
    if approve:
        _approve(rollbook, day, reason, every_day=every_day, yes=yes)
        return
    if every_day or yes:
        raise ArgumentError("--all and --yes are about an approval: add --approve")
    chosen = rollbook.partition(day)
    before = rollbook.landings.counted(chosen)
    from rollbook import night

    with progress() as show:
        night.sync(rollbook.writer(show), chosen, details=details, fresh=fresh)
    if as_json:
        print_json(_as_json(rollbook.landings.counted(chosen)[-1]))
        return
    synced = _print_synced(rollbook, chosen)
    if before and before[-1].landing == synced.landing:
        out.print(
            f"This was fetched at {synced.finished_at.astimezone(rollbook.settings.zone):%H:%M}, and is used again. To"
            " fetch it once more: rollbook sync --fresh"
        )


def _as_json(synced: Manifest) -> dict[str, object]:
    """A sync's result, as `ops.syncs` has it, with the records received and the changes in each table."""
    shown = (
        "snapshot_date",
        "landing",
        "started_at",
        "judged_at",
        "verdict",
        "reason",
        "received",
        "rejected",
        "counts",
    )
    return {name: getattr(synced, name) for name in shown} | {
        "outcome": synced.verdict.outcome if synced.verdict else ""
    }


def _approve(rollbook: Rollbook, day: date | None, reason: str, *, every_day: bool, yes: bool) -> None:
    """Show what is held, ask, and merge that, by the digests of what was shown."""
    from rollbook.night import approvals

    if day and every_day:
        raise ArgumentError("--all approves the held syncs of all days: leave out --date")
    rollbook.settings.check_words(reason)
    held = approvals.to_approve(rollbook.place, day, every_day=every_day)
    for each in held:
        out.print(
            f"Approving landing {each.landing} of {each.snapshot_date} ({each.hold_digest}), held because"
            f" {escape(each.reason)}."
        )
    print_counts(
        held[-1].counts, "All together, as compared when the last was held" if held[1:] else "When it was held"
    )
    days = [each.snapshot_date for each in held]
    if since := [d for d in rollbook.raw.days() if d > days[-1] and rollbook.landings.counted(d)]:
        err.print(
            f"[yellow]Note:[/] newer days have been synced since ({_days(since)}). What they state stays as it is. A"
            " record that only the held sync has becomes current, until a sync searches for it in vain."
        )
    if not (yes or confirmed()):
        raise NotConfirmedError(
            "Held: it was not confirmed (without a terminal, add --yes). Nothing was changed",
            Hold(reason="", counts=()),
        )
    digests = [each.hold_digest for each in held]
    with progress() as show:
        approvals.approve(rollbook.writer(show), digests, days=days, reason=reason)
    for approved in days:
        _print_synced(rollbook, approved)


def _print_synced(rollbook: Rollbook, day: date) -> Manifest:
    """Print what a day's last landing brought; returns that landing."""
    synced = rollbook.landings.counted(day)[-1]
    out.print(f"[bold green]Synced[/] {day}: {received(synced.received)}.")
    if synced.reason:
        err.print(f"[yellow]Warning:[/] {safe(synced.reason)}.")
    for name, count in synced.rejected.items():
        refused = f"{count_of(count, 'record')} of {name} {'was' if count == 1 else 'were'} refused"
        err.print(f"[yellow]Warning:[/] {refused}; see ops.rejects.")
    print_counts(synced.counts)
    return synced


def _print_preview(rollbook: Rollbook) -> None:
    """Print what a sync would do now."""
    from rollbook.night.diff import diff

    differences = diff(rollbook.place, rollbook.settings, clock=rollbook.clock)
    titles = {"synced": "[bold green]Would be synced[/]", "held": "[bold yellow]Would be held[/]"}
    title = titles.get(differences.outcome, "[bold red]Would fail[/]")
    out.print(f"{title}: {differences.manifest.snapshot_date}, {received(differences.manifest.received)}.")
    if differences.reason:
        out.print(f"{'But' if differences.outcome == 'synced' else 'Why'}: {safe(differences.reason)}.")
    for name, count in (differences.rejected or {}).items():
        out.print(f"{count_of(count, 'record')} of {name} would be refused.")
    if differences.counts:
        print_counts(differences.counts, nothing="No current row would change.")
    out.print("Nothing was written.")


@app.command(rich_help_panel=Panel.SYNC)
def held(
    day: Annotated[
        date | None,
        typer.Option("--date", parser=parse_day, metavar="DAY", help="The held day; by default the newest."),
    ] = None,
    names: Annotated[bool, typer.Option("--names", help="Name the students who would go.")] = False,
) -> None:
    """Show what a held sync would change: by table, which classes lose whom, and with --names which students go.

    Nothing is changed, and the sync stays held: `rollbook sync --approve` merges it. --names is a line in the access
    log.
    """
    from rollbook.night import approvals
    from rollbook.night.held import going
    from rollbook.reading import access

    rollbook = open_rollbook()
    waiting = approvals.to_approve(rollbook.place, day)[-1]
    would = going(rollbook.place, waiting, rollbook.settings)
    if names:
        access.note(rollbook.warehouse.root, "held --names", students=len(would.students))
    out.print(f"Landing {waiting.landing} of {waiting.snapshot_date} is held because {safe(waiting.reason)}.")
    print_counts(would.counts, "What would change", nothing="No current row would change.")
    if would.classes:
        out.print(table("Classes", ("class", "students now", "would leave", "closes"), would.classes))
    if names and would.students:
        out.print(table("Students who would go", ("student_id", "name"), would.students))
    elif would.students:
        out.print(f"{count_of(len(would.students), 'student')} would go: --names says who.")


@app.command(rich_help_panel=Panel.SYNC)
def backfill(first: Day, last: Day, yes: Yes = False, demo: Demo = False) -> None:
    """Rebuild the days FIRST to LAST from what was landed, and update the history.

    Nothing is fetched: the service keeps no history. Days without a landing are listed and skipped; held landings stay
    held. Asks before it publishes if a table would lose more rows than a sync may remove without a hold. Exits 1 when
    no day of the range was landed or too many records are refused, 3 when it was not confirmed.
    """
    rollbook = open_rollbook(demo=demo)
    from rollbook.night import past

    days = past.days_between(first, last)
    rollbook.partition(max(last, rollbook.first_day()))
    with progress() as show:
        done = past.backfill_days(rollbook.writer(show), days, confirm=_confirming(yes=yes))
    _print_backfill(done)


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
    rollbook = open_rollbook()
    from rollbook.night import past

    with progress() as show:
        done = past.rebuild(rollbook.writer(show), confirm=_confirming(yes=yes), accept_loss=accept_loss)
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
    """Discard a landing of a day: it no longer counts, and the history is computed without its rows.

    For a landing made with a wrong clock, from a service that served nonsense, or approved by mistake. The landing is
    moved aside within raw/ and stays readable; --undo restores it. Shows what would change and asks first. A day whose
    raw bodies have expired cannot be discarded. Exits 3 when it was not confirmed; then nothing has changed.
    """
    from rollbook.night import discard as discards

    rollbook = open_rollbook()

    def confirm(hold: Hold) -> bool:
        return yes or _confirmed_hold(hold)

    if undo:
        back = discards.undo_discard(rollbook.writer(), day, landing, confirm=confirm)
        out.print(f"[bold green]Put back[/] landing {back.landing} of {day}; it counts again ({back.verdict}).")
        return
    if not reason.strip():
        raise ArgumentError('Say why: add --reason "...", which is kept with the landing')
    discarded = discards.discard(rollbook.writer(), day, landing, reason=reason.strip(), confirm=confirm)
    out.print(
        f"[bold green]Discarded[/] landing {discarded.landing} of {day}. `rollbook discard {day} --undo` puts it back."
    )


@app.command(rich_help_panel=Panel.SYNC)
def restore(
    which: Annotated[
        str | None, typer.Argument(help="The number or name of the file to restore. Without it, the files are listed.")
    ] = None,
) -> None:
    """List the kept published files, or restore one of them in place of the current one.

    Readers that have a file open keep that file. Nothing is lost: the current file is kept, and the next sync brings
    the restored file up to date by itself.
    """
    from rollbook.night.restore import restore as republish

    rollbook = open_rollbook()
    published = rollbook.warehouse.published_file
    versions = {str(number): path for number, path in enumerate(rollbook.warehouse.kept(), start=1)}
    if which is None:
        rows, newer = list[tuple[object, ...]](), None
        for number, path in ({"now": published} | versions).items():
            if (file := rollbook.warehouse.contents(path)) is not None:
                rows.append((
                    number,
                    str(file.day),
                    file.landing,
                    *file.records.values(),
                    f"{file.published_at:%Y-%m-%d %H:%M}",
                    f"{path.stat().st_size / 1e6:.1f}",
                    _why_replaced(file, newer),
                ))  # fmt: skip
                newer = file
        columns = ("", "up to", "landing", *WALKED, "published (UTC)", "MB", "replaced by")
        out.print(table("Published files", columns, rows))
        out.print("To restore one: `rollbook restore NUMBER`.")
        return
    chosen = next((path for number, path in versions.items() if which in (number, path.stem, path.name)), None)
    if chosen is None:
        advice = f"choose 1 to {len(versions)}, as `rollbook restore` lists them" if versions else "none is kept yet"
        raise ArgumentError(f"There is no kept file {which!r}: {advice}")
    republish(rollbook.writer(), chosen)
    if (file := rollbook.warehouse.contents(published)) is not None:
        out.print(f"Restored {chosen.stem}: {contents_of(file)}.")
    out.print("The file it replaced is kept. The next sync brings the restored one up to date.")


def _why_replaced(file: Contents, by: Contents | None) -> str:
    """What came in the place of a kept file."""
    if by is None:
        return ""
    if (by.day, by.landing) == (file.day, file.landing):
        return "the same days, computed again"
    return f"{by.day}, landing {by.landing}"


@app.command(rich_help_panel=Panel.SYNC)
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
) -> None:
    """Delete old raw bodies and snapshots, and Dagster's old runs. The nightly sync does the same by itself.

    Raw bodies and snapshots are deleted when older than ROLLBOOK_KEEP_DAYS (if unset, all are kept) and the published
    history already has the content: the current tables, history and changes stay as they are. Deleted days cannot be
    rebuilt or backfilled any more; a rebuild that would lose them is refused, and `rollbook status` lists them. Files
    are deleted one night after the views, and a held day is kept until approved. The last three published files are
    kept, and Dagster's runs of the 400 days before the newest landed day.

    With --dry-run, shows the days and the bytes and deletes nothing.
    """
    from rollbook.night import prune as pruning

    rollbook = open_rollbook()
    keep = rollbook.settings.keep_days
    days, size = pruning.expiry(rollbook.place, keep)
    if keep is None:
        out.print("ROLLBOOK_KEEP_DAYS is not set: raw bodies and snapshots of all days are kept.")
    elif not days:
        out.print(f"Nothing is older than the last {count_of(keep, 'day')}.")
    else:
        what = f"{count_of(len(days), 'day')} ({days[0]} to {days[-1]}): {in_bytes(size)} of raw bodies and snapshots"
        out.print(f"{'Would delete' if dry_run else 'Deleting'} {what}. Their content stays in the history.")
        if not dry_run:
            pruning.prune(rollbook.writer())
    if home() is None:
        err.print("[yellow]Warning:[/] DAGSTER_HOME is not a folder, so Dagster's runs were not pruned.")
        return
    import dagster as dg

    from rollbook.defs import runs
    from rollbook.defs.resources import School
    from rollbook.landing.raw import newest_landed

    with dg.DagsterInstance.get() as instance:
        old = runs.delete_old_runs(instance, newest_landed(*School().warehouses()), dry_run=dry_run)
    out.print(f"{'Would delete' if dry_run else 'Deleted'} {old} of Dagster's runs, older than {runs.KEEP_DAYS} days.")


def _confirming(*, yes: bool) -> Callable[[Hold], bool]:
    """Confirm a change as large as a night's; ask about a larger one, unless the person has said yes."""
    return lambda hold: yes or not hold.reason or _confirmed_hold(hold)


def _confirmed_hold(hold: Hold) -> bool:
    """Show what would change, and ask whether to go on."""
    print_counts(hold.counts, "What would change", nothing="No current row would change.")
    if hold.reason and sys.stdin.isatty():
        err.print(f"[bold yellow]Note: {escape(hold.reason)}.[/]")
    return confirmed()


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


# --- the copy in an object store --------------------------------------------------------------------------------------
