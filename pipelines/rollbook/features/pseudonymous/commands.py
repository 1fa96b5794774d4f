"""`rollbook codes`."""

from __future__ import annotations

from typing import Annotated

import typer

from rollbook.errors import ArgumentError
from rollbook.opening import open_rollbook, repaired
from rollbook.reading import access as log
from rollbook.terminal import (
    Demo,
    Panel,
    app,
    confirmed,
    out,
    safe,
)
from rollbook.util.text import count_of

codes = typer.Typer(
    help="Find the student behind a code of the pseudonymous file, or replace all codes.",
    no_args_is_help=True,
)


app.add_typer(codes, name="codes", rich_help_panel=Panel.PRIVACY)


@codes.command()
def find(
    code: Annotated[int, typer.Argument(help="The code: a student_id in rollbook-pseudonymous.duckdb.")],
    demo: Demo = False,
) -> None:
    """Show which student a code stands for: the id and the latest name.

    Only the account that Rollbook runs as can read the table of codes. Nothing is fetched or changed.
    """
    from rollbook.features.pseudonymous.pseudonymous import Pseudonymous

    rollbook = open_rollbook(demo=demo)
    file = rollbook.listener(Pseudonymous)
    release = file.codes.load()
    student = next((s for s, assigned in release.codes.items() if assigned == code), None) if release else None
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

    Also rewrites district-pseudonymous.duckdb, if the school is in that file.

    Takes effect at once. The old codes stop working: tables that analysts saved with old codes cannot be joined with
    the new file, and `rollbook codes find` no longer knows old codes.
    """
    from rollbook.features.pseudonymous.pseudonymous import Pseudonymous

    rollbook = open_rollbook()
    if not yes and not confirmed("All codes are replaced, and the present ones stop working. Go on?"):
        raise ArgumentError("Not confirmed, so no code was replaced. Without a terminal, add --yes")
    file = rollbook.listener(Pseudonymous)
    with repaired(rollbook):
        with rollbook.writer().writing():
            count = file.rotate(rollbook.clock())
        out.print(f"A new release has begun, with {count_of(count, 'code')}.")
        if not file.wanted:
            out.print("ROLLBOOK_PSEUDONYMOUS is not set, so no file was written.")
