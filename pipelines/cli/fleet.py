"""`rollbook fleet`: what is done with all institutions of a registry, and what is known of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.app import app, day_of, err, out, progress_bars, safe, table
from pipelines.cli.serve import stopping_on_signals
from pipelines.errors import ArgumentError, SettingError
from pipelines.institutions import FILE, Registry
from pipelines.settings import ROOT, common_path, registry
from pipelines.text import count_of, printable

if TYPE_CHECKING:
    from pipelines.fleet.nights.outcomes import Outcome
    from pipelines.fleet.nights.runner import Fleet
    from pipelines.fleet.overview import FleetStatus, InstitutionStatus

# No zone's day begins earlier than this before UTC's.
EASTERNMOST = timedelta(hours=14)
# With more institutions than these, only those are listed that somebody should look at.
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

fleet_app = typer.Typer(help="Many institutions in one place: those of institutions.toml.", no_args_is_help=True)
app.add_typer(fleet_app, name="fleet")

Only = Annotated[
    str | None, typer.Option("--only", metavar="NAMES", help="Only these institutions, with commas between.")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", min=1, metavar="N", help="How many at a time; by default twice the processors, at most 16."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="An institution of institutions.toml.")]


@fleet_app.command()
def sync(
    day: Annotated[
        datetime | None,
        typer.Option(
            "--date", formats=["%Y-%m-%d"], metavar="DAY", help="The snapshots' date; by default each one's today."
        ),
    ] = None,
    jobs: Jobs = None,
    only: Only = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask the services even where this day was synced already.")
    ] = False,
) -> None:
    """Run the night of every institution, each for itself, in a process of its own.

    One whose day was synced already is not fetched again: a run that was killed is finished by the next one. Whatever
    goes wrong at one institution costs the others nothing. One whose key was refused on three nights in a row is
    paused; everything else is tried again each night.

    Exits 0 when all are synced (or paused), 1 when some failed, 3 when some are held and none failed.
    """
    if day is not None and day.date() > (datetime.now(UTC) + EASTERNMOST).date():
        raise ArgumentError(f"{day:%Y-%m-%d} has not begun anywhere: leave --date out for each one's today")
    fleet = _fleet(only, jobs)
    with stopping_on_signals(130), _progress("institutions", len(fleet.institutions)) as advance:
        found = fleet.sync(day_of(day), fresh=fresh, done=lambda *_: advance())
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
        typer.Option(metavar="FILE", help="Write the figures that a node exporter collects to this file (*.prom)."),
    ] = None,
    only: Only = None,
) -> None:
    """Show what came of the last sync of every institution, and who is late, held, failed or paused.

    Nothing is fetched or changed. Exits 0 whatever it finds. With --json, times are UTC, and what is not known is null.
    """
    import msgspec

    from pipelines.fleet import prometheus as metrics
    from pipelines.fleet.overview import load_overview

    known = load_overview(_fleet(only))
    if prometheus is not None:
        metrics.write(prometheus, known)
    if as_json:
        text = msgspec.json.format(msgspec.json.encode(known), indent=2).decode()
        sys.stdout.write(printable(text, lines=True) + "\n")
    elif prometheus is None:
        _print_status(known)


@fleet_app.command()
def watch(only: Only = None) -> None:
    """Tell of each institution whose night did not happen, and send again what could not be delivered.

    For cron, where `rollbook serve` does not run. Each institution's ROLLBOOK_NOTIFY is told once of a night, and once
    of the first good sync after it; those with the same addresses share a message. When a night should have been is
    each institution's `cron`. Fetches nothing, and exits 0 whatever it finds.
    """
    fleet = _fleet(only)
    late = fleet.watch()
    for name, night in late.items():
        out.print(f"{MARKS['late']}    [bold]{name}[/]  the night of {night:%Y-%m-%d %H:%M} was not synced")
    if not late:
        out.print("Nobody is late who was not told of already.")


@fleet_app.command()
def check(jobs: Jobs = None, only: Only = None) -> None:
    """Check whether each institution could be synced here and now, and say what to do where not.

    Does for each what `rollbook --institution NAME doctor` does, and shows what is not in order. Writes nothing.
    Exits 0 when all could be synced, warnings or not, and 1 when one could not.
    """
    fleet, failed = _fleet(only, jobs), 0
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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name here, and that of its folder: linden-vale.")],
    base_url: Annotated[str, typer.Option(metavar="URL", help="The address of its records service, before /svcapi.")],
    key_env: Annotated[str | None, typer.Option(metavar="VAR", help="The variable that holds its key.")] = None,
    key_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The file that holds its key.")] = None,
    timezone: Annotated[str | None, typer.Option(metavar="ZONE", help="Its time zone: Europe/London.")] = None,
) -> None:
    """Add an institution to institutions.toml; the first one makes the file. Comments and order in it stay.

    The key itself never stands there: say which variable or file holds it.
    """
    from pipelines.fleet import edit

    if (key_env is None) == (key_file is None):
        raise ArgumentError("Say where the key is: --key-env NAME for a variable, or --key-file FILE; one of the two")
    where = {"env": key_env} if key_file is None else {"file": _from_root(key_file)}
    values: dict[str, object] = {"base_url": base_url, "api_key": where}
    path = edit.add(name, values | ({"timezone": timezone} if timezone else {}))
    out.print(
        f"[bold green]Added[/] {name} to {safe(str(path))}. To see whether it works: rollbook fleet check --only {name}"
    )
    if (common_path() / "raw").is_dir():
        err.print(
            f"[yellow]Note:[/] {safe(str(common_path()))} holds the warehouse of a single school. To go on with it as"
            f" {name}, stop Rollbook and move what is in it into a folder {name} there."
        )


@fleet_app.command()
def pause(
    name: Name,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown with the institution.")] = "",
) -> None:
    """Leave an institution out of the nights until it is resumed. Its warehouse stays readable."""
    from pipelines.fleet import edit

    edit.pause(_registry(), name, reason)
    out.print(f"[bold yellow]Paused[/] {name}. To go on: rollbook fleet resume {name}")


@fleet_app.command()
def resume(name: Name) -> None:
    """Let a paused institution take part in the nights again, whether a person or Rollbook paused it."""
    from pipelines.fleet import edit

    if edit.resume(_registry(), name):
        out.print(f"[bold green]Resumed[/] {name}. To sync it now: rollbook fleet sync --only {name}")
    else:
        out.print(f"{name} was not paused.")


def _from_root(path: Path) -> str:
    """A path that was typed in this folder, for the registry, where relative ones start at the root."""
    return str(path if Path.cwd() == ROOT else Path.cwd() / path.expanduser())


def _registry() -> Registry:
    """The registry. Raises SettingError where there is none."""
    known = registry()
    if known is None:
        raise SettingError(
            f"There is no {FILE} at the root, so there are no institutions but one: `rollbook fleet add --help` says"
            " how to make it"
        )
    if not known.institutions:
        err.print(f"[yellow]Note:[/] {known.path.name} lists nobody yet: see `rollbook fleet add --help`")
    return known


def names_of(only: str | None) -> tuple[str, ...]:
    """The institutions that --only names; none for all of them. Raises ArgumentError when it names nobody."""
    names = tuple(filter(None, map(str.strip, only.split(",")))) if only is not None else ()
    if only is not None and not names:
        raise ArgumentError("--only names nobody: write institutions with commas between, or leave it out for all")
    return names


def _fleet(only: str | None, jobs: int | None = None) -> Fleet:
    from pipelines.fleet.nights.runner import Fleet, default_jobs

    names = names_of(only)
    return Fleet(_registry(), names, jobs or default_jobs())


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    with progress_bars() as bars:
        task = bars.add_task(what, total=total)
        yield lambda: bars.advance(task)


def _print_outcomes(found: Mapping[str, Outcome]) -> None:
    """Print which institutions were synced and which not, and why; of many, only those that somebody should look at."""
    shown = {n: o for n, o in found.items() if len(found) <= LISTED or o.kind != "synced"}
    for name, outcome in shown.items():
        why = outcome.message
        if outcome.kind == "synced" and not why:
            why = "was synced already, and not asked again" if not outcome.asked else _in_short(outcome)
        _line(name, str(outcome.kind), why, max(map(len, shown)))
    counts = Counter(str(outcome.kind) for outcome in found.values())
    seconds = sum(outcome.seconds for outcome in found.values())
    asked = sum(outcome.requests for outcome in found.values())
    work = f"{count_of(asked, 'request')}, {seconds:.0f} s of work"
    out.print(f"[bold]{_counted(counts)}[/] of {count_of(len(found), 'institution')}; {work}.")


def _in_short(outcome: Outcome) -> str:
    from pipelines.cli.app import received

    refused = f", {count_of(outcome.rejected, 'record')} refused" if outcome.rejected else ""
    return f"{outcome.day}: {received(outcome.received)}{refused}, in {outcome.seconds:.1f} s"


def _line(name: str, mark: str, says: str, width: int) -> None:
    padding = " " * (7 - len(mark))
    out.print(f"{MARKS.get(mark, mark)}{padding} [bold]{name:<{width}}[/]  {safe(says)}")


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in MARKS if counts.get(kind)) or "none"


def _print_status(known: FleetStatus) -> None:
    shown = [s for s in known.institutions if len(known.institutions) <= LISTED or not s.is_fine]
    if shown:
        columns = ("institution", "", "day", "since", "readers see", "records", "requests", "seconds")
        rows = [
            (
                s.institution,
                s.shown,
                s.day,
                _day(s.since),
                s.readers_see,
                sum(s.records.values()),
                s.requests,
                s.seconds,
            )
            for s in shown
        ]
        out.print(table("", columns, rows))
    for s in shown:
        if says := _why(s):
            _line(s.institution, s.shown, says, max(len(s.institution) for s in shown))
    out.print(f"[bold]{_counted(known.counts)}[/] of {count_of(len(known.institutions), 'institution')}.")


def _day(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}" if moment else ""


def _why(status: InstitutionStatus) -> str:
    if status.paused:
        return status.paused
    if status.shown == "late" and status.due is not None:
        return f"the night of {status.due:%Y-%m-%d %H:%M} UTC was not synced: run `rollbook fleet sync`"
    return status.message
