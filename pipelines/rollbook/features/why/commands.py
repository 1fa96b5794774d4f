"""`rollbook why`."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import typer

from rollbook.reading import access as log
from rollbook.terminal import (
    Demo,
    Panel,
    app,
    out,
    parse_day,
    safe,
    table,
    warehouse_path,
)


@app.command(rich_help_panel=Panel.READ)
def why(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="A current table, such as student_summaries.")],
    key: Annotated[str, typer.Argument(help="The row's id; for student_classes the student's and the class's: 7,501.")],
    column: Annotated[str | None, typer.Argument(help="One column; without it, the whole row.")] = None,
    on: Annotated[
        date | None,
        typer.Option("--on", parser=parse_day, metavar="DAY", help="As it was on this day; now by default."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Show the record as received, and names.")] = False,
    demo: Demo = False,
) -> None:
    """Show where a row or a value comes from: the landing, the request, the record as received, and the changes.

    For a removed row, shows the searches for the record, with the answers. Says who approved or discarded what. The
    record is named by its bytes in the body, and the body by its SHA-256; an expired source is named as expired.
    Without --show, no names and no record appear. Each use is a line in the access log.
    """
    from rollbook.features.why.provenance import key_of, trace

    root = warehouse_path(demo=demo)
    record = trace(root, name, key_of(key), column, on, show=show)
    log.note(root, "why --show" if show else "why", students=record.students, what=name)
    for what, says in record.lines:
        out.print(f"[bold]{what:<9}[/] {safe(says)}")
    out.print(table("What changed it", ("day", "change", "column", "before", "since"), record.changes))
