"""The lakes of many institutions as one, for an engine.

They are hard-linked into Hive-partitioned folders, so that they do not change when institutions sync meanwhile
and replace the files of a day.

    <table>/institution=<name>/snapshot_date=<day>/part-0.parquet
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from pipelines.errors import RollbookError
from pipelines.flatten import schema
from pipelines.fleet.engine import Engine
from pipelines.fleet.file.gathering import TRIES, link_or_copy
from pipelines.settings import load
from pipelines.store.lake import DayRecord, Lake
from pipelines.store.relations import SNAPSHOT_DATE
from pipelines.store.scope import INSTITUTION
from pipelines.sync import Rollbook
from pipelines.tables import TABLES, Column
from pipelines.views.fleet import WHICH

LEFT = "its lake changed again and again meanwhile: run `rollbook fleet rebuild` again when its sync is done"
RETYPED = "some of its snapshots have a column of another type: run `rollbook rebuild` for it"
EXPIRED = "the history of some of its days is in its published file alone, since their snapshots have expired"
EMPTY = "its lake holds no day, though it has published"


@dataclass
class Lakes:
    """Lakes that were linked into a folder: each day's checksum by institution, and why others were left out."""

    folder: Path
    days: dict[str, dict[date, str]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def read(self, engine: Engine, table: str, columns: Sequence[Column]) -> None:
        """Define `lake.<table>`: a table's rows of all lakes, with their institution and day."""
        engine.read(f"lake.{table}", self.folder / table, columns, (WHICH, SNAPSHOT_DATE))


def link(names: Iterable[str], folder: Path) -> Lakes:
    """Link the lakes of these institutions."""
    found = Lakes(folder)
    for name in names:
        try:
            book = Rollbook(load(institution=name, fetches=False))
            why = EXPIRED if book.landings.expired_days() else _link(book, name, found)
        except RollbookError as error:
            why = error.message
        if why:
            found.left_out[name] = why
    return found


def _link(book: Rollbook, name: str, found: Lakes) -> str:
    """Link one lake, and return why it is left out, or an empty text. An institution that never synced has none."""
    lake = book.lake
    for _ in range(TRIES):
        records = lake.days()
        if not records:
            return EMPTY if book.warehouse.published.exists() else ""
        if _are_retyped(lake, records.values()):
            return RETYPED
        try:
            for record in records.values():
                link_day(lake, name, record, found.folder)
        except FileNotFoundError:  # the day is being recomposed
            continue
        if lake.days() == records:
            found.days[name] = {day: record.digest for day, record in records.items()}
            return ""
    return LEFT


def _are_retyped(lake: Lake, records: Collection[DayRecord]) -> bool:
    """Whether a file has a column of another type than declared: Spark cannot cast it while reading."""
    for table in TABLES.values():
        declared = schema(table)
        for found in lake.schemas(table, [record for record in records if table.name in record.sizes]):
            both = [name for name in declared.names if name in found.names]
            if any(found.field(name).type != declared.field(name).type for name in both):
                return True
    return False


def link_day(lake: Lake, name: str, record: DayRecord, folder: Path) -> None:
    """Link the files of one day of a lake."""
    for table in record.sizes:
        file = lake.own(table, record.snapshot_date)
        link_or_copy(file, folder / table / f"{INSTITUTION}={name}" / file.parent.name / file.name)
