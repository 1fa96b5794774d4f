"""`rollbook thresholds`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from rollbook.errors import ArgumentError
from rollbook.reading import access as log
from rollbook.terminal import Demo, Panel, app, out, safe, table, warehouse_path


@app.command(rich_help_panel=Panel.READ)
def thresholds(
    more: Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="More thresholds to try.")] = None,
    tried: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="NAME=VALUE", help="Show beside it what another threshold would have done."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object to standard output, and nothing else.")
    ] = False,
    as_page: Annotated[
        bool, typer.Option("--page", help="Write it as a page, exports/thresholds.html in the warehouse's folder.")
    ] = False,
    demo: Demo = False,
) -> None:
    """Show what the reasons to watch did in the past: how many were flagged, how many of them rightly, how early.

    Every landed day is evaluated again, by thresholds.csv as the last sync read it; with `--try completion_below=40
    missing_percent=40`, by these as well. Nothing is changed. A flag is right if the outcome came later: by default
    completion or score under the bounds at a term's end; or what own/outcomes.csv lists (student_id,on). Groups of one
    to four students are not shown.
    """
    from rollbook.features.thresholds import page
    from rollbook.reading.thresholds import report

    root = warehouse_path(demo=demo)
    measured = report(root, dict(map(_given, [*(tried or ()), *(more or ())])))
    log.note(root, "thresholds")
    path = page.write(root, measured) if as_page else None
    if as_json:
        typer.echo(json.dumps(asdict(measured), ensure_ascii=False))
        return
    out.print(safe(page.about(measured)))
    out.print(table("", page.HEADINGS, page.lines(measured)))
    for sentence in page.CAVEATS:
        out.print(safe(sentence))
    if path:
        out.print(f"Wrote {safe(str(path))}.")


def _given(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError(f"{text[:40]!r} is not a threshold with a value: write it as completion_below=40")
    return name.strip(), value.strip()
