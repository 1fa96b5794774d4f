"""The commands about the data: sql, export and docs for analysts; status and doctor for operators; codes,
erase, subject and access for a data-protection officer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollbook.errors import ArgumentError
from rollbook.landing.records import MAX_ID
from rollbook.opening import open_rollbook, repaired
from rollbook.reading import access as log
from rollbook.reading.formats import check_target
from rollbook.settings import ROOT, Settings, load
from rollbook.store.database import machine_errors
from rollbook.store.published import PUBLISHED
from rollbook.terminal import (
    LEVELS,
    Demo,
    Panel,
    app,
    confirmed,
    contents_of,
    err,
    home,
    out,
    parse_day,
    print_json,
    progress,
    received,
    safe,
    table,
    warehouse_path,
)
from rollbook.terminal.answers import show_answer
from rollbook.util import files, machine
from rollbook.util.text import count_of

if TYPE_CHECKING:
    from rollbook.health.finding import Finding
    from rollbook.health.status import LastSync, Status
    from rollbook.rights.erasure import Holdings

DICTIONARY = Path("warehouse", "README.md")


@app.command(rich_help_panel=Panel.READ)
def sql(
    query: Annotated[str, typer.Argument(help="A view, a table or a query; - reads it from standard input.")],
    rows: Annotated[int, typer.Option(min=1, max=10**6, help="How many rows to show at most.")] = 50,
    demo: Demo = False,
) -> None:
    """Run one SQL query on the published file and print the result as a table. It only reads."""
    warehouse = warehouse_path(demo=demo)
    show_answer(warehouse, warehouse / PUBLISHED, query, rows)


@app.command(rich_help_panel=Panel.READ)
def docs(
    target: Annotated[
        Path | None, typer.Option("--out", metavar="F", help="Where to write it.", show_default=str(DICTIONARY))
    ] = None,
    dbt_folder: Annotated[
        Path | None,
        typer.Option("--dbt", metavar="DIR", help="Write a sources.yml for dbt into this folder, and nothing else."),
    ] = None,
    odcs: Annotated[
        Path | None,
        typer.Option(
            "--odcs", metavar="F", help="Write an Open Data Contract (ODCS) into this file, and nothing else."
        ),
    ] = None,
    processing: Annotated[
        bool,
        typer.Option("--processing", help="Write the record of processing to standard output, or into the --out file."),
    ] = False,
) -> None:
    """Write the data dictionary: every table, view, macro and column, and twenty questions with their SQL.

    With --dbt, write the same for dbt: sources with descriptions, data types and tests; with --odcs, for catalogs and
    tools that test a contract. With --processing, write the
    record of processing that a data-protection officer keeps: what is held, why, where, how long, and who may read it.
    """
    from rollbook.feature import relations
    from rollbook.views import dictionary

    written = target or ROOT / DICTIONARY
    if (dbt_folder or odcs) is not None and (processing or target is not None or None not in (dbt_folder, odcs)):
        raise ArgumentError("--dbt and --odcs each write a file of their own: give one, without --out and --processing")
    if dbt_folder is not None:
        written = dictionary.write_dbt(dbt_folder, relations())
    elif odcs is not None:
        from rollbook.views import contract

        contract.write(written := odcs.expanduser(), relations())
    elif processing:
        from rollbook.defs.runs import KEEP_DAYS
        from rollbook.rights.processing import render

        text = render(load(fetches=False), at=datetime.now(UTC), home=home(), run_days=KEEP_DAYS, added=relations())
        if target is None:
            sys.stdout.write(text)
            return
        check_target(written)
        files.write(written, text.encode())
    else:
        check_target(written)
        from rollbook.assembly import chapters

        dictionary.write(written, chapters())
    out.print(f"Wrote {safe(str(written))}.")


@app.command(rich_help_panel=Panel.ASK)
def status(
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object to standard output, and nothing else.")
    ] = False,
    demo: Demo = False,
) -> None:
    """Show at a glance how the warehouse is doing. Nothing is fetched or changed.

    Shows the last sync and its result; whether the last night due was synced (by ROLLBOOK_CRON, in ROLLBOOK_TIMEZONE)
    and when the next night is; syncs that are held and wait for your approval, each with the command for the merge; how
    far the history reaches, and which days are no longer on disk (ROLLBOOK_KEEP_DAYS); disk usage.

    Always exits 0; a late night is marked LATE, and `is_fresh` is false in the JSON. With --json, times have a zone,
    sizes are in bytes, and unknown values are null.
    """
    from rollbook.health.status import load_status

    rollbook = open_rollbook(demo=demo)
    from rollbook.assembly import lines

    status = load_status(rollbook.place, rollbook.settings, rollbook.clock(), lines(rollbook), home())
    if as_json:
        print_json(status)
        return
    for name, says in _lines(status, rollbook.settings):
        out.print(f"[bold]{name:<11}[/] {safe(says)}")
    for line in status.lines:
        out.print(f"[bold]{line.what:<11}[/] {safe(line.says)}.")
    for problem in status.problems:
        out.print(f"[bold red]{'damaged':<11}[/] {safe(problem)}")


def _last_lines(last: LastSync) -> Iterator[tuple[str, str]]:
    ended = f"{last.outcome}, at {last.finished_at:%Y-%m-%d %H:%M} UTC, in {last.seconds:.1f} s"
    yield "last sync", f"{last.snapshot_date}: {ended}"
    added = "would be added" if last.outcome == "held" else "added"
    moved = f"{last.rows_added:,} rows {added}, {last.rows_changed:,} changed, {last.rows_removed:,} removed"
    yield "", f"{received(last.received)}; {moved}"
    if last.kept_out:
        yield "", f"{count_of(last.kept_out, 'record')} left out: the id is an erased student's (`erase --readmit`)"
    if last.reason:
        yield "", last.reason


def _lines(status: Status, settings: Settings) -> Iterator[tuple[str, str]]:
    from rollbook.health.status import why_late

    last, good, days, expired = status.last_sync, status.last_good, status.history, status.expired
    if good is not None:
        yield "institution", f"{status.school_id} {status.school_name or ''}".strip()
    if last is None:
        yield "last sync", f"none yet: run `{settings.command('sync')}`"
    else:
        held = [hold.snapshot_date for hold in status.holds]
        due = f"the last night due was {status.due:%Y-%m-%d %H:%M %Z}"
        if status.is_fresh:
            yield "fresh", f"yes: {due}"
        else:
            yield "LATE", f"{due}: it {why_late(status.due, held, settings)}"
        if (readers := status.readers) is not None:
            yield "readers see", f"{contents_of(readers)}, published at {readers.published_at:%Y-%m-%d %H:%M} UTC"
        yield from _last_lines(last)
        if (lacking := status.lacking).count:
            yield (
                "LACKING",
                f"readers lack {count_of(lacking.count, 'landed day')} ({lacking.first} to {lacking.last}): the next"
                f" `{settings.command('sync')}` or `{settings.command('backfill')}` adds them again",
            )
    yield (
        "next run",
        f"{status.next_run:%Y-%m-%d %H:%M %Z} ({status.cron} in {status.timezone}), if `rollbook serve` runs",
    )
    for hold in status.holds:
        yield "held", f"{hold.snapshot_date}: {hold.reason}. If it is right: {hold.command}"
    for choice in status.discarded:
        yield (
            "discarded",
            f"{choice.snapshot_date}, landing {choice.landing}: {choice.reason}. To put it back: {choice.command}",
        )
    for text in status.unproven:
        yield "UNPROVEN", f"{text}."
    yield "history", f"{count_of(days.count, 'day')}, {days.first} to {days.last}" if days.count else "no days yet"
    if expired.count:
        lost = "their raw bodies and snapshots were deleted, and a rebuild that would lose them is refused"
        yield "", f"of these {expired.count} ({expired.first} to {expired.last}) are only in the history: {lost}"
    yield "on disk", ", ".join(f"{name} {machine.in_bytes(size)}" for name, size in status.sizes.items())


@app.command(rich_help_panel=Panel.ASK)
def doctor() -> None:
    """Check whether a sync could run here and now, and say what to do if not.

    Checks the settings; whether this account may write to the warehouse; whether anything there is damaged, held or
    late; whether the service accepts the key, whose key it is, and whether the service's clock and this machine's
    agree; one page of each set, flattened and discarded; whether the free disk space suffices for one sync and for a
    year of nights; and Dagster's instance. Sends three requests and writes nothing.

    Exits 0 when a sync could run, with or without warnings, and 1 when no sync could. Names a setting that is missing
    or malformed, and exits 2.
    """
    from rollbook.health.doctor import examine
    from rollbook.health.finding import Level

    rollbook = open_rollbook(fetches=True)
    from rollbook.assembly import lines

    levels = set()
    for finding in (
        *_examine_dagster(home()),
        *examine(rollbook.place, rollbook.settings, rollbook.clock()),
        *lines(rollbook),
    ):
        levels.add(finding.level)
        out.print(f"{LEVELS[finding.level]}  [bold]{finding.what}[/]: {safe(finding.says)}")
    if Level.FAILED in levels:
        err.print("[bold red]A sync could not run:[/] see the failures above.")
        raise typer.Exit(1)
    out.print("[bold green]A sync could run.[/]")


def _examine_dagster(home: Path | None) -> Iterator[Finding]:
    """Check that the instance in Dagster's home opens, and that a daemon runs, which starts the nightly sync."""
    import dagster as dg

    from rollbook.health.finding import Finding, Level

    if home is None or not os.access(home, os.W_OK | os.X_OK):
        says = f"{os.environ.get('DAGSTER_HOME')} is not a folder that this account may write to: set DAGSTER_HOME"
        yield Finding("Dagster", Level.FAILED, f"{says} to one with a dagster.yaml in it, or chown it")
        return
    if home.stat().st_mode & 0o077:  # owned by another account: the command makes the folder private
        yield Finding("Dagster", Level.WARNING, f"{home} can be read by others on this machine: chmod 700 {home}")
    if not (home / "dagster.yaml").exists():
        says = f"{home} has no dagster.yaml yet: the next `rollbook sync` or `rollbook serve` writes one"
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
    if datetime.now(UTC).timestamp() - max((beat.timestamp for beat in beats.values()), default=0.0) > 300:
        says = "no daemon is running, so nothing starts the nightly sync: run `rollbook serve`, or sync from cron"
        yield Finding("Dagster", Level.WARNING, says)


