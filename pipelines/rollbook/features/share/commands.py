"""`rollbook share`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from rollbook.errors import ArgumentError, RollbookError
from rollbook.features.share.register import Register, hindrances, lacks_pseudonymous
from rollbook.reading import access
from rollbook.settings import load
from rollbook.store.published import PSEUDONYMOUS, PUBLISHED
from rollbook.terminal import Demo, Panel, app, confirmed, err, out, table, warehouse_path

# Where a reverse proxy serves `rollbook explore`, unless ROLLBOOK_EXPLORE_URL says so.
ADDRESS = "https://rollbook.example.org"

share = typer.Typer(
    help="Let programs on other machines attach the published file, over https.",
    no_args_is_help=True,
)


app.add_typer(share, name="share", rich_help_panel=Panel.READ)


@share.command()
def add(
    name: Annotated[str, typer.Argument(help="Whose program it is, such as ash-excel.")],
    names: Annotated[
        bool, typer.Option("--names", help="Give the whole file, with names, instead of the pseudonymous one.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Give the whole file without asking.")] = False,
    demo: Demo = False,
) -> None:
    """Make a token for one program, and show it once: only its digest is kept.

    Each program needs a token of its own, since a token reads one night at a time. The file is served by `rollbook
    explore`, behind a proxy with https.
    """
    root = warehouse_path(demo=demo)
    if not names and (missing := lacks_pseudonymous(load(fetches=False))):
        raise ArgumentError(f"{missing}, so there is no file without names. With --names, {name} gets the whole file")
    question = f"{name} gets the whole school with all names, whatever readers.csv lets its owner see. Go on?"
    if names and not yes and not confirmed(question):
        raise ArgumentError("Not confirmed, so there is no token. Without a terminal, add --yes")
    known = getattr(load(fetches=False), "explore_url", "")  # a setting of another feature
    register, file = Register(root), PUBLISHED if names else PSEUDONYMOUS
    token = register.add(name, names=names, at=datetime.now(UTC))
    try:
        access.note(root, "share add", students=0, what=f"{file} to {name}")
    except RollbookError:
        register.remove(name)
        raise
    named = "In DuckDB" if known else "With your proxy's name, in DuckDB"
    out.print(f"The token is shown only now, and is for one program. {named}, type:\n")
    out.print(_lines(file, token, known or ADDRESS), markup=False)


def _lines(file: str, token: str, address: str) -> str:
    """What an analyst types. Without the scope, DuckDB would send the token to every site that it reads from."""
    return (
        f"CREATE SECRET rollbook (TYPE http, BEARER_TOKEN '{token}', SCOPE '{address}/file/');\n"
        f"ATTACH '{address}/file/{file}' AS rollbook (READ_ONLY);\n"
        "USE rollbook;"
    )


@share.command("list")
def show(demo: Demo = False) -> None:
    """Show who has a token, of which file and since when, and whether they get it."""
    root = warehouse_path(demo=demo)
    readers = Register(root).read()
    if not readers:
        out.print("Nobody has a token: `rollbook share add NAME` makes one.")
        return
    rows = [(each.name, each.file, f"{each.since:%Y-%m-%d}") for each in readers]
    out.print(table("", ("reader", "file", "since"), rows))
    for says in hindrances(load(fetches=False), readers):
        err.print(f"[yellow]Warning:[/] {says}.")


@share.command()
def remove(
    name: Annotated[str, typer.Argument(help="The reader, as `rollbook share list` shows it.")],
    demo: Demo = False,
) -> None:
    """Take a reader's token away. It reads nothing any more, at once; what was copied stays where it is."""
    root = warehouse_path(demo=demo)
    Register(root).remove(name)
    access.note(root, "share remove", students=0, what=name)
    out.print(f"The token of {name} lets nobody in any more.")
