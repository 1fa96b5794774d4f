"""The data-protection officer's commands: subject, access."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from pipelines import machine
from pipelines.cli.app import Panel, Terminal, app, err, out, parse_day, progress_bars, safe, table
from pipelines.privacy import access as log
from pipelines.records import MAX_ID
from pipelines.settings import place
from pipelines.text import count_of


@app.command(rich_help_panel=Panel.PRIVACY)
def subject(
    student: Annotated[
        int, typer.Argument(min=1, max=MAX_ID, help="The student's id at the records service (student_id).")
    ],
    target: Annotated[Path, typer.Option("--out", metavar="FILE.zip", help="The ZIP file to write.")],
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite an existing file.")] = False,
) -> None:
    """Write everything that is held about one student to a ZIP file: a page to read, and JSON and CSV.

    It contains the current rows, the history, every change in words, the student's own records in the raw responses,
    including refused ones, and the known copies. Only its owner can read it. Check it before you hand it over: it names
    the student's teachers, and the accounts that exported records.
    """
    from pipelines.privacy.subject_access.subject import check_out, gather, write

    warehouse, target = place().warehouse_path, target.expanduser()
    check_out(target, replace=replace)
    with machine.translate_errors(warehouse), progress_bars() as bars:
        task = bars.add_task("Searching the landings", total=None)
        found = gather(warehouse, student, lambda done, total: bars.update(task, completed=done, total=total))
    log.note(warehouse, "subject", students=1)
    with machine.translate_errors(target.parent):
        write(found, target, replace=replace)
    rows = sum(len(section.rows) for section in found.sections)
    out.print(f"Wrote {count_of(rows, 'row')} about the student to {safe(str(target))}.")
    for remark in found.remarks:
        out.print(f"- {remark}")


@app.command(rich_help_panel=Panel.PRIVACY)
def access(
    since: Annotated[date | None, typer.Option(parser=parse_day, metavar="DAY", help="From this day (UTC) on.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Show at most this many entries, the newest.")] = 50,
) -> None:
    """Show who read pupils' records through Rollbook, when, how many students, and with which query.

    Queries are logged without their values, so that the log does not become a list of which students were looked up.
    Tools that open the published file directly are not logged. Only the warehouse's owner may read the log.
    """
    found = log.entries(place().warehouse_path, since)
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
