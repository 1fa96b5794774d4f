"""`rollbook aggregates`: writes figures that are safe to share."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.app import Panel, app, err, out, safe, table
from pipelines.cli.run import shown_progress
from pipelines.settings import load
from pipelines.store.published.versions import PUBLISHED
from pipelines.text import count_of

FOLDER = "aggregates"


@app.command(rich_help_panel=Panel.PRIVACY)
def aggregates(
    target: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="The folder to write to. By default the folder aggregates/ in the warehouse."
        ),
    ] = None,
) -> None:
    """Write counts, rates and averages by school, course, class and week that may leave the building.

    Figures about fewer than ROLLBOOK_SUPPRESS_BELOW students are suppressed, and so are figures of any week from which
    a suppressed one could be calculated. A README.txt beside the files explains them.

    Each week is released once, when it is over, and does not change afterwards; run this again to add missing weeks.
    private/aggregates/ in the warehouse records what was released: include it in your backups.
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
        out.print("No other week is over yet: nothing new was released.")
    out.print(f"{safe(str(folder))} holds {count_of(result.kept + len(result.released), 'week')}.")
    if result.changed:
        _warn(
            f"The records of {', '.join(result.changed)} have changed since their release. The released figures stay:"
            " two versions of a week would reveal whom they differ by."
        )
    if result.altered:
        _warn(
            f"{', '.join(result.altered)} in {folder} were changed after their release, and were not overwritten. To"
            " restore them, delete them and run this again."
        )


def _warn(text: str) -> None:
    err.print(f"[yellow]Warning:[/] {safe(text)}")
