"""Disk space: what a sync needs, how large the warehouse will be in a year, and what retention deletes.

The factors come from a measurement with the sandbox at 20,000 students (25 MB of bodies a night, 60 nights), rounded
up. A night added 3.5 MB of raw bodies and 1.6 MB of snapshots. The published file began at 14 MB, was 31 MB after a
week (DuckDB keeps free space for rewrites) and then grew by 0.42 MB a night, which is 0.27 of a day's snapshots. A
running sync temporarily took up to 1.2 times the published file and twice the night's raw bodies.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import msgspec

from pipelines import machine
from pipelines.store.published.versions import KEPT
from pipelines.sync import Rollbook

YEAR = 365
# How much the published file grows in a night, as a share of a day's snapshots; and the least it grows by, in bytes.
GROWTH, GROWTH_LEAST = 0.5, 40_000
# The least size of the published file: at least one block of 256 kB per table, rewritten in the first nights until
# free blocks are reused.
FILE_LEAST = 32 * machine.MB
# What DuckDB may spill to disk, and a safety margin.
MARGIN = 64 * machine.MB
# One run in Dagster's records: 23 assets and 13 checks, in the run's own file and again in the index.
RUN_BYTES = 1_000_000


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes: `sync` must be free to run one, `night` is what it adds, `year` is the warehouse's size in a year."""

    sync: int
    night: int
    year: int


@dataclass(frozen=True)
class Night:
    """What one night adds to raw/ and snapshots/, and the published file's size now; in bytes."""

    raw: int
    lake: int
    published: int

    @property
    def growth(self) -> float:
        """Bytes by which the published file grows in a night."""
        return max(GROWTH * self.lake, GROWTH_LEAST)


def last_night(rollbook: Rollbook) -> Night | None:
    """The sizes of the newest landing that counts. None before the first sync."""
    newest = rollbook.newest()
    if newest is None:
        return None
    landing = rollbook.raw.root / f"snapshot_date={newest.snapshot_date}" / f"landing={newest.landing}"
    lake = rollbook.lake.days().get(newest.snapshot_date)
    published = rollbook.warehouse.published
    size = published.stat().st_size if published.exists() else 0
    return Night(machine.size(landing), sum(lake.sizes.values()) if lake else 0, size)


def predict(rollbook: Rollbook, night: Night, *, nights: int = YEAR) -> Capacity:
    """Predict what a sync needs, and the warehouse's size after `nights` nights, including Dagster's records."""
    keep = rollbook.settings.keep_days
    raw_now, lake_now = machine.size(rollbook.raw.root), machine.size(rollbook.lake.root)
    # One day more than the setting: files are deleted one night after their views, for readers that are still open.
    kept = nights if keep is None else min(nights, keep + 1)
    landed = kept * (night.raw + night.lake) + (raw_now + lake_now if keep is None or nights < keep else 0)
    file = max(night.published, FILE_LEAST) + nights * night.growth
    # The pseudonymous file is at most as large as the published one; three of it exist while it is made.
    coded = 1 if rollbook.settings.pseudonymous else 0
    return Capacity(
        sync=round(2 * night.raw + 4 * night.lake + (1.5 + coded) * max(night.published, FILE_LEAST) + MARGIN),
        night=round(night.raw + night.lake + (1 + coded) * night.growth),
        year=round(landed + (1 + KEPT + 3 * coded) * file + nights * RUN_BYTES),
    )


def expiry(rollbook: Rollbook) -> tuple[list[date], int]:
    """The days that a sync or `rollbook prune` would delete now, and their bytes. Raises DamagedError."""
    days = rollbook.recovery.expirable(rollbook.settings.keep_days)
    folders = [f"snapshot_date={day}" for day in days]
    paths = [p for f in folders for p in (rollbook.raw.root / f, *rollbook.lake.root.glob(f"*/{f}"))]
    return days, sum(map(machine.size, paths))


def prune(rollbook: Rollbook) -> list[date]:
    """Expire the days that ROLLBOOK_KEEP_DAYS does not keep; returns them. Raises what `Rollbook.publish` raises.

    The published views drop the days first, so that no view reads a deleted file.
    """
    with rollbook.writer():
        rollbook.ready()
        days = rollbook.recovery.expirable(rollbook.settings.keep_days)
        if days:
            rollbook.publish()
        return days
