"""`rollbook fleet build`, `sql`, `export`, `explore`, `report` and `forget`: one place to ask about all."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines import files
from pipelines.cli.app import err, out, safe
from pipelines.cli.explore import show_app
from pipelines.cli.fleet import fleet_app
from pipelines.cli.read import show_answer, write_export
from pipelines.errors import ArgumentError, NothingLandedError, RollbookError, SettingError
from pipelines.export import Format
from pipelines.setting_types import engine_name
from pipelines.settings import FLEET, for_all, is_of_all, registry
from pipelines.store import fleet_file
from pipelines.text import count_of, listed

if TYPE_CHECKING:
    from pipelines.fleet.file.build import Built
    from pipelines.institutions import Registry

Pseudonymous = Annotated[
    bool, typer.Option("--pseudonymous", help="Ask fleet-pseudonymous.duckdb, which has codes and no names.")
]


def _engine(value: str | None) -> str | None:
    """The engine that was named. Raises ArgumentError."""
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
        help="What computes: duckdb, sail, or a Spark Connect server, sc://host:port (else ROLLBOOK_FLEET_ENGINE).",
        show_default=False,
    ),
]


@fleet_app.command()
def build(engine: EngineOption = None) -> None:
    """Make fleet.duckdb of what all institutions have published: the same tables and views, side by side.

    Each row has its institution in the first column. An institution whose last night was held or failed stands there
    with what it published last; see the table `institutions`. Where institutions make pseudonymous files, makes
    fleet-pseudonymous.duckdb of these as well. The engine computes the figures by institution. Until a new file is
    whole, readers have the last one. Nothing is fetched. Exits 1 when an institution had to be left out, and says which
    and why.
    """
    found = _build(fleet_registry(), engine)
    _say(fleet_file.FILE, found)
    if found.pseudonymous is not None:
        _say(fleet_file.PSEUDONYMOUS, found.pseudonymous)
    if _say_missed(found):
        raise typer.Exit(RollbookError.exit_code)


def build_again() -> None:
    """Make the files again after they were removed; a failure is said, and the command goes on."""
    try:
        known = registry()
        if known is None:
            return
        found = _build(known)
        _say_missed(found)
        out.print(f"{fleet_file.FILE} was made again.")
        if found.pseudonymous is not None:
            out.print(f"{fleet_file.PSEUDONYMOUS} was made again.")
    except RollbookError as error:
        err.print(f"[yellow]Warning:[/] {fleet_file.FILE} was not made again: {safe(error.message)}")


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
    it: keep it no longer than it is needed.
    """
    fleet_registry()
    file, within = _file(pseudonymous=pseudonymous), files.folder(fleet_folder() / fleet_file.BUILD)
    write_export(fleet_folder(), file, question, target, form, within, kind=_kind("export", pseudonymous=pseudonymous))


@fleet_app.command()
def explore(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on this machine.")] = 3001,
    edit: Annotated[
        bool, typer.Option("--edit", help="Open your own copy of it in this folder as a notebook, to change it.")
    ] = False,
) -> None:
    """Show all institutions, and any table of fleet.duckdb, in the browser, until Ctrl-C or SIGTERM. It only reads.

    One institution's classes and students: rollbook --institution NAME explore.
    """
    fleet_registry()
    if not is_of_all():
        raise ArgumentError("This is about all institutions: leave out --institution and ROLLBOOK_INSTITUTION")
    if not _file().exists():
        raise NothingLandedError(f"{_file()} does not exist yet: run `rollbook fleet build` first")
    show_app(port, edit=edit)


@fleet_app.command()
def report(
    target: Annotated[
        Path | None,
        typer.Option("--out", metavar="F", help="The file to write; by default fleet-report.html beside fleet.duckdb."),
    ] = None,
) -> None:
    """Write a page about all institutions: who is up to date and who is not, and where the contract drifts.

    It names institutions and no pupils.
    """
    from pipelines.fleet import report as reports

    out_file = (target or for_all().common_path / reports.FILE).expanduser()
    if not out_file.parent.is_dir():
        raise ArgumentError(f"{out_file.parent} is not a folder: make it first, or write elsewhere with --out")
    page = reports.write(fleet_folder(), fleet_registry(), out_file, datetime.now(UTC))
    out.print(page.verdict)
    out.print(f"Wrote {safe(str(out_file))}.")


@fleet_app.command()
def forget(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An institution that is no longer in the registry.")],
) -> None:
    """Remove what an institution that left the registry gave the fleet; its own folder stays.

    The next `rollbook fleet build` makes the file without it.
    """
    from pipelines.store import parts

    if name in fleet_registry().institutions:
        raise ArgumentError(f"{name} is in the registry: take it out of institutions.toml first, or pause it")
    if not parts.forget(fleet_folder(), name):
        raise ArgumentError(f"Nothing of {name} is here: `rollbook fleet sql 'FROM institutions'` lists who is")
    out.print(f"Removed what {safe(name)} gave the fleet. Run `rollbook fleet build` to make the file without it.")


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
        out.print(f"Without a pseudonymous file, and so not in it: {safe(listed(none))}.")


def _say_missed(found: Built) -> bool:
    """Say who had to be left out, and what could not be made; returns whether there was anything to say."""
    left_out = {**found.left_out, **(found.pseudonymous.left_out if found.pseudonymous else {})}
    for name, why in left_out.items():
        err.print(f"[yellow]Warning:[/] {safe(name)} was left out: {safe(why)}.")
    if found.failed:
        err.print(
            f"[yellow]Warning:[/] {fleet_file.PSEUDONYMOUS} was not made: {safe(found.failed)}. Its readers keep the"
            " one before, if there is one."
        )
    if found.not_copied:
        err.print(f"[yellow]Warning:[/] The figures were not copied to ROLLBOOK_LAKE: {safe(found.not_copied)}.")
    return bool(left_out or found.failed or found.not_copied)


def fleet_registry() -> Registry:
    """The registry. Raises SettingError without one."""
    known = registry()
    if known is None:
        raise SettingError(
            "There is no institutions.toml at the root, so there is no fleet: for one school, use the command without"
            " `fleet`"
        )
    return known


def fleet_folder() -> Path:
    """The folder of what all institutions share."""
    return for_all().common_path / FLEET


def _kind(command: str, *, pseudonymous: bool) -> str:
    """What the access log calls a reading."""
    return f"{command} --pseudonymous" if pseudonymous else command


def _file(*, pseudonymous: bool = False) -> Path:
    return for_all().common_path / (fleet_file.PSEUDONYMOUS if pseudonymous else fleet_file.FILE)
