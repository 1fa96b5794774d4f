"""`rollbook aggregates`: writes figures that may be shared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from pipelines.cli.app import Panel, app, err, out, safe
from pipelines.settings import load


@app.command(rich_help_panel=Panel.PRIVACY)
def aggregates(
    day: Annotated[
        datetime | None,
        typer.Option("--day", formats=["%Y-%m-%d"], help="Release the figures of this landed day, without terms."),
    ] = None,
) -> None:
    """Write figures of the school and its courses that may leave the building, into aggregates/ in the warehouse.

    Without --day, every term of terms.csv that is over and was not released yet. Groups of fewer than 20 students are
    left out; the others' figures have noise and are shown as bands of 10. README.txt beside them explains them.

    A release is written once and never again, whatever changes in the records. So keep the files in aggregates/ and
    hand out copies: a file that is gone would be made again, with other noise.
    """
    from pipelines.privacy import access
    from pipelines.privacy.aggregates import FOLDER, release

    settings = load(fetches=False)
    root = settings.warehouse_path
    today = datetime.now(UTC).astimezone(settings.zone).date()
    result = release(root, day.date() if day else None, today=today, mode=settings.file_mode)
    access.note(root, "aggregates")
    for released in result.released:
        out.print(f"Wrote {safe(str(root / FOLDER / f'{released}.csv'))}")
    for term in result.too_close:
        err.print(
            f"[yellow]Warning:[/] {safe(term)} was not released: it ends less than 30 days from a day that was"
            " released already."
        )
    if not result.released:
        out.print(
            "Nothing new was released: no other term of terms.csv is over and has a landed day. --day releases a day"
            " without a term."
        )
