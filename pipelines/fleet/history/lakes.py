"""The lakes of many institutions as one, for an engine: those in the institutions' folders, or their copies.

Local lakes are hard-linked into Hive-partitioned folders, so that they do not change when institutions sync meanwhile
and replace the files of a day.

    <table>/institution=<name>/snapshot_date=<day>/part-0.parquet

The copies (`ROLLBOOK_LAKE`) are read in place. A copy that is replaced meanwhile has other days than its institution
has published, or has in its folder, and is therefore neither compared nor adopted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Protocol

from pipelines.errors import RollbookError
from pipelines.flatten import schema
from pipelines.fleet.engine import Engine
from pipelines.fleet.file.gathering import TRIES, link_or_copy
from pipelines.mirror.lake import copied_lake
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
NEVER = "nothing of it was ever copied to ROLLBOOK_LAKE: run `rollbook mirror sync`"
NO_COPY = "ROLLBOOK_LAKE, which says where its copy is, is not set"


class Lakes(Protocol):
    """The lakes of several institutions: each day's checksum by institution, and why others were left out."""

    days: dict[str, dict[date, str]]
    left_out: dict[str, str]

    def read(self, engine: Engine, table: str, columns: Sequence[Column]) -> None:
        """Define `lake.<table>`: a table's rows of all lakes, with their institution and day."""


@dataclass
class Linked:
    """Lakes that were linked into a folder."""

    folder: Path
    days: dict[str, dict[date, str]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def read(self, engine: Engine, table: str, columns: Sequence[Column]) -> None:
        """Define `lake.<table>`."""
        engine.read(f"lake.{table}", self.folder / table, columns, (WHICH, SNAPSHOT_DATE))


@dataclass
class Copied:
    """Copies of lakes, read in place: `places` has the folder of each table by institution."""

    places: dict[str, Mapping[str, Path | str]] = field(default_factory=dict)
    days: dict[str, dict[date, str]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def read(self, engine: Engine, table: str, columns: Sequence[Column]) -> None:
        """Define `lake.<table>` as the union of all copies."""
        names = [name for name in self.days if table in self.places[name]]
        if not names:
            engine.read(f"lake.{table}", None, columns, (WHICH, SNAPSHOT_DATE))
            return
        selected = ", ".join(c.name for c in (SNAPSHOT_DATE, *columns))
        rows = []
        for number, name in enumerate(names):
            engine.read(f"lake.{table}_{number}", self.places[name][table], columns, (SNAPSHOT_DATE,))
            rows.append(f"SELECT CAST('{name}' AS VARCHAR) AS {INSTITUTION}, {selected} FROM lake.{table}_{number}")
        engine.define(f"lake.{table}", " UNION ALL ".join(rows))


def link(names: Iterable[str], folder: Path) -> Linked:
    """Link the lakes of these institutions."""
    found = Linked(folder)
    _gather(found, names, lambda book, name: _link(book, name, found))
    return found


def copied(names: Iterable[str]) -> Copied:
    """The copies of these institutions' lakes."""
    found = Copied()
    _gather(found, names, lambda book, name: _find_copy(book, name, found))
    return found


def _gather(found: Lakes, names: Iterable[str], take: Callable[[Rollbook, str], str]) -> None:
    """Add each institution's lake with `take`, which returns why it is left out, or an empty text."""
    for name in names:
        try:
            book = Rollbook(load(institution=name, fetches=False))
            why = EXPIRED if book.landings.expired_days() else take(book, name)
        except RollbookError as error:
            why = error.message
        if why:
            found.left_out[name] = why


def _link(book: Rollbook, name: str, found: Linked) -> str:
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


def _find_copy(book: Rollbook, name: str, found: Copied) -> str:
    """Find one copy, and return why it is left out, or an empty text. An institution that never synced has none."""
    if not book.mirror.wanted:
        return NO_COPY
    lake = copied_lake(book.mirror.url, book.mirror.folder)
    if lake is None:
        return NEVER if book.warehouse.published.exists() else ""
    if lake.days:
        found.places[name] = lake.places
        found.days[name] = {day: record.digest for day, record in lake.days.items()}
    return ""


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
