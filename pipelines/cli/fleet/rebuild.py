"""`rollbook fleet rebuild`: recomputes all histories from the institutions' lakes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.app import err, out, safe, table
from pipelines.cli.fleet.build import EngineOption, fleet_folder
from pipelines.cli.fleet.institutions import Only, fleet_app, fleet_registry, names_of
from pipelines.errors import HeldError, RollbookError
from pipelines.settings import for_all
from pipelines.text import count_of

if TYPE_CHECKING:
    from pipelines.fleet.history import Difference


@fleet_app.command()
def rebuild(
    engine: EngineOption = None,
    only: Only = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Change nothing: compare with what the institutions have published.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Publish even what would be held.")] = False,
) -> None:
    """Recompute the history of every institution from its snapshots, and publish it.

    For use after a declaration changed, or a disk was lost. Nothing is fetched. Each institution's file is checked and
    published separately; one that would lose more rows than a sync may remove does not change unless --yes is given.
    Exits 1 when an institution could not be rebuilt or differs, 3 when one was held and no other failed.
    """
    from pipelines.fleet import history
    from pipelines.sync import always, within_hold

    asked = fleet_folder(), fleet_registry(), engine or for_all().fleet_engine, names_of(only)
    if verify:
        _show(*history.verify(*asked))
        return
    failed: list[RollbookError] = []

    def done(name: str, error: RollbookError | None) -> None:
        if error is None:
            out.print(f"[bold green]Rebuilt[/] {safe(name)}")
        else:
            failed.append(error)
            err.print(f"[bold red]Not rebuilt:[/] {safe(name)}: {safe(error.message)}")

    history.rebuild(*asked, done, always if yes else within_hold)
    if failed:
        held = all(isinstance(error, HeldError) for error in failed)
        raise typer.Exit(HeldError.exit_code if held else RollbookError.exit_code)
    out.print("Run `rollbook fleet build` to update fleet.duckdb.")


def _show(names: tuple[str, ...], differences: list[Difference], left_out: dict[str, str]) -> None:
    for name, why in left_out.items():
        err.print(f"[yellow]Warning:[/] {safe(name)} was not compared: {safe(why)}.")
    if differences:
        headings = ("institution", "table", "missing rows", "extra rows")
        rows = [(d.institution, d.table, str(d.lacking), str(d.surplus)) for d in differences]
        out.print(table("The published files differ from the snapshots", headings, rows))
        out.print("To publish the history of the snapshots: rollbook fleet rebuild --only NAME")
    else:
        compared = count_of(len(names), "institution")
        out.print(f"[bold green]Equal.[/] The published files of {compared} match the snapshots.")
    if differences or left_out:
        raise typer.Exit(RollbookError.exit_code)
