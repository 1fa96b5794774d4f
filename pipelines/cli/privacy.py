"""The data-protection officer's commands: aggregates, codes, erase, subject, access."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines import machine
from pipelines.cli.app import (
    Panel,
    app,
    err,
    home,
    open_rollbook,
    out,
    parse_day,
    print_table,
    progress,
    safe,
    table,
)
from pipelines.cli.fleet import build_again
from pipelines.errors import ArgumentError
from pipelines.privacy import access as log
from pipelines.records import MAX_ID
from pipelines.settings import load, place
from pipelines.store.published.fleet_file import FleetFile
from pipelines.text import count_of

if TYPE_CHECKING:
    from pipelines.privacy.erasure import Holdings

codes = typer.Typer(
    help="Find the student behind a code of the pseudonymous file, or replace all codes.",
    no_args_is_help=True,
)
app.add_typer(codes, name="codes", rich_help_panel=Panel.PRIVACY)


@app.command(rich_help_panel=Panel.PRIVACY)
def aggregates(
    day: Annotated[
        date | None,
        typer.Option(parser=parse_day, metavar="DAY", help="Release the figures of this landed day, without terms."),
    ] = None,
) -> None:
    """Write figures of the school and its courses that may leave the building, into aggregates/ in the warehouse.

    Without --day, every term of terms.csv that is over and was not released yet. Groups of fewer than 20 students are
    left out; the others' figures have noise and are shown as bands of 10. README.txt beside them explains them.

    A release is written once and never again, whatever changes in the records. So keep the files in aggregates/ and
    hand out copies: a file that is gone would be made again, with other noise.
    """
    from pipelines.privacy.aggregates import FOLDER, release

    settings = load(fetches=False)
    root = settings.warehouse_path
    today = datetime.now(UTC).astimezone(settings.zone).date()
    released, too_close = release(root, day, today=today, mode=settings.file_mode)
    log.note(root, "aggregates")
    for each in released:
        out.print(f"Wrote {safe(str(root / FOLDER / f'{each}.csv'))}")
    for term in too_close:
        err.print(
            f"[yellow]Warning:[/] {safe(term)} was not released: it ends less than 30 days from a day that was"
            " released already."
        )
    if not released:
        out.print(
            "Nothing new was released: no other term of terms.csv is over and has a landed day. --day releases a day"
            " without a term."
        )


@codes.command()
def find(
    code: Annotated[int, typer.Argument(help="The code: a student_id in rollbook-pseudonymous.duckdb.")],
) -> None:
    """Show which student a code stands for: the id and the latest name.

    Only the account that Rollbook runs as can read the table of codes. Nothing is fetched or changed.
    """
    from pipelines.privacy.pseudonymous import Pseudonymous

    rollbook = open_rollbook()
    file = rollbook.listener(Pseudonymous)
    release = file.codes.load()
    student = next((s for s, known in release.codes.items() if known == code), None) if release else None
    if student is None:
        since = f" (codes are those since {release.began_at:%Y-%m-%d %H:%M} UTC)" if release else ""
        raise ArgumentError(f"{code} stands for nobody{since}: copy it from student_id in the pseudonymous file")
    log.note(rollbook.warehouse.root, "codes find", students=1)
    out.print(f"{code} is student {student}: {safe(file.describe(student))}.")


@codes.command()
def rotate(
    yes: Annotated[bool, typer.Option("--yes", help="Replace all codes without asking.")] = False,
) -> None:
    """Begin a new release: give every student a new code, and rewrite the pseudonymous file.

    Also rewrites fleet-pseudonymous.duckdb, if the school is in one.

    Takes effect at once. The old codes stop working: tables that analysts saved with them cannot be joined with the new
    file, and `rollbook codes find` no longer knows them.
    """
    from pipelines.privacy.pseudonymous import Pseudonymous

    rollbook = open_rollbook()
    question = "All codes are replaced, and the present ones stop working. Go on?"
    if not yes and not (sys.stdin.isatty() and typer.confirm(question, default=False)):
        raise ArgumentError("Not confirmed, so no code was replaced. Without a terminal, add --yes")
    fleet, file = rollbook.warehouse.fleet, rollbook.listener(Pseudonymous)
    is_shared = fleet is not None and FleetFile(fleet, pseudonymous=True).path.exists()
    with rollbook.writer():
        count = file.rotate(rollbook.clock())
    out.print(f"A new release has begun, with {count_of(count, 'code')}.")
    if not file.wanted:
        out.print("ROLLBOOK_PSEUDONYMOUS is not set, so no file was written.")
    if is_shared:
        build_again()


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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Erase without asking.")] = False,
) -> None:
    """Erase one student from everything here, and drop the student from all future syncs.

    Raw bodies, snapshots, history, changes, refused records, kept published files, the morning page and Dagster's
    records are rewritten without the student or deleted; all files in exports/ are deleted. The rows of other students
    do not change. A keyed hash of the id is kept, so that a student whom the service still lists is dropped before
    anything is written. It cannot be undone. Prints a certificate, which says what you still have to do by hand:
    backups, copies.

    Shows the counts first and asks. Also works for a student who is not here yet. If it is killed, the next sync
    finishes it. Exits 2 for a student under a legal hold (--hold), 3 when it was not confirmed; then nothing has
    changed.
    """
    from rich.markdown import Markdown

    from pipelines.operations import erase as erasures

    if dry_run + hold + lift > 1 or (lift and reason):
        raise ArgumentError("Give one of --dry-run, --hold and --lift; --lift takes no reason")
    rollbook = open_rollbook()
    root = rollbook.warehouse.root
    if hold:
        erasures.hold(rollbook, student, reason=reason)
        out.print("[bold green]Held.[/] `rollbook erase` refuses this student until --lift.")
        return
    if lift:
        erasures.lift(rollbook, student)
        out.print("[bold green]Lifted.[/] The student may be erased.")
        return

    def confirm(found: Holdings) -> bool:
        log.note(root, "erase", students=int(found.anything))
        if not yes:
            _show(found, "Will be erased")
        return yes or (sys.stdin.isatty() and typer.confirm("This cannot be undone. Go on?", default=False))

    with progress() as rollbook.progress:
        if dry_run:
            found = erasures.find(rollbook, student)
            log.note(root, "erase --dry-run", students=int(found.anything))
            _show(found, "Would be erased")
            return
        certificate = erasures.erase(rollbook, student, reason=reason, confirm=confirm, home=home())
    out.print(Markdown(certificate.text))
    if certificate.counts.get("fleet"):
        build_again()
    kept = certificate.path.relative_to(root)
    out.print(f"[bold green]Erased.[/] The certificate is kept as {safe(str(kept))}.")
    if certificate.counts.get("recognised"):
        err.print(
            "[yellow]Warning:[/] other records have the email or reference id of this student, under another id or"
            " none. They were not erased: check whether they are the same person."
        )


def _show(found: Holdings, title: str) -> None:
    """Print what is to be erased."""
    from pipelines.privacy.erasure import LABELS

    if found.anything:
        rows = ((label, found.counts[key]) for key, label in LABELS.items() if found.counts.get(key))
        out.print(table(title, ("what", "count"), rows))
    else:
        out.print("Nothing here is about this student. An erasure still drops the student from all future syncs.")
    if found.exports:
        names = "\n".join(f"  {safe(path.name)}" for path in found.exports)
        out.print(f"These exports may hold the student and would be deleted; move away what you must keep:\n{names}")


@app.command(rich_help_panel=Panel.PRIVACY)
def subject(
    student: Annotated[
        int, typer.Argument(min=1, max=MAX_ID, help="The student's id at the records service (student_id).")
    ],
    target: Annotated[Path, typer.Option("--out", metavar="FILE.zip", help="The ZIP file to write.")],
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite an existing file.")] = False,
) -> None:
    """Write everything that is held about one student to a ZIP file: a page to read, and JSON and CSV.

    It contains the current rows, the history, every change in words, the student's own records in the raw responses,
    including refused ones, and the known copies. Only its owner can read it. Check it before you hand it over: it names
    the student's teachers, and the accounts that exported records.
    """
    from pipelines.privacy.subject import check_out, gather, write

    warehouse, target = place().warehouse_path, target.expanduser()
    check_out(target, replace=replace)
    with machine.translate_errors(warehouse), progress() as show:
        found = gather(warehouse, student, lambda done, total: show("landings", done, total))
    log.note(warehouse, "subject", students=1)
    with machine.translate_errors(target.parent):
        write(found, target, replace=replace)
    rows = sum(len(section.rows) for section in found.sections)
    out.print(f"Wrote {count_of(rows, 'row')} about the student to {safe(str(target))}.")
    for remark in found.remarks:
        out.print(f"- {remark}")


@app.command(rich_help_panel=Panel.PRIVACY)
def access(
    since: Annotated[date | None, typer.Option(parser=parse_day, metavar="DAY", help="From this day (UTC) on.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Show at most this many entries, the newest.")] = 50,
) -> None:
    """Show who read pupils' records through Rollbook, when, how many students, and with which query.

    Queries are logged without their values, so that the log does not become a list of which students were looked up.
    Tools that open the published file directly are not logged. Only the warehouse's owner may read the log.
    """
    found = log.entries(place().warehouse_path, since)
    listed = (
        (
            f"{entry.at:%Y-%m-%d %H:%M:%S}",
            f"{entry.user} (of {entry.login})" if entry.login else entry.user,
            entry.kind,
            "unknown" if entry.students is None else f"{entry.students:,}",
            entry.what,
        )
        for entry in found.entries[-rows:]
    )
    print_table(table("", ("when (UTC)", "who", "what", "students", "question"), listed))
    if len(found.entries) > rows:
        err.print(f"There are {len(found.entries) - rows:,} older ones: raise --rows.")
    if found.unreadable:
        err.print(f"[yellow]Warning:[/] {count_of(found.unreadable, 'line')} of the log could not be read.")
