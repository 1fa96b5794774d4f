"""Proves the copy: restores it beside the warehouse, rebuilds it, and compares it row for row with what readers have.

Expired days are in neither the copy nor the lake. With such days, the restored days are compared with the lake's, and
every published file is read whole and compared with each of these days.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipelines.errors import MirrorError
from pipelines.landing.raw import RawStore
from pipelines.mirror.mirror import Progress, restore
from pipelines.settings import Settings
from pipelines.store import checks
from pipelines.store.database import connect, count, literal, names
from pipelines.store.schema import TERMS, THRESHOLDS, declared
from pipelines.store.warehouse import Warehouse
from pipelines.sync import Rollbook, always
from pipelines.tables import TABLES
from pipelines.util import files
from pipelines.util.text import listed


def prove(settings: Settings, progress: Progress = lambda *_: None) -> None:
    """Prove a warehouse's copy, and its published files. Requires the writer lock, and that nothing is behind.

    Raises MirrorError with what differs, and what restoring and rebuilding raise. `progress` may raise, to stop it.
    """
    ours = Warehouse(settings.warehouse_path)
    with files.aside(ours.build) as folder:
        restore(settings.lake, settings.institution, folder / "copy", progress)
        theirs = Warehouse(folder / "copy")
        beside = Rollbook(
            settings.model_copy(update={"keep_days": None}), progress=progress, warehouse=theirs,
            raw=RawStore(theirs.root / "raw"),
        )  # fmt: skip
        expired = beside.landings.expired_days()
        beside.rebuild(confirm=always, accept_loss=bool(expired))
        found = [*_differing(ours, theirs, in_lake=bool(expired))]
        for file in (ours.published, *ours.kept()) if expired else ():
            found += _faults(ours, file)
    if found:
        raise MirrorError(
            f"What was restored from the copy is not what readers have: {listed(found, 5)}. Run `rollbook mirror"
            " verify`; if it finds nothing, run `rollbook rebuild`, and this again"
        )


def _differing(ours: Warehouse, theirs: Warehouse, *, in_lake: bool) -> Iterator[str]:
    """The tables that differ between two warehouses: the published ones, or those of the lake's days."""
    pairs = {
        f"{r.schema}.{r.name}": [
            f"SELECT {names(r.columns)} FROM {of}.{r.schema}.{r.name}" for of in ("ours", "theirs")
        ]
        for r in declared()
        if r.schema in ("main", "history", "ops") and r not in (THRESHOLDS, TERMS)
    }
    if in_lake:
        lakes = [(warehouse.lake, warehouse.lake.days().values()) for warehouse in (ours, theirs)]
        pairs = {name: [lake.scan(t, days) for lake, days in lakes] for name, t in TABLES.items()}
        pairs["observed"] = [lake.scan_observed(days) for lake, days in lakes]
    with connect(scratch=theirs.scratch, about=ours.published) as con:
        for name, warehouse in {"ours": ours, "theirs": theirs}.items():
            con.execute(f"ATTACH {literal(warehouse.published)} AS {name} (READ_ONLY)")
        for name, (a, b) in pairs.items():
            differing = f"(({a}) EXCEPT ALL ({b})) UNION ALL (({b}) EXCEPT ALL ({a}))"
            if number := count(con, f"SELECT COUNT(*) FROM ({differing})"):
                yield f"{number:,} rows of {name}"


def _faults(warehouse: Warehouse, file: Path) -> list[str]:
    """What is wrong with a published file: it cannot be read, or is not what the lake's days say."""
    if not warehouse.is_sound(file, thoroughly=True):
        return [f"{file.name} cannot be read"]
    with connect(file, scratch=warehouse.scratch, read_only=True) as con:
        found = checks.examine(con, warehouse.lake, warehouse.lake.days(), whole=True).values()
    return [f"{file.name}: {sentence}" for sentences in found for sentence in sentences]
