"""The analysts' commands: sql, export, docs. None of them fetches anything."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from pipelines import files
from pipelines.cli.app import Panel, app, err, home, out, print_table, safe, table
from pipelines.errors import ArgumentError
from pipelines.export import EXPORTS, Format, check_target, students_in
from pipelines.privacy import access
from pipelines.settings import ROOT, load, place
from pipelines.store.published.versions import PUBLISHED
from pipelines.text import count_of

DICTIONARY = Path("warehouse", "README.md")
# A view or table, not a query.
_NAME = re.compile(r"\w+(\.\w+)?")


@app.command(rich_help_panel=Panel.READ)
def sql(
    query: Annotated[str, typer.Argument(help="The query; - reads it from standard input.")],
    rows: Annotated[int, typer.Option(min=1, help="How many rows to show at most.")] = 50,
) -> None:
    """Run one SQL query on the published file and print the result as a table. It only reads."""
    warehouse = place().warehouse_path
    show_answer(warehouse, warehouse / PUBLISHED, query, rows)


def show_answer(root: Path, file: Path, query: str, rows: int, *, kind: str = "sql") -> None:
    """Run a query on a file and print the result. It is noted in the access log in `root`, as `kind`."""
    from pipelines.export.query import run_query

    text = sys.stdin.read() if query == "-" else query
    with _noted_if_refused(root, kind, text):
        answer = run_query(file, text, most=rows)
    students = students_in(answer.columns, answer.rows) if answer.is_plain else None
    access.note(root, kind, students=students, what=access.without_values(text))
    print_table(table("", answer.columns, answer.rows))
    if answer.more:
        err.print(f"There are more than {rows:,} rows: raise --rows, or write all to a file with `rollbook export`.")


@contextmanager
def _noted_if_refused(warehouse: Path, kind: str, query: str) -> Iterator[None]:
    """Note a query that DuckDB refuses in the access log, too: its error may quote a record."""
    try:
        yield
    except ArgumentError:
        access.note(warehouse, kind, what=access.without_values(query))
        raise


@app.command(rich_help_panel=Panel.READ)
def export(
    question: Annotated[str, typer.Argument(help="A view or table (roster, history.students), or a query in SQL.")],
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
) -> None:
    """Write a view, a table or a query's result to a file for Excel or other tools: CSV, Excel or Parquet.

    The file holds pupils' records and is readable by its owner only. Text that a spreadsheet program would run as a
    formula is escaped.
    """
    from pipelines.store.warehouse import BUILD

    warehouse = place().warehouse_path
    if target is None:
        form = form or Format.CSV
        name = question if _NAME.fullmatch(question) else "query"
        target = files.folder(warehouse / EXPORTS) / f"{name}.{form}"
    write_export(warehouse, warehouse / PUBLISHED, question, target, form, warehouse / BUILD)


def write_export(
    root: Path, file: Path, question: str, target: Path, form: Format | None, within: Path, *, kind: str = "export"
) -> None:
    """Write a query's rows to a file. It is noted in the access log in `root`, as `kind`; `within` is for spilling."""
    from pipelines.export.formats import export as write

    chosen = form or _format_of(target)

    def note(students: int | None) -> None:
        asked = f"FROM {question}" if _NAME.fullmatch(question) else question
        access.note(root, kind, students=students, what=access.without_values(asked))

    with files.aside(within) as scratch, _noted_if_refused(root, kind, question):
        rows = write(file, question, chosen, target.expanduser(), scratch=scratch, before=note)
    out.print(f"Wrote {count_of(rows, 'row')} to {safe(str(target))}.")


def _format_of(target: Path) -> Format:
    """The format of a file's extension; CSV without one. Raises ArgumentError for an unknown extension."""
    extension = target.suffix.removeprefix(".").lower() or Format.CSV
    if extension not in set(Format):
        *most, last = (f".{form}" for form in Format)
        known = f"{', '.join(most)} or {last}"
        raise ArgumentError(f"{target.name} does not end in {known}: rename it, or give the format with --format")
    return Format(extension)


@app.command(rich_help_panel=Panel.READ)
def docs(
    target: Annotated[
        Path | None, typer.Option("--out", metavar="F", help="Where to write it.", show_default=str(DICTIONARY))
    ] = None,
    dbt_folder: Annotated[
        Path | None,
        typer.Option("--dbt", metavar="DIR", help="Write a sources.yml for dbt into this folder, and nothing else."),
    ] = None,
    processing: Annotated[
        bool,
        typer.Option("--processing", help="Write the record of processing to standard output, or into the --out file."),
    ] = False,
) -> None:
    """Write the data dictionary: every table, view, macro and column, and twenty questions with their SQL.

    With --dbt, write the same for dbt: sources with descriptions, data types and tests. With --processing, write the
    record of processing that a data-protection officer keeps: what is held, why, where, how long, and who may read it.
    """
    from pipelines.views import dbt, dictionary

    written = target or ROOT / DICTIONARY
    if dbt_folder is not None:
        if processing or target is not None:
            raise ArgumentError("--dbt writes a file of its own: give it without --out and --processing")
        written = dbt.write(dbt_folder)
    elif processing:
        from pipelines.defs.runs import KEEP_DAYS
        from pipelines.privacy.processing import render

        text = render(load(fetches=False), at=datetime.now(UTC), home=home(), run_days=KEEP_DAYS)
        if target is None:
            sys.stdout.write(text)
            return
        check_target(written)
        files.write(written, text.encode())
    else:
        check_target(written)
        dictionary.write(written)
    out.print(f"Wrote {safe(str(written))}.")
