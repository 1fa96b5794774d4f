"""`rollbook aggregates`: writes figures that may leave the building."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.app import app, err, out, safe, table
from pipelines.cli.run import shown_progress
from pipelines.settings import load
from pipelines.store.versions import PUBLISHED
from pipelines.text import count_of

FOLDER = "aggregates"


@app.command()
def aggregates(
    target: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="The folder to write to. By default the folder aggregates/ in the warehouse."
        ),
    ] = None,
) -> None:
    """Write counts, rates and averages by school, course, class and week that may leave the building.

    A figure that is about fewer than ROLLBOOK_SUPPRESS_BELOW students is suppressed, and so is one that would help to
    calculate such a figure from others, of any week. A README.txt beside the files says what they mean.

    A week is released once, when it is over, and stays as it is: running this again adds the weeks that are missing.
    What was released is recorded in private/aggregates/ in the warehouse; keep that with your backups.
    """
    from pipelines.privacy import access
    from pipelines.privacy.disclosure.aggregates import release

    settings = load(fetches=False)
    root = settings.warehouse_path
    folder = target.expanduser() if target is not None else root / FOLDER
    with shown_progress() as progress:
        result = release(
            root,
            root / PUBLISHED,
            folder,
            k=settings.suppress_below,
            today=datetime.now(UTC).astimezone(settings.zone).date(),
            mode=settings.file_mode,
            progress=progress,
        )
    access.note(root, "aggregates")
    if result.released:
        rows = []
        for released in result.released:
            shown = sum(row["suppressed"] is None for row in released.rows)
            rows.append((released.name, len(released.rows), shown, len(released.rows) - shown))
        out.print(table("Released", ("week", "figures", "shown", "suppressed"), rows))
    else:
        out.print("No further week is over: nothing new was released.")
    out.print(f"{safe(str(folder))} holds {count_of(result.kept + len(result.released), 'week')}.")
    if result.changed:
        _warn(
            f"The records of {', '.join(result.changed)} are others now than when they were released. What was released"
            " stays as it is: two versions of a week would show whom they differ by."
        )
    if result.altered:
        _warn(
            f"{', '.join(result.altered)} in {folder} are not as they were released. They were left as they are; remove"
            " them and run this again to have them as they were."
        )


def _warn(text: str) -> None:
    err.print(f"[yellow]Warning:[/] {safe(text)}")
