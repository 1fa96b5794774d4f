"""Publishes an earlier file again."""

from __future__ import annotations

from pathlib import Path

from rollbook.night.writing import Writer
from rollbook.views import catalog


def restore(writer: Writer, version: Path) -> None:
    """Publish an earlier file again; the next writer brings it up to date first. Raises DamagedError."""
    warehouse, listeners = writer.place.warehouse, writer.listeners
    with writer.unrecovered():
        merged = warehouse.merged_days(version)
        # Without the days that have expired from the lake: no view may read a deleted file.
        shown = [record for day, record in warehouse.lake.days().items() if day in merged]
        warehouse.restore(version, lambda con: catalog.create_snapshots(con, warehouse.lake, shown))
        listeners.tell(lambda listener: listener.began(writer.clock()))
        listeners.tell(lambda listener: listener.on_published(writer.clock()))
