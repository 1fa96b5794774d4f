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
from pipelines.setting_types import engine_name
from pipelines.settings import FLEET, for_all, is_of_all, registry
from pipelines.store.published import fleet_file
from pipelines.text import count_of, listed

if TYPE_CHECKING:
    from pipelines.fleet.file.build import Built
    from pipelines.institutions import Registry

Pseudonymous = Annotated[
    bool, typer.Option("--pseudonymous", help="Query fleet-pseudonymous.duckdb, which has codes instead of names.")
]


def _engine(value: str | None) -> str | None:
    """Validate an engine's name. Raises ArgumentError."""
    try:
        return None if value is None else engine_name(value)
    except ValueError as error:
        raise ArgumentError(f"--engine {error}") from None


EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="E",
        callback=_engine,
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
    found = _build(fleet_registry(), engine)
    _say(fleet_file.FILE, found)
    if found.pseudonymous is not None:
        _say(fleet_file.PSEUDONYMOUS, found.pseudonymous)
    if _warn_missed(found):
        raise typer.Exit(RollbookError.exit_code)


def build_again() -> None:
    """Build the files again after they were removed; a failure is only a warning."""
    try:
        known = registry()
        if known is None:
            return
        found = _build(known)
        _warn_missed(found)
        out.print(f"{fleet_file.FILE} was built again.")
        if found.pseudonymous is not None:
            out.print(f"{fleet_file.PSEUDONYMOUS} was built again.")
    except RollbookError as error:
        err.print(f"[yellow]Warning:[/] {fleet_file.FILE} was not built again: {safe(error.message)}")


@fleet_app.command()
def sql(
    query: Annotated[str, typer.Argument(help="The query; - reads it from standard input.")],
    rows: Annotated[int, typer.Option(min=1, help="How many rows to show at most.")] = 50,
    pseudonymous: Pseudonymous = False,
) -> None:
    """Run one SQL query on fleet.duckdb and print the result as a table. It only reads."""
    fleet_registry()
    show_answer(
        fleet_folder(), _file(pseudonymous=pseudonymous), query, rows, kind=_kind("sql", pseudonymous=pseudonymous)
    )


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
    fleet_registry()
    file, within = _file(pseudonymous=pseudonymous), files.folder(fleet_folder() / fleet_file.BUILD)
    write_export(fleet_folder(), file, question, target, form, within, kind=_kind("export", pseudonymous=pseudonymous))


@fleet_app.command()
def explore(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on this machine.")] = 3001,
) -> None:
    """Show all institutions, and any table of fleet.duckdb, in the browser, until Ctrl-C or SIGTERM. It only reads.

    For one institution's classes and students, run rollbook --institution NAME explore.
    """
    fleet_registry()
    if not is_of_all():
        raise ArgumentError("This is about all institutions: leave out --institution and ROLLBOOK_INSTITUTION")
    if not _file().exists():
        raise NothingLandedError(f"{_file()} does not exist yet: run `rollbook fleet build` first")
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
    from pipelines.fleet import report as reports

    out_file = (target or for_all().common_path / reports.FILE).expanduser()
    if not out_file.parent.is_dir():
        raise ArgumentError(f"{out_file.parent} is not a folder: make it first, or write elsewhere with --out")
    page = reports.write(open_fleet(), out_file)
    out.print(page.verdict)
    out.print(f"Wrote {safe(str(out_file))}.")


def _build(known: Registry, engine: str | None = None) -> Built:
    from pipelines.fleet.file.build import FleetBuild

    settings = for_all()
    return FleetBuild(fleet_folder(), known, engine=engine or settings.fleet_engine, lake=settings.lake).build()


def _say(file: str, found: Built) -> None:
    out.print(
        f"[bold green]Built.[/] {file} holds {count_of(found.institutions, 'institution')} and"
        f" {count_of(found.students, 'student')}, up to {found.newest_day}."
    )
    if none := found.makes_none:
        out.print(f"Not included, for lack of a pseudonymous file: {safe(listed(none))}.")


def _warn_missed(found: Built) -> bool:
    """Warn about institutions that were left out, and files that could not be built; returns whether there were any."""
    left_out = {**found.left_out, **(found.pseudonymous.left_out if found.pseudonymous else {})}
    for name, why in left_out.items():
        err.print(f"[yellow]Warning:[/] {safe(name)} was left out: {safe(why)}.")
    if found.failed:
        err.print(
            f"[yellow]Warning:[/] {fleet_file.PSEUDONYMOUS} was not built: {safe(found.failed)}. Its readers keep the"
            " last one, if there is one."
        )
    if found.not_copied:
        err.print(f"[yellow]Warning:[/] The figures were not copied to ROLLBOOK_LAKE: {safe(found.not_copied)}.")
    return bool(left_out or found.failed or found.not_copied)


def fleet_folder() -> Path:
    """The folder that all institutions share."""
    return for_all().common_path / FLEET


def _kind(command: str, *, pseudonymous: bool) -> str:
    """The kind of a query in the access log."""
    return f"{command} --pseudonymous" if pseudonymous else command


def _file(*, pseudonymous: bool = False) -> Path:
    return for_all().common_path / (fleet_file.PSEUDONYMOUS if pseudonymous else fleet_file.FILE)
