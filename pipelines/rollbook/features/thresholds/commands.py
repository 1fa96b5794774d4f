"""`rollbook thresholds`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
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
    contacts: Annotated[
        bool,
        typer.Option(
            "--contacts",
            help="Show instead the two weeks before and after students were spoken to, beside others like them.",
        ),
    ] = False,
    demo: Demo = False,
) -> None:
    """Show what the reasons to watch did in the past: how many were flagged, how many of them rightly, how early.

    Every landed day is evaluated again, by thresholds.csv as the last sync read it; with `--try completion_below=40
    missing_percent=40`, by these as well. Nothing is changed. A flag is right if the outcome came later: by default
    completion or score under the bounds at a term's end; or what own/outcomes.csv lists (student_id,on). Groups of one
    to four students are not shown.

    With --contacts: the work of the two weeks before and after somebody spoke to a student, by contacted.csv, beside
    students with the same reason and severity to whom nobody did. It compares, and shows no cause.
    """
    from rollbook.features.thresholds import page
    from rollbook.reading import contacts as spoken
    from rollbook.reading import thresholds as measuring

    root, values = warehouse_path(demo=demo), dict(map(_given, [*(tried or ()), *(more or ())]))
    if contacts and values:
        raise ArgumentError("--contacts is by the thresholds that were in force: leave --try out")
    if contacts:
        compared = spoken.report(root)
        log.note(root, "thresholds")
        path = page.write_contacts(root, compared) if as_page else None
        shown = page.about_contacts(compared), page.CONTACTS_HEADINGS, page.contact_lines(compared)
        _answer(asdict(compared) if as_json else None, *shown, page.CONTACTS_CAVEATS, path)
    else:
        measured = measuring.report(root, values)
        log.note(root, "thresholds")
        path = page.write(root, measured) if as_page else None
        told = page.about(measured), page.HEADINGS, page.lines(measured)
        _answer(asdict(measured) if as_json else None, *told, page.CAVEATS, path)


def _answer(
    as_json: dict[str, object] | None,
    about: str,
    headings: Sequence[str],
    lines: Sequence[tuple[object, ...]],
    caveats: Sequence[str],
    path: Path | None,
) -> None:
    if as_json is not None:
        typer.echo(json.dumps(as_json, ensure_ascii=False))
        return
    out.print(safe(about))
    out.print(table("", headings, lines))
    for sentence in caveats:
        out.print(safe(sentence))
    if path:
        out.print(f"Wrote {safe(str(path))}.")


def _given(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError(f"{text[:40]!r} is not a threshold with a value: write it as completion_below=40")
    return name.strip(), value.strip()
