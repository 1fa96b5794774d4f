"""`rollbook export`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from rollbook.errors import ArgumentError
from rollbook.reading import access as log
from rollbook.reading.formats import Format
from rollbook.store.published import EXPORTS, PUBLISHED
from rollbook.terminal import (
    Demo,
    Panel,
    app,
    out,
    parse_day,
    warehouse_path,
)
from rollbook.terminal.answers import write_export
from rollbook.util import files
from rollbook.util.text import listed


@app.command(rich_help_panel=Panel.READ)
def export(
    question: Annotated[
        str | None, typer.Argument(help="A view or table (roster, history.students), or a query in SQL.")
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="F",
            help="The file to write; an older one is replaced. By default one in the warehouse's folder exports/.",
        ),
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="By default taken from the file's extension, else csv.")
    ] = None,
    sheet_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="In an Excel file, a sheet for each value of it, such as class_title."),
    ] = None,
    oneroster: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the roster for other systems into this folder: OneRoster 1.2, CSV."),
    ] = None,
    since: Annotated[
        date | None,
        typer.Option(parser=parse_day, metavar="DAY", help="With --oneroster: only what changed after this day."),
    ] = None,
    demo: Demo = False,
) -> None:
    """Write a view, a table or a query's result to a file for Excel or other tools: CSV, Excel or Parquet; or the
    roster for other systems (--oneroster).

    The file holds pupils' records and is readable by the owner only. Text that a spreadsheet program would run as a
    formula is escaped, but not for other systems.
    """
    from rollbook.store.warehouse import BUILD

    warehouse = warehouse_path(demo=demo)
    if oneroster is not None and question is None:
        write_roster(warehouse, oneroster.expanduser(), since)
        return
    if question is None or oneroster is not None or since is not None:
        raise ArgumentError("Name a view, a table or a query; or a folder with --oneroster, and a day with --since")
    if target is None:
        form = form or Format.CSV
        name = question if question.replace(".", "_").isidentifier() else "query"
        target = files.folder(warehouse / EXPORTS) / f"{name}.{form}"
    write_export(warehouse, warehouse / PUBLISHED, question, target, form, warehouse / BUILD, sheet_by=sheet_by)


def write_roster(warehouse: Path, folder: Path, since: date | None) -> None:
    """Write the files of OneRoster into a folder; noted in the access log."""
    from rollbook.features.export import oneroster

    def note(students: int) -> None:
        log.note(warehouse, "export --oneroster", students=students)

    counts = oneroster.write(warehouse / PUBLISHED, folder, since, before=note)
    out.print(f"Wrote {listed([f'{count:,} {name}' for name, count in counts.items()])}.")
    out.print(
        "The files are for systems that take OneRoster, not for Excel: text that a spreadsheet program would run as a"
        " formula is written as it is."
    )
    out.print(
        "Left blank, since the service does not state it: grades, subjects, periods, phones, parents and guardians."
    )
