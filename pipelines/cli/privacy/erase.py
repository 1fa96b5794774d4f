"""The commands for the right to erasure: erase and hold-erasure."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.app import Panel, app, err, open_rollbook, out, safe, table
from pipelines.cli.diagnostics import home
from pipelines.cli.fleet.build import build_again
from pipelines.cli.run import shown_progress
from pipelines.errors import ArgumentError
from pipelines.privacy import access
from pipelines.privacy.erasure.certificate import LABELS

if TYPE_CHECKING:
    from pipelines.privacy.erasure.erasure import Holdings

Student = Annotated[int, typer.Argument(metavar="STUDENT", help="The student's id at the records service.")]


@app.command(rich_help_panel=Panel.PRIVACY)
def erase(
    student: Student,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown in the certificate. No names.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be erased.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Erase without asking.")] = False,
) -> None:
    """Erase one student from everything here, and drop the student from all future syncs.

    Raw bodies, snapshots, history, changes, refused records, kept published files, the morning page and Dagster's
    records are rewritten without the student or deleted; all files in exports/ are deleted. The rows of other students
    do not change. A keyed hash of the id is kept, so that a student whom the service still lists is dropped before
    anything is written. It cannot be undone. Prints a certificate, which says what you still have to do by hand:
    backups, copies.

    Shows the counts first and asks. Also works for a student who is not here yet. If it is killed, the next sync
    finishes it. Exits 2 for a student under a legal hold, 3 when it was not confirmed; then nothing has changed.
    """
    from rich.markdown import Markdown

    from pipelines.operations import erase as erasures

    rollbook = open_rollbook()
    if dry_run:
        with shown_progress() as progress:
            rollbook.progress = progress
            found = erasures.find(rollbook, student)
        access.note(rollbook.warehouse.root, "erase --dry-run", students=int(found.anything))
        _show(found, "Would be erased")
        return

    def confirm(found: Holdings) -> bool:
        access.note(rollbook.warehouse.root, "erase", students=int(found.anything))
        if yes:
            return True
        _show(found, "Will be erased")
        return sys.stdin.isatty() and typer.confirm("This cannot be undone. Go on?", default=False)

    with shown_progress() as progress:
        rollbook.progress = progress
        certificate = erasures.erase(rollbook, student, reason=reason, confirm=confirm, home=home())
    out.print(Markdown(certificate.text()))
    kept = certificate.path(rollbook.raw.memory.folder)
    if certificate.counts.get("fleet"):
        build_again()
    out.print(
        f"[bold green]Erased.[/] The certificate is kept as {safe(str(kept.relative_to(rollbook.warehouse.root)))}."
    )
    if certificate.counts.get("recognised"):
        err.print(
            "[yellow]Warning:[/] other records have the email or reference id of this student, under another id or"
            " none. They were not erased: check whether they are the same person."
        )


@app.command("hold-erasure", rich_help_panel=Panel.PRIVACY)
def hold_erasure(
    student: Student,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown when an erasure is refused. No names.")] = "",
    lift: Annotated[bool, typer.Option("--lift", help="Allow the student to be erased again.")] = False,
) -> None:
    """Block the erasure of a student while there is a legal duty to keep the records.

    The id is kept as a keyed hash. Exits 2 for a student who is already erased.
    """
    from pipelines.operations import erase as erasures

    rollbook = open_rollbook()
    if lift:
        if reason:
            raise ArgumentError("--lift takes no reason")
        erasures.lift(rollbook, student)
        out.print("[bold green]Lifted.[/] The student may be erased.")
        return
    erasures.hold(rollbook, student, reason=reason)
    out.print("[bold green]Held.[/] `rollbook erase` refuses this student until --lift.")


def _show(found: Holdings, title: str) -> None:
    """Print what is to be erased."""
    if found.anything:
        rows = ((label, found.counts[key]) for key, label in LABELS.items() if found.counts.get(key))
        out.print(table(title, ("what", "count"), rows))
    else:
        out.print("Nothing here is about this student. An erasure still drops the student from all future syncs.")
    if found.exports:
        out.print("These exports may hold the student and would be deleted; move away what you must keep:")
    for path in found.exports:
        out.print(f"  {safe(path.name)}")
