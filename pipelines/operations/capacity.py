"""Room on disk: what a sync needs, what a year comes to, and what retention would let go of now.

The figures were measured with the sandbox at 20,000 students (25 MB of bodies a night, 60 nights) and are kept on the
safe side. Per night 3.5 MB of raw bodies and 1.6 MB of snapshots were landed; the published file began at 14 MB, was
31 MB after a week (DuckDB keeps room for what it rewrites) and then grew by 0.42 MB a night, which is 0.27 of a day's
snapshots. While a sync ran, it took up to 1.2 times the published file and twice the night's raw bodies beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import msgspec

from pipelines import machine
from pipelines.landing.manifest import Manifest
from pipelines.store.lake import DayRecord
from pipelines.store.warehouse import KEPT
from pipelines.sync import Rollbook

YEAR = 365
# Of a day's snapshots, the share by which the published file grows in a night; and the least it can grow by.
GROWTH, GROWTH_LEAST = 0.5, 40_000
# A small file's own room: a block of 256 kB a table and more, rewritten in the first nights until it is reused.
FILE_LEAST = 32 * machine.MB
# What DuckDB may spill, and the room for what nobody thought of.
MARGIN = 64 * machine.MB
# Of the bodies' bytes as received: raw bodies, a day's snapshots, the published file. For before the first sync.
RAW_SHARE, LAKE_SHARE, FILE_SHARE = 0.15, 0.07, 1.25
# A run of the job in Dagster's records (23 assets and 15 checks, in the run's own file and again in the index), until
# an instance shows what its own come to.
RUN_BYTES = 1_000_000


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes: `sync` must be free for one sync, `night` stays of it, `year` is the whole warehouse a year from now."""

    sync: int
    night: int
    year: int


@dataclass(frozen=True)
class Night:
    """What one night leaves, and the published file as it is: bytes."""

    raw: int
    lake: int
    published: int

    @property
    def growth(self) -> float:
        """By how much the published file grows."""
        return max(GROWTH * self.lake, GROWTH_LEAST)


def last_night(rollbook: Rollbook) -> Night | None:
    """What the newest counted landing left. None before the first sync."""
    newest: Manifest | None = rollbook.newest()
    if newest is None:
        return None
    landing = rollbook.raw.root / f"snapshot_date={newest.snapshot_date}" / f"landing={newest.landing}"
    lake: DayRecord | None = rollbook.lake.days().get(newest.snapshot_date)
    published = rollbook.warehouse.published
    size = published.stat().st_size if published.exists() else 0
    return Night(machine.size(landing), sum(lake.sizes.values()) if lake else 0, size)


def first_night(bodies: float) -> Night:
    """What a first sync of so many bytes of bodies would leave."""
    return Night(round(RAW_SHARE * bodies), round(LAKE_SHARE * bodies), round(FILE_SHARE * bodies))


def predict(rollbook: Rollbook, night: Night, *, nights: int = YEAR, run_bytes: int = 0) -> Capacity:
    """What this warehouse needs for a sync, and what it comes to after so many nights, Dagster's records included."""
    keep = rollbook.settings.keep_days
    have_raw, have_lake = machine.size(rollbook.raw.root), machine.size(rollbook.lake.root)
    # One more than is asked for: a day outlives its views by a night, for who has the file open.
    kept = nights if keep is None else min(nights, keep + 1)
    landed = kept * (night.raw + night.lake) + (have_raw + have_lake if keep is None or nights < keep else 0)
    file = max(night.published, FILE_LEAST) + nights * night.growth
    runs = nights * run_bytes
    return Capacity(
        sync=round(2 * night.raw + 4 * night.lake + 1.5 * max(night.published, FILE_LEAST) + MARGIN),
        night=round(night.raw + night.lake + night.growth),
        year=round(landed + (1 + KEPT) * file + runs),
    )


class Expiry(msgspec.Struct, frozen=True, kw_only=True):
    """What retention would let go of: the days, and the bytes they take in raw/ and snapshots/."""

    keep_days: int | None
    days: tuple[date, ...]
    raw: int
    snapshots: int


def expiry(rollbook: Rollbook, keep_days: int | None = None) -> Expiry:
    """What a sync, or `rollbook prune`, would let go of now. Raises DamagedError."""
    keep = keep_days or rollbook.settings.keep_days
    days = rollbook.retention.expirable(keep)
    folders = [f"snapshot_date={day}" for day in days]
    return Expiry(
        keep_days=keep,
        days=tuple(days),
        raw=sum(machine.size(rollbook.raw.root / f) for f in folders),
        snapshots=sum(machine.size(path) for f in folders for path in rollbook.lake.root.glob(f"*/{f}")),
    )
