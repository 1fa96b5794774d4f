"""`rollbook codes`: finds the student behind a pseudonymous code, and replaces all codes. For the owner only."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pipelines.cli.app import Panel, app, open_rollbook, out, safe
from pipelines.cli.fleet.build import build_again
from pipelines.errors import ArgumentError
from pipelines.privacy import access
from pipelines.store.published.fleet_file import FleetFile
from pipelines.text import count_of

codes = typer.Typer(
    help="Find the student behind a code of the pseudonymous file, or replace all codes.",
    no_args_is_help=True,
)
app.add_typer(codes, name="codes", rich_help_panel=Panel.PRIVACY)


@codes.command()
def find(
    code: Annotated[int, typer.Argument(help="The code: a student_id in rollbook-pseudonymous.duckdb.")],
) -> None:
    """Show which student a code stands for: the id and the latest name.

    Only the account that Rollbook runs as can read the table of codes. Nothing is fetched or changed.
    """
    rollbook = open_rollbook()
    file = rollbook.publisher.pseudonymous
    release = file.codes.load()
    student = next((s for s, known in release.codes.items() if known == code), None) if release else None
    if student is None:
        since = f" (codes are those since {release.began_at:%Y-%m-%d %H:%M} UTC)" if release else ""
        raise ArgumentError(f"{code} stands for nobody{since}: copy it from student_id in the pseudonymous file")
    access.note(rollbook.warehouse.root, "codes find", students=1)
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
    rollbook = open_rollbook()
    question = "All codes are replaced, and the present ones stop working. Go on?"
    if not yes and not (sys.stdin.isatty() and typer.confirm(question, default=False)):
        raise ArgumentError("Not confirmed, so no code was replaced. Without a terminal, add --yes")
    fleet, file = rollbook.warehouse.fleet, rollbook.publisher.pseudonymous
    is_shared = fleet is not None and FleetFile(fleet, pseudonymous=True).path.exists()
    with rollbook.writer():
        count = file.rotate(rollbook.clock())
    out.print(f"A new release has begun, with {count_of(count, 'code')}.")
    if not file.wanted:
        out.print("ROLLBOOK_PSEUDONYMOUS is not set, so no file was written.")
    if is_shared:
        build_again()
