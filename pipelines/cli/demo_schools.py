"""`rollbook demo --schools N`: a district of made-up schools, combined by two engines that must agree.

Everything is in `demo-schools/` below the institution's warehouse: a registry, the schools' warehouses, fleet.duckdb.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from pipelines import files
from pipelines.cli.app import err, out, safe, table
from pipelines.cli.fleet.build import fleet_folder
from pipelines.cli.fleet.institutions import fleet_registry
from pipelines.errors import CheckError
from pipelines.export.query import run_query
from pipelines.fleet.engine import DUCKDB, SAIL
from pipelines.institutions import Registry
from pipelines.settings import DEMO, INSTITUTION, INSTITUTIONS, PREFIX, ROOT, common_path
from pipelines.store.published.fleet_file import FILE
from pipelines.text import count_of

FOLDER = "demo-schools"
KEY_VARIABLE = "ROLLBOOK_DEMO_KEY"
NAMES = ("ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "yew")
FIGURES = (
    "SELECT institution, students, active_classes, average_completion_rate, completion_rank FROM institutions_compared"
)


def play(schools: int, students: int, days: int, key: str) -> None:
    """Sync the schools night by night, build fleet.duckdb twice, and show the result. Raises CheckError."""
    from pipelines.fleet.nights.runner import Fleet
    from pipelines.sandbox import Sandbox

    names = [name_of(number) for number in range(schools)]
    last = date.today()  # noqa: DTZ011 - the sandboxes serve this day
    played = [last - timedelta(days=n) for n in reversed(range(days))]
    with ExitStack() as stack:
        sandboxes = {
            name: stack.enter_context(
                Sandbox(students, seed=number, api_key=key, school={"id": number, "name": name.title(), "key": name})
            )
            for number, name in enumerate(names, start=1)
        }
        known = _prepare({name: sandbox.url for name, sandbox in sandboxes.items()}, played[0], key)
        out.print(f"{count_of(schools, 'made-up school')} of {students} students, {days} nights each.")
        for day in played:
            for sandbox in sandboxes.values():
                sandbox.day = day
            outcomes = Fleet(known).sync(day)
            if failed := [f"{name}: {o.message}" for name, o in outcomes.items() if o.kind != "synced"]:
                raise CheckError(f"Not all schools were synced on {day}. {'; '.join(failed)}")
            err.print(f"synced {day}")
    _show(known)


def name_of(number: int) -> str:
    """The name of a school by its number, from 0."""
    rounds, index = divmod(number, len(NAMES))
    return f"{NAMES[index]}-{rounds + 1}" if rounds else NAMES[index]


def _prepare(addresses: Mapping[str, str], first: date, key: str) -> Registry:
    """Write a registry into an empty folder, and make this process and its children use it, without `.env`."""
    root = common_path() / FOLDER
    shutil.rmtree(root, ignore_errors=True)
    files.folder(root)
    lines = ["[defaults]", f'first_date = "{first}"', "hold_changed_percent = 100"]
    for name, address in addresses.items():
        lines += ["", f"[{name}]", f'base_url = "{address}"', f'api_key = {{ env = "{KEY_VARIABLE}" }}']
    path = root / "institutions.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.environ.pop(INSTITUTION, None)
    os.environ |= {DEMO: "1", INSTITUTIONS: str(path), f"{PREFIX}WAREHOUSE": str(root), KEY_VARIABLE: key}
    return fleet_registry()


def _show(known: Registry) -> None:
    root = common_path()
    built = {name: _rollups(root, known, name) for name in (DUCKDB, SAIL)}
    out.print(
        table("The schools, side by side", ("school", "students", "classes", "completion", "rank"), _figures(root))
    )
    for name, rows in built[DUCKDB].items():
        if built[SAIL][name] != rows:
            raise CheckError(f"DuckDB and Sail computed {name} differently: this is a bug in Rollbook")
    count = sum(map(len, built[DUCKDB].values()))
    tables = count_of(len(built[DUCKDB]), "table")
    out.print(f"\n{FILE} was built twice, by DuckDB and by Sail. They agree: {count} rows of {tables} are the same.")
    shown = root / FILE
    shown = shown.relative_to(ROOT) if shown.is_relative_to(ROOT) else shown
    out.print(f"[bold]The file[/]  {safe(str(shown))}: open it with anything that speaks DuckDB.")


def _rollups(root: Path, known: Registry, engine: str) -> dict[str, list[tuple[Any, ...]]]:
    """Build the fleet's file, and return the tables that the engine computed."""
    from pipelines.fleet.file.build import FleetBuild
    from pipelines.views.fleet import ROLLUPS

    FleetBuild(fleet_folder(), known, engine=engine).build()
    return {name: run_query(root / FILE, f"FROM {name} ORDER BY ALL").rows for name in ROLLUPS}


def _figures(root: Path) -> Sequence[Sequence[object]]:
    return run_query(root / FILE, f"{FIGURES} ORDER BY completion_rank").rows
