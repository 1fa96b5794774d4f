"""`rollbook pages`."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollbook.features.pages.paper import A4, Edition, PaperSettings
from rollbook.landing.records import MAX_ID
from rollbook.reading import access as log
from rollbook.settings import load
from rollbook.store.published import EXPORTS, PUBLISHED, check_is_there
from rollbook.terminal import (
    Demo,
    Panel,
    app,
    out,
    parse_day,
    progress,
    safe,
    warehouse_path,
)
from rollbook.util import files
from rollbook.util.text import count_of, listed

if TYPE_CHECKING:
    from rollbook.features.pages.progress import Chosen


@app.command(rich_help_panel=Panel.READ)
def pages(
    student: Annotated[
        int | None, typer.Option(min=1, max=MAX_ID, metavar="ID", help="Only this student's page.")
    ] = None,
    class_id: Annotated[
        int | None,
        typer.Option(
            "--class", min=1, max=MAX_ID, metavar="ID", help="Only this class's page, and its students' pages."
        ),
    ] = None,
    teacher: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_ID, metavar="ID", help="Only this teacher's page, own classes and their students."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="COLUMN=VALUE", help="Only students of whom a list in own/ says so, such as year=10."),
    ] = None,
    since: Annotated[
        date | None,
        typer.Option(
            parser=parse_day, metavar="DAY", help="The charts' first day; by default the first of the present term."
        ),
    ] = None,
    edition: Annotated[
        Edition,
        typer.Option(
            "--for",
            help="For a family: students' pages alone, without who is to watch, ids, averages of classes below ten.",
        ),
    ] = Edition.STAFF,
    pdf: Annotated[bool, typer.Option("--pdf", help="Also print all pages into one PDF; needs Chromium.")] = False,
    demo: Demo = False,
) -> None:
    """Write progress reports: a page for each student, class and teacher, to print or to hand out.

    They are in the warehouse's folder exports/pages/, readable by the owner only; index.html leads to them. A student's
    page names nobody else; a teacher's shows the own classes only. Each use is a line in the access log.
    """
    from rollbook.features.pages.progress import Chosen

    warehouse = warehouse_path(demo=demo)
    paper = PaperSettings.of(load(fetches=False)).paper if pdf else A4
    write_pages(
        warehouse, Chosen(student, class_id, teacher, where), since=since, edition=edition, pdf=pdf, paper=paper
    )


def write_pages(
    warehouse: Path,
    chosen: Chosen,
    *,
    since: date | None,
    pdf: bool,
    edition: Edition = Edition.STAFF,
    paper: str = A4,
) -> None:
    """Write progress reports into the folder of exports, in the place of older ones; noted in the access log."""
    from rollbook.features.pages.progress import INDEX, PRINTED, make
    from rollbook.store.warehouse import BUILD

    published, folder = warehouse / PUBLISHED, warehouse / EXPORTS / "pages"
    check_is_there(published)
    files.sweep_aside(files.folder(folder))
    with files.aside(folder) as scratch:  # on the disk of the folder, so that the pages are moved at once
        own = scratch / "pages"
        with progress() as show:
            made = make(
                *(published, own, chosen),
                since=since, edition=edition, pdf=pdf, paper=paper, scratch=scratch, progress=show,
            )  # fmt: skip
        log.note(warehouse, "pages", students=len(made.students), what=chosen.kind)
        target = folder / edition.folder(chosen.words)
        with files.Lock(files.folder(warehouse / BUILD) / "pages.lock"):
            _replace_pages(target, own)
    kinds = {"teacher": made.teachers, "class": made.classes, "student": len(made.students)}
    out.print(f"Wrote {listed([count_of(count, kind) for kind, count in kinds.items() if count])}.")
    out.print(f"Open {safe(str(target / (PRINTED if pdf else INDEX)))}", soft_wrap=True)


def _replace_pages(target: Path, pages: Path) -> None:
    """Move new pages to `target`. The older ones are removed last, so that a kill leaves them under another name."""
    before = target.with_name(f"{target.name}.before")
    if target.exists():
        shutil.rmtree(before, ignore_errors=True)
        files.move(target, before)
    files.move(pages, target)
    files.sync(target.parent)
    if before.exists():
        shutil.rmtree(before)
