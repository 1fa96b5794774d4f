"""`rollbook fleet`: syncs, checks and manages all institutions of a registry."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines import institutions
from pipelines.cli.app import Panel, app, err, out, parse_day, progress, received, safe, table
from pipelines.cli.serve import stopping_on_signals
from pipelines.errors import ArgumentError, SettingError
from pipelines.institutions import FILE, Registry
from pipelines.settings import FLEET, check_registry, common_path, registry, registry_path
from pipelines.text import count_of, printable

if TYPE_CHECKING:
    from pipelines.fleet.nights import Fleet
    from pipelines.fleet.outcomes import Outcome
    from pipelines.fleet.overview import FleetStatus

EASTERNMOST = timedelta(hours=14)  # ahead of UTC
# Of more institutions than this, only those that need attention are listed.
LISTED = 30
MARKS = {
    "synced": "[green]synced[/]",
    "held": "[bold yellow]held[/]",
    "late": "[bold yellow]late[/]",
    "failed": "[bold red]failed[/]",
    "paused": "[yellow]paused[/]",
    "never": "[yellow]never[/]",
}
LEVELS = {"warning": "[yellow]warning[/]", "failed": "[bold red]failed[/]"}

fleet_app = typer.Typer(help="Work with all institutions of institutions.toml.", no_args_is_help=True)
app.add_typer(fleet_app, name="fleet", rich_help_panel=Panel.SEVERAL)

Only = Annotated[
    str | None, typer.Option("--only", metavar="NAMES", help="Only these institutions, separated by commas.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, metavar="N", help="How many run at once; by default two per processor, at most 16."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="An institution in institutions.toml.")]


@fleet_app.command()
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
    """Sync every institution, each in a process of its own.

    Institutions whose day is already synced are not fetched again, so the next run finishes one that was killed. A
    failure at one institution does not affect the others. An institution whose key was refused on three nights in a row
    is paused; every other failure is retried each night.

    Exits 0 when all are synced (or paused), 1 when some failed, 3 when some are held and none failed.
    """
    if day is not None and day > (datetime.now(UTC) + EASTERNMOST).date():
        raise ArgumentError(f"{day:%Y-%m-%d} has not begun anywhere: leave out --date to sync today")
    fleet = open_fleet(only, jobs)
    with stopping_on_signals(130), progress() as show:
        done, number = count(1), len(fleet.institutions)
        found = fleet.sync(day, fresh=fresh, done=lambda *_: show("institutions", next(done), number))
    _print_outcomes(found)
    counts = Counter(outcome.kind for outcome in found.values())
    raise typer.Exit(1 if counts["failed"] else 3 if counts["held"] else 0)  # type: ignore[index]


@fleet_app.command()
def status(
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object to standard output, and nothing else.")
    ] = False,
    prometheus: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write metrics for Prometheus' node exporter to this file (*.prom)."),
    ] = None,
    only: Only = None,
) -> None:
    """Show the last sync of every institution, and which are late, held, failed or paused.

    Nothing is fetched or changed. Always exits 0. With --json, times are UTC, and unknown values are null.
    """
    import msgspec

    from pipelines.fleet.overview import load_overview, write_prometheus

    known = load_overview(open_fleet(only))
    if prometheus is not None:
        write_prometheus(prometheus, known)
    if as_json:
        text = msgspec.json.format(msgspec.json.encode(known), indent=2).decode()
        sys.stdout.write(printable(text, lines=True) + "\n")
    elif prometheus is None:
        _print_status(known)


@fleet_app.command()
def watch(only: Only = None) -> None:
    """Alert about institutions whose nightly sync is late, and retry undelivered alerts.

    For cron, where `rollbook serve` does not run. Sends each institution's ROLLBOOK_NOTIFY one alert for a late night,
    and one for the first good sync after it; institutions with the same addresses share a message. Each institution's
    `cron` says when its nights are due. Fetches nothing, and always exits 0.
    """
    fleet = open_fleet(only)
    late = fleet.watch()
    for name, night in late.items():
        out.print(f"{MARKS['late']}    [bold]{name}[/]  the night of {night:%Y-%m-%d %H:%M} was not synced")
    if not late:
        out.print("No institution is newly late.")


@fleet_app.command()
def check(jobs: Jobs = None, only: Only = None) -> None:
    """Check whether each institution could be synced here and now, and say what to do if not.

    Runs the checks of `rollbook --institution NAME doctor` for each, and shows warnings and failures. Writes nothing.
    Exits 0 when all could be synced, with or without warnings, and 1 when one could not.
    """
    fleet, failed = open_fleet(only, jobs), 0
    with stopping_on_signals(130):
        for name, findings in fleet.check():
            bad = [f for f in findings if f.level in LEVELS]
            failed += any(f.level == "failed" for f in bad)
            for finding in bad:
                out.print(f"{LEVELS[finding.level]:>8}  [bold]{name}[/], {finding.what}: {safe(finding.says)}")
            if not bad:
                out.print(f"[green]{'ok':>8}[/]  [bold]{name}[/]")
    if failed:
        err.print(f"[bold red]{count_of(failed, 'institution')} could not be synced:[/] see above.")
        raise typer.Exit(1)
    out.print(f"[bold green]{count_of(len(fleet.institutions), 'institution')} could be synced.[/]")


@fleet_app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name here and its folder's, such as linden-vale.")],
    base_url: Annotated[str, typer.Option(metavar="URL", help="The address of its records service, before /svcapi.")],
    key_env: Annotated[str | None, typer.Option(metavar="VAR", help="The environment variable with its key.")] = None,
    key_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The file with its key.")] = None,
    timezone: Annotated[str | None, typer.Option(metavar="ZONE", help="Its time zone, such as Europe/London.")] = None,
) -> None:
    """Add an institution to institutions.toml, which is created if needed. Its comments and order are kept.

    The file never contains the key itself, only the variable or file that holds it.
    """
    if (key_env is None) == (key_file is None):
        raise ArgumentError("Say where the key is: either --key-env VAR or --key-file FILE")
    where = {"env": key_env} if key_file is None else {"file": str(Path.cwd() / key_file.expanduser())}
    values = {"base_url": base_url, "api_key": where} | ({"timezone": timezone} if timezone else {})
    path, known = registry_path(), registry() if registry_path().exists() else None
    if known is not None and name in known.institutions:
        raise ArgumentError(f"{path.name} already has an institution {name}: edit its settings there")
    institutions.add(path, name, values, lambda aside: check_registry(aside, path.name, name))
    out.print(
        f"[bold green]Added[/] {name} to {safe(str(path))}. To check its settings: rollbook fleet check --only {name}"
    )


@fleet_app.command()
def pause(
    name: Name,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown with the institution.")] = "",
) -> None:
    """Do not sync an institution until it is resumed. Its warehouse stays readable."""
    from pipelines.fleet import outcomes

    if not reason.strip():
        raise ArgumentError('Say why: add --reason "...", which is shown with the institution')
    outcomes.pause(common_path() / FLEET, fleet_registry()[name].name, reason)
    out.print(f"[bold yellow]Paused[/] {name}. To go on: rollbook fleet resume {name}")


@fleet_app.command()
def resume(name: Name) -> None:
    """Sync a paused institution again, whether a person or Rollbook paused it."""
    from pipelines.fleet import outcomes

    if outcomes.resume(common_path() / FLEET, fleet_registry()[name].name):
        out.print(f"[bold green]Resumed[/] {name}. To sync it now: rollbook fleet sync --only {name}")
    else:
        out.print(f"{name} was not paused.")


def fleet_registry() -> Registry:
    """The registry, with a note if it is empty. Raises SettingError if there is none."""
    known = registry()
    if known is None:
        raise SettingError(
            f"There is no {FILE} at the root, so there is no fleet: `rollbook fleet add --help` says how to make it;"
            " for one school, use the command without `fleet`"
        )
    if not known.institutions:
        err.print(f"[yellow]Note:[/] {known.path.name} lists no institution yet: see `rollbook fleet add --help`")
    return known


def names_of(only: str | None) -> tuple[str, ...]:
    """The institutions in --only; empty without it, for all. Raises ArgumentError if --only lists none."""
    names = tuple(filter(None, map(str.strip, only.split(",")))) if only is not None else ()
    if only is not None and not names:
        raise ArgumentError("--only is empty: list institutions separated by commas, or leave it out for all")
    return names


def open_fleet(only: str | None = None, jobs: int | None = None) -> Fleet:
    """The institutions of the registry, or those in --only. Raises SettingError, and ArgumentError as `names_of`."""
    from pipelines.fleet.nights import Fleet

    return Fleet(fleet_registry(), names_of(only), jobs)


def _print_outcomes(found: Mapping[str, Outcome]) -> None:
    """Print the outcome of each institution; of many, only of those that need attention."""
    shown = {n: o for n, o in found.items() if len(found) <= LISTED or o.kind != "synced"}
    for name, outcome in shown.items():
        why = outcome.message
        if outcome.kind == "synced" and not why:
            why = "was already synced, and not fetched again" if not outcome.asked else _in_short(outcome)
        _line(name, str(outcome.kind), why, max(map(len, shown)))
    counts = Counter(str(outcome.kind) for outcome in found.values())
    seconds = sum(outcome.seconds for outcome in found.values())
    asked = sum(outcome.requests for outcome in found.values())
    work = f"{count_of(asked, 'request')}, {seconds:.0f} s of work"
    out.print(f"[bold]{_counted(counts)}[/] of {count_of(len(found), 'institution')}; {work}.")


def _in_short(outcome: Outcome) -> str:
    refused = f", {count_of(outcome.rejected, 'record')} refused" if outcome.rejected else ""
    return f"{outcome.day}: {received(outcome.received)}{refused}, in {outcome.seconds:.1f} s"


def _line(name: str, mark: str, says: str, width: int) -> None:
    padding = " " * (7 - len(mark))
    out.print(f"{MARKS[mark]}{padding} [bold]{name:<{width}}[/]  {safe(says)}")


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in MARKS if counts.get(kind)) or "none"


def _print_status(known: FleetStatus) -> None:
    shown = [s for s in known.institutions if len(known.institutions) <= LISTED or not s.is_fine]
    columns = ("institution", "", "day", "since", "readers see", "records", "requests", "seconds")
    rows = []
    for s in shown:
        since = f"{s.since.astimezone(UTC):%Y-%m-%d}" if s.since else ""
        last = s.last and (sum(s.last.received.values()), s.last.requests, s.last.seconds)
        rows.append((s.institution, s.shown, s.last and s.last.day, since, s.readers_see, *(last or ("", "", ""))))
    if shown:
        out.print(table("", columns, rows))
    for s in shown:
        if s.why:
            _line(s.institution, s.shown, s.why, max(len(s.institution) for s in shown))
    out.print(f"[bold]{_counted(known.counts)}[/] of {count_of(len(known.institutions), 'institution')}.")
