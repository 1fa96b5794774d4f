"""Expires days without a sync; every sync expires them, too."""

from __future__ import annotations

from datetime import date

from rollbook.night.place import Place
from rollbook.night.stages import merge
from rollbook.night.writing import Writer
from rollbook.util import machine


def expiry(place: Place, keep_days: int | None) -> tuple[list[date], int]:
    """The days that a sync or `rollbook prune` would delete now, and their bytes. Raises DamagedError."""
    days = place.recovery.expirable(keep_days)
    roots = (place.raw.root, *place.lake.root.glob("*"))
    return days, sum(machine.size(root / f"snapshot_date={day}") for day in days for root in roots)


def prune(writer: Writer) -> list[date]:
    """Expire the days that ROLLBOOK_KEEP_DAYS does not keep; returns the days. Raises what `publish` raises.

    The published views drop the days first, so that no view reads a deleted file.
    """
    with writer.writing():
        days = writer.place.recovery.expirable(writer.settings.keep_days)
        if days:
            writer.publish(merge(writer.place))
        return days
