"""`rollbook district`: syncs, checks and manages all institutions of a registry, and queries district.duckdb."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollbook import institutions
from rollbook.errors import ArgumentError, HeldError, RollbookError, SettingError
from rollbook.feature import present
from rollbook.features.district.settings import DistrictSettings
from rollbook.institutions import FILE, Registry
from rollbook.reading.formats import Format, check_target
from rollbook.settings import (
    DISTRICT,
    check_registry,
    check_words,
    common_path,
    for_all,
    is_of_all,
    registry,
    registry_path,
    shared_by_all,
)
from rollbook.store.district import DISTRICT_BUILD
from rollbook.store.published import DISTRICT_FILE, DISTRICT_PSEUDONYMOUS, check_is_there
from rollbook.terminal import (
    LEVELS,
    Panel,
    app,
    err,
    out,
    parse_day,
    print_json,
    progress,
    received,
    safe,
    table,
    without_secrets,
)
from rollbook.terminal.answers import show_answer, write_export
from rollbook.terminal.serving import Browser, stopping_on_signals
from rollbook.util import files
from rollbook.util.text import count_of, listed

if TYPE_CHECKING:
    from rollbook.features.district.build import Difference
    from rollbook.features.district.nights import DistrictStatus, Institutions
    from rollbook.features.district.worker import NightOutcome

# Of more institutions, only institutions that need attention are listed.
LISTED = 30
MARKS = {
    "synced": "[green]synced[/]",
    "held": "[bold yellow]held[/]",
    "late": "[bold yellow]late[/]",
    "failed": "[bold red]failed[/]",
    "paused": "[yellow]paused[/]",
    "never": "[yellow]never[/]",
}

district_app = typer.Typer(help="Work with all institutions of institutions.toml.", no_args_is_help=True)
app.add_typer(district_app, name="district", rich_help_panel=Panel.SEVERAL)

Only = Annotated[
    str | None, typer.Option("--only", metavar="NAMES", help="Only these institutions, separated by commas.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, metavar="N", help="How many run at once; by default two per processor, at most 16."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="An institution in institutions.toml.")]


@district_app.command()
def sync(
    day: Annotated[
        date | None,
        typer.Option(
            "--date",
            parser=parse_day,
            metavar="DAY",
            help="The snapshots' date; by default today in each institution's time zone.",
        ),
    ] = None,
    jobs: Jobs = None,
    only: Only = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask the services even if this day is already synced.")
    ] = False,
) -> None:
    """Sync every institution, a few at a time, each with its own key alone.

    Institutions whose day is already synced are not fetched again, so the next run finishes a killed run. A failure at
    one institution does not affect the others. An institution whose key was refused on three nights in a row is paused;
    every other failure is retried each night.

    Exits 0 when all are synced (or paused), 1 when some failed, 3 when some are held and none failed.
    """
    os.environ.update(without_secrets())  # for this process alone: a worker is given those of its institution
    if day is not None and day > (datetime.now(UTC) + timedelta(hours=14)).date():  # the easternmost zone's
        raise ArgumentError(f"{day:%Y-%m-%d} has not begun anywhere: leave out --date to sync today")
    district = open_district(only, jobs)
    with stopping_on_signals(130), progress() as show:
        done, number = count(1), len(district.institutions)
        outcomes = district.sync(day, fresh=fresh, done=lambda *_: show("institutions", next(done), number))
    _print_outcomes(outcomes)
    counts = Counter(outcome.kind for outcome in outcomes.values())
    raise typer.Exit(1 if counts["failed"] else 3 if counts["held"] else 0)  # type: ignore[index]


@district_app.command()
def status(
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object to standard output, and nothing else.")
    ] = False,
    only: Only = None,
) -> None:
    """Show the last sync of every institution, and which are late, held, failed or paused.

    Nothing is fetched or changed. Always exits 0. With --json, times are UTC, and unknown values are null.
    """
    from rollbook.features.district.nights import load_overview

    status = load_overview(open_district(only))
    if as_json:
        print_json(status)
    else:
        _print_status(status)


@district_app.command()
def watch(only: Only = None) -> None:
    """Alert about institutions whose nightly sync is late, and retry undelivered alerts.

    For cron, where `rollbook serve` does not run. Sends each institution's ROLLBOOK_NOTIFY an alert for a late night,
    and for the first good sync afterwards; institutions with the same addresses share a message. Each institution's
    `cron` says when nights are due. Fetches nothing, and always exits 0.
    """
    late = open_district(only).watch()
    for name, night in late.items():
        out.print(f"{MARKS['late']}    [bold]{name}[/]  the night of {night:%Y-%m-%d %H:%M} was not synced")
    if not late:
        out.print("No institution is newly late.")


@district_app.command()
def check(jobs: Jobs = None, only: Only = None) -> None:
    """Check whether each institution could be synced here and now, and say what to do if not.

    Runs the checks of `rollbook --institution NAME doctor` for each, and shows warnings and failures. Writes nothing.
    Exits 0 when all could be synced, with or without warnings, and 1 otherwise.
    """
    district, failed = open_district(only, jobs), 0
    with stopping_on_signals(130):
        for name, findings in district.check():
            bad = [f for f in findings if f.level != "ok"]
            failed += any(f.level == "failed" for f in bad)
            for finding in bad:
                out.print(f"{LEVELS[finding.level]}  [bold]{name}[/], {finding.what}: {safe(finding.says)}")
            if not bad:
                out.print(f"{LEVELS['ok']}  [bold]{name}[/]")
    if failed:
        err.print(f"[bold red]{count_of(failed, 'institution')} could not be synced:[/] see above.")
        raise typer.Exit(1)
    out.print(f"[bold green]{count_of(len(district.institutions), 'institution')} could be synced.[/]")


@district_app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name here and its folder's, such as linden-vale.")],
    base_url: Annotated[str, typer.Option(metavar="URL", help="The address of its records service, before /svcapi.")],
    key_env: Annotated[str | None, typer.Option(metavar="VAR", help="The environment variable with its key.")] = None,
    key_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The file with its key.")] = None,
    timezone: Annotated[str | None, typer.Option(metavar="ZONE", help="Its time zone, such as Europe/London.")] = None,
) -> None:
    """Add an institution to institutions.toml, which is created if needed. Its comments and order are kept.

    The file never contains the key, only the variable or file that does.
    """
    if (key_env is None) == (key_file is None):
        raise ArgumentError("Say where the key is: either --key-env VAR or --key-file FILE")
    where = {"env": key_env} if key_file is None else {"file": str(Path.cwd() / key_file.expanduser())}
    values = {"base_url": base_url, "api_key": where} | ({"timezone": timezone} if timezone else {})
    path, registered = registry_path(), registry() if registry_path().exists() else None
    if registered is not None and name in registered.institutions:
        raise ArgumentError(f"{path.name} already has an institution {name}: edit its settings there")
    institutions.add(path, name, values, lambda aside: check_registry(aside, path.name, name))
    out.print(
        f"[bold green]Added[/] {name} to {safe(str(path))}. To check its settings: rollbook district check"
        f" --only {name}"
    )


@district_app.command()
def pause(
    name: Name,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown with the institution.")] = "",
) -> None:
    """Do not sync an institution until it is resumed. Its warehouse stays readable."""
    from rollbook.features.district import nights

    if not reason.strip():
        raise ArgumentError('Say why: add --reason "...", which is shown with the institution')
    check_words(reason)
    nights.pause(common_path() / DISTRICT, district_registry()[name].name, reason)
    out.print(f"[bold yellow]Paused[/] {name}. To go on: rollbook district resume {name}")


@district_app.command()
def resume(name: Name) -> None:
    """Sync a paused institution again, whether a person or Rollbook paused it."""
    from rollbook.features.district import nights

    if nights.resume(common_path() / DISTRICT, district_registry()[name].name):
        out.print(f"[bold green]Resumed[/] {name}. To sync it now: rollbook district sync --only {name}")
    else:
        out.print(f"{name} was not paused.")


def district_registry() -> Registry:
    """The registry, with a note if empty. Raises SettingError if there is none."""
    registered = registry()
    if registered is None:
        raise SettingError(
            f"There is no {FILE} at the root, so no district is set up: `rollbook district add --help` says how to make"
            " it; for one school, use the command without `district`"
        )
    if not registered.institutions:
        err.print(
            f"[yellow]Note:[/] {registered.path.name} lists no institution yet: see `rollbook district add --help`"
        )
    return registered


def names_of(only: str | None) -> tuple[str, ...]:
    """The institutions in --only; empty for all. Raises ArgumentError if --only lists none."""
    names = tuple(filter(None, map(str.strip, only.split(",")))) if only is not None else ()
    if only is not None and not names:
        raise ArgumentError("--only is empty: list institutions separated by commas, or leave it out for all")
    return names


def open_district(only: str | None = None, jobs: int | None = None) -> Institutions:
    """The institutions of the registry, or those in --only. Raises SettingError, and ArgumentError as
    `names_of`.
    """
    from rollbook.features.district.nights import Institutions

    return Institutions(district_registry(), names_of(only), jobs)


def _print_outcomes(outcomes: Mapping[str, NightOutcome]) -> None:
    """Print the outcome of each institution; of many, only where something needs attention."""
    shown = {n: o for n, o in outcomes.items() if len(outcomes) <= LISTED or o.kind != "synced"}
    for name, outcome in shown.items():
        refused = f", {count_of(outcome.rejected, 'record')} refused" if outcome.rejected else ""
        fetched = f"{outcome.day}: {received(outcome.received)}{refused}, in {outcome.seconds:.1f} s"
        why = outcome.message
        if outcome.kind == "synced" and not why:
            why = fetched if outcome.fetched else "was already synced, and not fetched again"
        _line(name, str(outcome.kind), why, max(map(len, shown)))
    counts = Counter(str(outcome.kind) for outcome in outcomes.values())
    out.print(f"[bold]{_counted(counts)}[/] of {count_of(len(outcomes), 'institution')}.")


def _line(name: str, mark: str, says: str, width: int) -> None:
    out.print(f"{MARKS[mark]}{' ' * (7 - len(mark))} [bold]{name:<{width}}[/]  {safe(says)}")


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in MARKS if counts.get(kind)) or "none"


def _print_status(status: DistrictStatus) -> None:
    shown = [s for s in status.institutions if len(status.institutions) <= LISTED or not s.is_fine]
    rows = []
    for s in shown:
        last = s.last and (sum(s.last.received.values()), s.last.requests, round(s.last.seconds, 1))
        rows.append((s.institution, s.shown, s.last and s.last.day, s.readers_see, *(last or ("", "", ""))))
    if shown:
        out.print(table("", ("institution", "", "day", "readers see", "records", "requests", "seconds"), rows))
    for s in shown:
        if s.why:
            _line(s.institution, s.shown, s.why, max(len(s.institution) for s in shown))
    out.print(f"[bold]{_counted(status.counts)}[/] of {count_of(len(status.institutions), 'institution')}.")


Pseudonymous = Annotated[
    bool, typer.Option("--pseudonymous", help="Query district-pseudonymous.duckdb, which has codes instead of names.")
]


EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="E",
        help="The engine: duckdb, sail, or a Spark Connect server, sc://host:port (else ROLLBOOK_DISTRICT_ENGINE).",
        show_default=False,
    ),
]


@district_app.command()
def build(engine: EngineOption = None) -> None:
    """Build district.duckdb from what all institutions have published: the same tables and views, side by side.

    The first column of each row is the institution. An institution whose last night was held or failed is included with
    the last published data; see the table `institutions`. If institutions make pseudonymous files, also builds
    district-pseudonymous.duckdb. With an engine, each institution's part is made by a task. Readers keep the last file
    until the new file is complete. Nothing is fetched. Exits 1 when an institution had to be left out, and says which
    and why.
    """
    if not _build(district_registry(), engine):
        raise typer.Exit(RollbookError.exit_code)


def build_again() -> None:
    """Build removed files again; a failure is only a warning."""
    try:
        registered = registry()
        if registered is not None:
            _build(registered)
    except RollbookError as error:
        err.print(f"[yellow]Warning:[/] {DISTRICT_FILE} was not built again: {safe(error.message)}")


@district_app.command()
def sql(
    query: Annotated[str, typer.Argument(help="A view, a table or a query; - reads it from standard input.")],
    rows: Annotated[int, typer.Option(min=1, max=10**6, help="How many rows to show at most.")] = 50,
    pseudonymous: Pseudonymous = False,
) -> None:
    """Run one SQL query on district.duckdb and print the result as a table. It only reads."""
    show_answer(
        district_folder(), _file(pseudonymous), query, rows, kind="sql --pseudonymous" if pseudonymous else "sql"
    )


@district_app.command()
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
    """Write a view, a table or a query's result from district.duckdb to a file: CSV, Excel or Parquet.

    The file may hold pupils' records of all institutions and is readable by the owner only. An erasure does not find
    this file: delete it after use.
    """
    file, within = _file(pseudonymous), files.folder(district_folder() / DISTRICT_BUILD)
    write_export(
        district_folder(),
        file,
        question,
        target,
        form,
        within,
        kind="export --pseudonymous" if pseudonymous else "export",
    )


def explore(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on this machine.")] = 3001,
    browser: Browser = True,
) -> None:
    """Show all institutions, and any table of district.duckdb, in the browser, until Ctrl-C or SIGTERM. It only reads.

    For one institution's classes and students, run rollbook --institution NAME explore.
    """
    without_secrets()
    check_is_there(_file())
    if not is_of_all():
        raise ArgumentError("This is about all institutions: leave out --institution and ROLLBOOK_INSTITUTION")
    from rollbook.features.explore.commands import show_app

    show_app(port, browser=browser)


if any(each.name == "explore" for each in present()):
    district_app.command()(explore)


@district_app.command()
def report(
    target: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="F", help="The file to write; by default district-report.html beside district.duckdb."
        ),
    ] = None,
) -> None:
    """Write a page about all institutions: which are up to date, which are not, and where the contract drifts.

    It names institutions but no pupils.
    """
    from rollbook.features.district import nights

    out_file = (target or for_all().common_path / nights.PAGE).expanduser()
    check_target(out_file)
    out.print(nights.write_page(open_district(), out_file))
    out.print(f"Wrote {safe(str(out_file))}.")


def _build(registered: Registry, engine: str | None = None) -> bool:
    """Build the files, and say what was built and what was not; returns whether nothing was left out."""
    from rollbook.features.district.build import MAKES_NONE
    from rollbook.features.district.build import build as build_files

    built = build_files(district_folder(), registered, engine=engine or shared_by_all(DistrictSettings).district_engine)
    warnings = []
    both = {DISTRICT_FILE: built} | ({DISTRICT_PSEUDONYMOUS: built.pseudonymous} if built.pseudonymous else {})
    for file, result in both.items():
        out.print(
            f"[bold green]Built.[/] {file} holds {count_of(result.institutions, 'institution')} and"
            f" {count_of(result.students, 'student')}, up to {result.newest_day}."
        )
        if none := [name for name, why in result.left_out.items() if why == MAKES_NONE]:
            out.print(f"Not included, for lack of a pseudonymous file: {safe(listed(none))}.")
        warnings += [f"{name} was left out: {why}" for name, why in result.left_out.items() if name not in none]
    if built.failed:
        warnings.append(f"{DISTRICT_PSEUDONYMOUS} was not built: {built.failed}. Its readers keep the last one")
    for warning in warnings:
        err.print(f"[yellow]Warning:[/] {safe(warning.removesuffix('.'))}.")
    return not warnings


def district_folder() -> Path:
    """The folder that all institutions share."""
    return for_all().common_path / DISTRICT


def _file(pseudonymous: bool = False) -> Path:
    """One of the two files. Raises SettingError without a registry."""
    district_registry()
    return for_all().common_path / (DISTRICT_PSEUDONYMOUS if pseudonymous else DISTRICT_FILE)


@district_app.command()
def rebuild(
    engine: EngineOption = None,
    only: Only = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Change nothing: compare with what the institutions have published.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Publish even what would be held.")] = False,
) -> None:
    """Rebuild every institution from what was landed, as `rollbook rebuild` does for a single school.

    For use after a declaration changed, or a disk was lost. Nothing is fetched. Each institution's file is checked and
    published separately; a file that would lose more rows than a sync may remove does not change unless --yes is given.
    With --engine, each institution is a task of Spark. With --verify, each history is computed again from the
    snapshots, and compared. Exits 1 when an institution could not be rebuilt or differs, 3 when a rebuild was held and
    none failed.
    """
    from rollbook.features.district import build as building

    engine = engine or shared_by_all(DistrictSettings).district_engine
    arguments = district_folder(), district_registry(), engine, names_of(only)
    if verify:
        _show(*building.compare_histories(*arguments))
        return
    failed = []
    for name, done in building.rebuild(*arguments, yes=yes):
        if done.error:
            failed.append(done.exit_code)
            err.print(f"[bold red]Not rebuilt:[/] {safe(name)}: {safe(done.error)}")
        else:
            out.print(f"[bold green]Rebuilt[/] {safe(name)}")
    if failed:
        raise typer.Exit(HeldError.exit_code if {*failed} == {HeldError.exit_code} else RollbookError.exit_code)
    out.print("Run `rollbook district build` to update district.duckdb.")


def _show(names: tuple[str, ...], differences: list[Difference], left_out: dict[str, str]) -> None:
    for name, why in left_out.items():
        err.print(f"[yellow]Warning:[/] {safe(name)} was not compared: {safe(why)}.")
    if differences:
        headings = ("institution", "table", "missing rows", "extra rows")
        rows = [(d.institution, d.table, str(d.lacking), str(d.surplus)) for d in differences]
        out.print(table("The published files differ from the snapshots", headings, rows))
        out.print("To publish the history of the snapshots: rollbook district rebuild --only NAME")
    else:
        compared = count_of(len(names), "institution")
        out.print(f"[bold green]Equal.[/] The published files of {compared} match the snapshots.")
    if differences or left_out:
        raise typer.Exit(RollbookError.exit_code)
