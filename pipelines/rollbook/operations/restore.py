"""Publishes an earlier file again."""

from __future__ import annotations

from pathlib import Path

from rollbook.night.rollbook import Rollbook
from rollbook.night.writing import writer
from rollbook.views import catalog


def restore(rollbook: Rollbook, version: Path) -> None:
    """Publish an earlier file again; the next writer brings it up to date first. Raises DamagedError."""
    with writer(rollbook, unrecovered=True):
        merged = rollbook.warehouse.merged_days(version)
        # Without the days that have expired from the lake: no view may read a deleted file.
        shown = [record for day, record in rollbook.lake.days().items() if day in merged]
        rollbook.warehouse.restore(version, lambda con: catalog.create_snapshots(con, rollbook.lake, shown))
        rollbook.tell(lambda listener: listener.began(rollbook.clock()))
        rollbook.tell(lambda listener: listener.on_published(rollbook.clock()))