# -- data protection ---------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=Panel.PRIVACY)
def erase(
    student: Annotated[int, typer.Argument(metavar="STUDENT", help="The student's id at the records service.")],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why; shown in the certificate, or when a hold refuses. No names.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be erased.")] = False,
    hold: Annotated[
        bool, typer.Option("--hold", help="Refuse to erase this student, while there is a legal duty to keep records.")
    ] = False,
    lift: Annotated[bool, typer.Option("--lift", help="Lift the hold.")] = False,
    readmit: Annotated[
        bool, typer.Option("--readmit", help="Let a new person with this erased student's id in, from now on.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Erase without asking.")] = False,
) -> None:
    """Erase one student from everything here, and drop the student from all future syncs.

    Raw bodies, snapshots, history, changes, refused records, kept published files, the morning page and Dagster's
    records are rewritten without the student or deleted; all files in exports/ are deleted. The rows of other students
    do not change. A keyed hash of the id is kept, so that a student whom the service still lists is dropped before
    anything is written. It cannot be undone. Prints a certificate, which says what you still have to do by hand:
    backups, copies.

    Shows the counts first and asks. Also works for a student who is not here yet. The next sync finishes an erasure
    that was killed. If the service gives the id to another person, --readmit lets that person in. Exits 2 for a student
    under a legal hold (--hold), 3 when not confirmed; then nothing has changed.
    """
    from rich.markdown import Markdown

    from rollbook.rights import erasure

    if dry_run + hold + lift + readmit > 1 or ((lift or readmit) and reason):
        raise ArgumentError("Give one of --dry-run, --hold, --lift and --readmit; the last two take no reason")
    rollbook = open_rollbook()
    root = rollbook.warehouse.root
    if hold:
        erasure.hold(rollbook.writer(), student, reason=reason)
        out.print("[bold green]Held.[/] `rollbook erase` refuses this student until --lift.")
        return
    if lift:
        erasure.lift(rollbook.writer(), student)
        out.print("[bold green]Lifted.[/] The student may be erased.")
        return

    if readmit:
        log.note(root, "erase --readmit", students=1)
        erasure.readmit(rollbook.writer(), student)
        out.print(
            "[bold green]Readmitted.[/] The next sync takes the records with this id. What was erased stays erased."
        )
        return

    def confirm(holdings: Holdings) -> bool:
        log.note(root, "erase", students=int(holdings.anything))
        if not yes:
            _show(holdings, "Will be erased")
        return yes or confirmed("This cannot be undone. Go on?")

    with repaired(rollbook):
        with progress() as show:
            if dry_run:
                holdings = erasure.holdings(rollbook.writer(show), student)
                log.note(root, "erase --dry-run", students=int(holdings.anything))
                _show(holdings, "Would be erased")
                return
            certificate = erasure.erase(rollbook.writer(show), student, reason=reason, confirm=confirm, home=home())
        out.print(Markdown(certificate.text))
    out.print(f"[bold green]Erased.[/] The certificate is kept as {safe(str(certificate.path.relative_to(root)))}.")
    if certificate.counts.get("recognised"):
        err.print(
            "[yellow]Warning:[/] other records have the email or reference id of this student, under another id or"
            " none. They were not erased: check whether they are the same person."
        )


