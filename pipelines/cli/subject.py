"""What a data-protection officer types: access, subject."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from pipelines.cli.app import Terminal, app, day_of, err, out, table
from pipelines.privacy import access as log
from pipelines.settings import place
from pipelines.text import count_of


@app.command()
def access(
    since: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], metavar="DAY", help="From this day (UTC) on.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="How many readings to show at most, the newest.")] = 50,
) -> None:
    """Show who read pupils' records through Rollbook, when, how many students, and by which question.

    The questions are kept without their values, so the log cannot be asked about one student: it would else be a second
    list of who was looked up. Tools that open the published file by themselves are not in it. Only the warehouse's
    owner may read it.
    """
    found = log.entries(place().warehouse_path, day_of(since))
    shown = found.entries[-rows:]
    listed = (
        (
            f"{entry.at:%Y-%m-%d %H:%M:%S}",
            f"{entry.user} (of {entry.login})" if entry.login else entry.user,
            entry.kind,
            "unknown" if entry.students is None else f"{entry.students:,}",
            entry.what,
        )
        for entry in shown
    )
    printed = table("", ("when (UTC)", "who", "what", "students", "question"), listed)
    (out if out.is_terminal else Terminal(width=10_000)).print(printed)
    if len(found.entries) > rows:
        err.print(f"There are {len(found.entries) - rows:,} older ones: raise --rows.")
    if found.unreadable:
        err.print(f"[yellow]Warning:[/] {count_of(found.unreadable, 'line')} of the log could not be read.")
