"""`rollbook fleet build`, `sql`, `export`, `explore` and `report`: build and query fleet.duckdb."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines import files
from pipelines.cli.app import err, out, safe
from pipelines.cli.fleet.institutions import fleet_app, fleet_registry, open_fleet
from pipelines.cli.read import show_answer, write_export
from pipelines.cli.serve import show_app
from pipelines.errors import ArgumentError, NothingLandedError, RollbookError
from pipelines.export import Format
from pipelines.settings import FLEET, for_all, is_of_all, registry
from pipelines.store.published import fleet_file
from pipelines.text import count_of, listed

if TYPE_CHECKING:
    from pipelines.institutions import Registry

Pseudonymous = Annotated[
    bool, typer.Option("--pseudonymous", help="Query fleet-pseudonymous.duckdb, which has codes instead of names.")
]


EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="E",
        help="The engine: duckdb, sail, or a Spark Connect server, sc://host:port (else ROLLBOOK_FLEET_ENGINE).",
        show_default=False,
    ),
]


@fleet_app.command()
def build(engine: EngineOption = None) -> None:
    """Build fleet.duckdb from what all institutions have published: the same tables and views, side by side.

    The first column of each row is the institution. An institution whose last night was held or failed is included with
    its last published data; see the table `institutions`. If institutions make pseudonymous files, also builds
    fleet-pseudonymous.duckdb from these. The engine computes the figures by institution. Readers keep the last file
    until the new one is complete. Nothing is fetched. Exits 1 when an institution had to be left out, and says which
    and why.
    """
    if not _build(fleet_registry(), engine):
        raise typer.Exit(RollbookError.exit_code)


def build_again() -> None:
    """Build the files again after they were removed; a failure is only a warning."""
    try:
        known = registry()
        if known is not None:
            _build(known)
    except RollbookError as error:
        err.print(f"[yellow]Warning:[/] {fleet_file.FILE} was not built again: {safe(error.message)}")


@fleet_app.command()
def sql(
    query: Annotated[str, typer.Argument(help="The query; - reads it from standard input.")],
    rows: Annotated[int, typer.Option(min=1, help="How many rows to show at most.")] = 50,
    pseudonymous: Pseudonymous = False,
) -> None:
    """Run one SQL query on fleet.duckdb and print the result as a table. It only reads."""
    show_answer(fleet_folder(), _file(pseudonymous), query, rows, kind=_kind("sql", pseudonymous))


@fleet_app.command()
def export(
    question: Annotated[str, typer.Argument(help="A view or table (roster, institutions_daily), or a query in SQL.")],
    target: Annotated[
        Path,
        typer.Option("--out", metavar="F", help="The file to write; an older one is replaced.", show_default=False),
    ],
    form: Annotated[
        Format | None, typer.Option("--format", help="By default the ending of the file's name, else csv.")
    ] = None,
    pseudonymous: Pseudonymous = False,
) -> None:
    """Write a view, a table or a query's result from fleet.duckdb to a file: CSV, Excel or Parquet.

    The file may hold pupils' records of all institutions and is readable by its owner only. An erasure does not find
    it: delete it when it is no longer needed.
    """
    file, within = _file(pseudonymous), files.folder(fleet_folder() / fleet_file.BUILD)
    write_export(fleet_folder(), file, question, target, form, within, kind=_kind("export", pseudonymous))


@fleet_app.command()
def explore(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on this machine.")] = 3001,
) -> None:
    """Show all institutions, and any table of fleet.duckdb, in the browser, until Ctrl-C or SIGTERM. It only reads.

    For one institution's classes and students, run rollbook --institution NAME explore.
    """
    if not _file().exists():
        raise NothingLandedError(f"{_file()} does not exist yet: run `rollbook fleet build` first")
    if not is_of_all():
        raise ArgumentError("This is about all institutions: leave out --institution and ROLLBOOK_INSTITUTION")
    show_app(port)


@fleet_app.command()
def report(
    target: Annotated[
        Path | None,
        typer.Option("--out", metavar="F", help="The file to write; by default fleet-report.html beside fleet.duckdb."),
    ] = None,
) -> None:
    """Write a page about all institutions: which are up to date, which are not, and where the contract drifts.

    It names institutions but no pupils.
    """
    from pipelines.fleet import overview

    out_file = (target or for_all().common_path / overview.FILE).expanduser()
    if not out_file.parent.is_dir():
        raise ArgumentError(f"{out_file.parent} is not a folder: make it first, or write elsewhere with --out")
    out.print(overview.write(open_fleet(), out_file))
    out.print(f"Wrote {safe(str(out_file))}.")


def _build(known: Registry, engine: str | None = None) -> bool:
    """Build the files, and say what was built and what was not; returns whether nothing was left out."""
    from pipelines.fleet.build import MAKES_NONE
    from pipelines.fleet.build import build as build_files

    settings = for_all()
    built = build_files(fleet_folder(), known, engine=engine or settings.fleet_engine, lake=settings.lake)
    warnings = []
    for file, found in ((fleet_file.FILE, built), (fleet_file.PSEUDONYMOUS, built.pseudonymous)):
        if found is None:
            continue
        out.print(
            f"[bold green]Built.[/] {file} holds {count_of(found.institutions, 'institution')} and"
            f" {count_of(found.students, 'student')}, up to {found.newest_day}."
        )
        if none := [name for name, why in found.left_out.items() if why == MAKES_NONE]:
            out.print(f"Not included, for lack of a pseudonymous file: {safe(listed(none))}.")
        warnings += [f"{name} was left out: {why}" for name, why in found.left_out.items() if name not in none]
    if built.failed:
        warnings.append(f"{fleet_file.PSEUDONYMOUS} was not built: {built.failed}. Its readers keep the last one")
    if built.not_copied:
        warnings.append(f"The figures were not copied to ROLLBOOK_LAKE: {built.not_copied}")
    for warning in warnings:
        err.print(f"[yellow]Warning:[/] {safe(warning.removesuffix('.'))}.")
    return not warnings


def fleet_folder() -> Path:
    """The folder that all institutions share."""
    return for_all().common_path / FLEET


def _kind(command: str, pseudonymous: bool) -> str:
    """The kind of a query in the access log."""
    return f"{command} --pseudonymous" if pseudonymous else command


def _file(pseudonymous: bool = False) -> Path:
    """One of the two files. Raises SettingError without a registry."""
    fleet_registry()
    return for_all().common_path / (fleet_file.PSEUDONYMOUS if pseudonymous else fleet_file.FILE)