def _show(holdings: Holdings, title: str) -> None:
    """Print what is to be erased."""
    from rollbook.rights.erasure import LABELS

    if holdings.anything:
        rows = ((label, holdings.counts[key]) for key, label in LABELS.items() if holdings.counts.get(key))
        out.print(table(title, ("what", "count"), rows))
    else:
        out.print("Nothing here is about this student. An erasure still drops the student from all future syncs.")
    if holdings.exports:
        out.print("These exports may hold the student and would be deleted; move away what you must keep:")
        out.print("\n".join(f"  {safe(path.name)}" for path in holdings.exports))


@app.command(rich_help_panel=Panel.PRIVACY)
def subject(
    student: Annotated[
        int, typer.Argument(min=1, max=MAX_ID, help="The student's id at the records service (student_id).")
    ],
    target: Annotated[Path, typer.Option("--out", metavar="FILE.zip", help="The ZIP file to write.")],
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite an existing file.")] = False,
    earlier_person: Annotated[
        bool,
        typer.Option("--earlier-person", help="Include what is from before the day on which the id was reused."),
    ] = False,
    demo: Demo = False,
) -> None:
    """Write everything that is held about a student to a ZIP file: a page to read, and JSON and CSV.

    The file contains the current rows, the history, every change in words, the student's own records in the raw
    responses, including refused records, and the known copies. If the id seems to have been another person's before
    (the finding id_reused), what is from before is left out, and the output says so. Only the owner can read the file.
    Check the file before you hand it over: it names the student's teachers, and the accounts that exported records.
    """
    from rollbook.assembly import personal
    from rollbook.feature import relations
    from rollbook.rights.subject import check_out, gather, write

    warehouse, target = warehouse_path(demo=demo), target.expanduser()
    check_out(target, replace=replace)
    with machine_errors(warehouse), progress() as show:
        access = gather(
            warehouse,
            student,
            lambda done, total: show("landings", done, total),
            earlier_person=earlier_person,
            personal=personal(warehouse),
            added=relations(),
        )
    log.note(warehouse, "subject", students=1)
    with machine_errors(target.parent):
        write(access, target, replace=replace)
    rows = sum(len(section.rows) for section in access.sections)
    out.print(f"Wrote {count_of(rows, 'row')} about the student to {safe(str(target))}.")
    for remark in access.remarks:
        out.print(f"- {remark}")


@app.command(rich_help_panel=Panel.PRIVACY)
def access(
    since: Annotated[date | None, typer.Option(parser=parse_day, metavar="DAY", help="From this day (UTC) on.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Show at most this many entries, the newest.")] = 50,
    demo: Demo = False,
) -> None:
    """Show who read pupils' records through Rollbook, when, how many students, and with which query.

    Queries are logged without their values, so that the log does not become a list of which students were looked up.
    Tools that open the published file directly are not logged. Only the warehouse's owner may read the log.
    """
    entries, unreadable = log.entries(warehouse_path(demo=demo), since)
    listed = (
        (
            f"{entry.at:%Y-%m-%d %H:%M:%S}",
            entry.reader or (f"{entry.user} (of {entry.login})" if entry.login else entry.user),
            entry.kind,
            "unknown" if entry.students is None else f"{entry.students:,}",
            entry.what,
        )
        for entry in entries[-rows:]
    )
    out.print(table("", ("when (UTC)", "who", "what", "students", "question"), listed))
    if len(entries) > rows:
        err.print(f"There are {len(entries) - rows:,} older ones: raise --rows.")
    if unreadable:
        err.print(f"[yellow]Warning:[/] {count_of(unreadable, 'line')} of the log could not be read.")
