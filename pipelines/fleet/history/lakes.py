"""The lakes of many institutions as one: each file gets a second name in folders that an engine reads as columns.

    <table>/institution=<name>/snapshot_date=<day>/part-0.parquet

Institutions sync meanwhile, and replace the files of a day then. What was linked stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from pipelines.errors import RollbookError
from pipelines.fleet.file.gathering import TRIES, same_file
from pipelines.settings import load
from pipelines.store.lake import DAYS, DayRecord, Lake
from pipelines.store.scope import INSTITUTION
from pipelines.sync import Rollbook

LEFT = "its lake changed again and again meanwhile: run `rollbook fleet rebuild` again when its sync is done"
OLD = "its snapshots are of an earlier Rollbook: its next sync upgrades them"
EXPIRED = "the history of some of its days is in its published file alone, since their snapshots have expired"
EMPTY = "its lake holds no day, though it has published"


@dataclass
class Linked:
    """What was linked: the digest of each day by institution, and why others were left out."""

    folder: Path
    days: dict[str, dict[date, str]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def link(names: Mapping[str, object], folder: Path) -> Linked:
    """Link the lakes of these institutions."""
    found = Linked(folder)
    for name in names:
        try:
            book = Rollbook(load(institution=name, fetches=False))
            why = EXPIRED if book.landings.expired_days() else _link(book, name, found)
        except RollbookError as error:
            why = error.message
        if why:
            found.left_out[name] = why
    return found


def _link(book: Rollbook, name: str, found: Linked) -> str:
    """Link one lake; returns why it cannot be done, or nothing. One that never synced has none."""
    lake = book.lake
    for _ in range(TRIES):
        records = lake.days()
        if not records:
            return EMPTY if book.warehouse.published.exists() else ""
        if any(DAYS not in record.sizes for record in records.values()):
            return OLD
        try:
            for record in records.values():
                link_day(lake, name, record, found.folder)
        except FileNotFoundError:  # the day is being composed again
            continue
        if lake.days() == records:
            found.days[name] = {day: record.digest for day, record in records.items()}
            return ""
    return LEFT


def link_day(lake: Lake, name: str, record: DayRecord, folder: Path) -> None:
    """Link the files of one day of a lake."""
    for table in record.sizes:
        file = lake.own(table, record.snapshot_date)
        same_file(file, folder / table / f"{INSTITUTION}={name}" / file.parent.name / file.name)
