"""The commands for those who read: sql, export, restore, docs. They need no key, and none of them fetches."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pipelines import files
from pipelines.cli.app import Terminal, app, err, out, safe, table
from pipelines.errors import ArgumentError
from pipelines.export.formats import Format
from pipelines.export.query import Answer, run_query
from pipelines.settings import ROOT, load, place
from pipelines.store.warehouse import BUILD, PUBLISHED

NEWEST = "SELECT MAX(snapshot_date) FROM spans.days"


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    rows: Annotated[int, typer.Option(min=1, help="How many rows to show at most.")] = 50,
) -> None:
    """Ask the published file one question in SQL and print the answer as a table. It only reads."""
    asked = sys.stdin.read() if query == "-" else query
    answer = run_query(place().warehouse_path / PUBLISHED, asked, most=rows)
    _print(answer)
    if answer.more:
        err.print(f"There are more than {rows:,} rows: ask with --rows, or write all to a file with `rollbook export`.")


def _print(answer: Answer) -> None:
    """A table where it fits; else each row upright, a column a line. Into a pipe, as wide as it needs."""
    shown: Table = table("", answer.columns, answer.rows)
    if not out.is_terminal:
        Terminal(file=sys.stdout, width=10_000).print(shown)
    elif out.measure(shown).maximum <= out.width or len(answer.rows) > 20:
        out.print(shown)
    else:
        for number, row in enumerate(answer.rows, start=1):
            out.print(table(f"row {number}", ("column", "value"), zip(answer.columns, row, strict=True)))


@app.command()
def export(
    question: Annotated[str, typer.Argument(help="A view or table (roster, history.students), or a query in SQL.")],
    target: Annotated[Path, typer.Option("--out", metavar="F", help="The file to write; an older one is replaced.")],
    form: Annotated[
        Format | None, typer.Option("--format", help="By default what the file's name ends with, else csv.")
    ] = None,
) -> None:
    """Write the answer to a question into a file for Excel or other tools: CSV, Excel or Parquet.

    The file holds pupils' records and is readable by its owner only. Text that a spreadsheet program would run as a
    formula is disarmed.
    """
    from pipelines.export.formats import export as write

    chosen = form or _by_name(target)
    warehouse = place().warehouse_path
    with files.aside(warehouse / BUILD) as scratch:
        rows = write(warehouse / PUBLISHED, question, chosen, target.expanduser(), scratch=scratch)
    out.print(f"Wrote {rows:,} rows to {safe(str(target))}.")


def _by_name(target: Path) -> Format:
    ending = target.suffix.removeprefix(".").lower()
    return Format(ending) if ending in set(Format) else Format.CSV


@app.command()
def restore(
    which: Annotated[
        str | None, typer.Argument(help="Which to put back: its number in the list, or its name. Without: the list.")
    ] = None,
) -> None:
    """List the published files that are kept, or put one of them back in the place of the present one.

    Readers who have a file open keep it. Nothing is lost: the present file is kept, and the next sync brings what was
    put back up to date by itself.
    """
    from pipelines.sync import Rollbook

    rollbook = Rollbook(load())
    kept = rollbook.warehouse.kept()
    if which is None:
        _list(rollbook.warehouse.published, kept)
        return
    chosen = _chosen(which, kept)
    rollbook.restore(chosen)
    out.print(f"Put back {chosen.stem}; it holds the nights up to {_newest(rollbook.warehouse.published)}.")
    out.print("The file it replaced is kept. The next sync brings it up to date by itself.")


def _list(published: Path, kept: Iterable[Path]) -> None:
    listed = [("now", published), *((str(n), path) for n, path in enumerate(kept, start=1))]
    rows = (
        (
            number,
            path.stem if number != "now" else path.name,
            _newest(path),
            f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d %H:%M}",
            f"{path.stat().st_size / 1e6:.1f}",
        )
        for number, path in listed
        if path.exists()
    )
    out.print(table("Published files", ("", "name", "up to the night of", "made (UTC)", "MB"), rows))
    out.print("Put one back with `rollbook restore NUMBER`.")


def _newest(path: Path) -> str:
    return str(run_query(path, NEWEST).rows[0][0])


def _chosen(which: str, kept: list[Path]) -> Path:
    by_name = {str(n): path for n, path in enumerate(kept, start=1)} | {path.stem: path for path in kept}
    if which.removesuffix(".duckdb") not in by_name:
        there = f"choose 1 to {len(kept)}, as `rollbook restore` lists them" if kept else "none is kept yet"
        raise ArgumentError(f"There is no kept file {which!r}: {there}")
    return by_name[which.removesuffix(".duckdb")]


@app.command()
def docs(
    target: Annotated[Path, typer.Option("--out", metavar="F", help="Where to write it.")] = ROOT
    / "warehouse"
    / "README.md",
) -> None:
    """Write the data dictionary: every table, view, macro and column, and twenty questions with their SQL."""
    from pipelines.views import dictionary

    if not target.parent.is_dir():
        raise ArgumentError(f"{target.parent} is no folder: make it first, or write elsewhere with --out")
    dictionary.write(target)
    out.print(f"Wrote {safe(str(target))}.")
