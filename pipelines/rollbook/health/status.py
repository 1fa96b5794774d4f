"""A warehouse at a glance: the last sync, freshness, sizes, open holds, expired days. And the disk space.

The status only reads. A damaged file is listed in `problems` and raises nothing.

Disk space is what a sync needs, how large the warehouse will be in a year, and what retention deletes. The factors come
from a measurement with the sandbox at 20,000 students (25 MB of bodies a night, 60 nights), rounded up. A night added
3.5 MB of raw bodies and 1.6 MB of snapshots. The published file began at 14 MB, was 31 MB after a week (DuckDB keeps
free space for rewrites) and then grew by 0.42 MB a night, which is 0.27 of a day's snapshots. A running sync
temporarily took up to 1.2 times the published file and twice the night's raw bodies.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from pathlib import Path

import msgspec

from rollbook.errors import RollbookError
from rollbook.health.finding import Finding
from rollbook.landing.manifest import Manifest, Verdict
from rollbook.night.place import Place
from rollbook.night.policy import open_hold
from rollbook.settings import Settings
from rollbook.store.published import KEPT
from rollbook.store.warehouse import Contents
from rollbook.util import cron, machine

YEAR = 365
# Status lists a discarded landing for so many days; `ops.syncs` keeps it.
DISCARDED_FOR = timedelta(days=7)
# How much the published file grows in a night, as a share of a day's snapshots; and the least growth, in bytes.
GROWTH, MIN_GROWTH = 0.5, 40_000
# The least size of the published file: at least one block of 256 kB per table, rewritten in the first nights until
# free blocks are reused.
MIN_FILE = 32 * machine.MB
# Room for DuckDB to spill to disk, and a safety margin.
MARGIN = 64 * machine.MB
# One run in Dagster's records: twelve assets and nine checks, in the run's own file and again in the index.
RUN_BYTES = 1_000_000


class LastSync(msgspec.Struct, frozen=True, kw_only=True):
    """A sync, from the manifest: `received` counts records per set. Times are UTC.

    `seconds` is from the first request to the verdict, without the wait for an approval. `kept_out` are the records
    left out for an erased student's id.
    """

    snapshot_date: date
    landing: int
    outcome: str
    proven: bool
    started_at: datetime
    finished_at: datetime
    seconds: float
    received: dict[str, int]
    rows_added: int
    rows_changed: int
    rows_removed: int
    rejected: int
    kept_out: int
    requests: int
    reason: str


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A landing about which a person decides: a held one, with the command that merges it, or a discarded one, with the
    command that puts it back.
    """

    snapshot_date: date
    landing: int
    reason: str
    command: str


class Days(msgspec.Struct, frozen=True, kw_only=True):
    """A number of days, and the first and the last."""

    count: int = 0
    first: date | None = None
    last: date | None = None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `rollbook status`, also as JSON.

    `is_fresh`: whether readers have the last `due` night; `late_by` is then null, else seconds. `readers`
    is what the published file holds. `lacking` are landed days that readers do not have as they were landed, as after a
    restore; `discarded` what was discarded last week. `expired` are the days
    that only the history holds: their raw bodies and snapshots were deleted. `unproven` says which sets no night has
    proven for long. `lines` are the features', such as when the off-site copy was
    last proven. `sizes` are bytes on disk, and what is free there.
    """

    warehouse: str
    school_id: int | None
    school_name: str | None
    last_sync: LastSync | None
    last_good: LastSync | None
    is_fresh: bool
    due: datetime
    late_by: float | None
    next_run: datetime
    cron: str
    timezone: str
    sizes: dict[str, int]
    holds: tuple[Choice, ...]
    discarded: tuple[Choice, ...]
    unproven: tuple[str, ...]
    readers: Contents | None
    history: Days
    lacking: Days
    expired: Days
    keep_days: int | None
    lines: tuple[Finding, ...]
    problems: tuple[str, ...]


def load_status(
    place: Place, settings: Settings, now: datetime, lines: Iterable[Finding] = (), dagster_home: Path | None = None
) -> Status:
    """Read the status of a warehouse; `lines` are the features'. Damage raises nothing, and is listed in `problems`."""
    raw, problems = place.raw, list[str]()
    readable, merged, discarded = list[Manifest](), list[date](), list[Choice]()
    for day in raw.days():
        with _noted(problems):
            readable += raw.manifests(day)
    with _noted(problems):
        merged += place.warehouse.merged_days()
    with _noted(problems):
        place.recovery.check_raw()
    with _noted(problems):
        raw.erasure_register.read()
    published = place.warehouse.published_file
    if published.is_file() and not problems and not place.warehouse.own.is_unmodified(published):
        problems.append(
            f"{published.name} is not as Rollbook wrote it: a program has opened it for writing. `rollbook sync` makes"
            " it again, and keeps this one in build/altered/"
        )
    for day in raw.discarded_days():
        with _noted(problems):
            undo = f"discard {day} --undo --landing"
            discarded += [
                _choice(settings, m, why.reason, f"{undo} {m.landing}")
                for m, why in raw.discarded(day)
                if now - why.discarded_at < DISCARDED_FOR
            ]
    decided = [m for m in readable if m.verdict is not None]
    counted = (m for m in decided if m.counts_for_its_day)
    last_good = max(counted, key=lambda m: (m.snapshot_date, m.landing), default=None)
    shown = place.warehouse.shown()
    due, late_by = freshness(settings, now, last_good, shown)
    readers = None
    with suppress(RollbookError):  # the damage is noted above
        readers = place.warehouse.contents(published)
    lake = place.lake.days()
    return Status(
        warehouse=str(place.warehouse.root),
        school_id=last_good.school_id if last_good else None,
        school_name=last_good.school_name if last_good else None,
        last_sync=_last_sync(max(decided, key=lambda m: m.started_at, default=None)),
        last_good=_last_sync(last_good),
        is_fresh=late_by is None,
        due=due,
        late_by=late_by,
        next_run=next(cron.ticks(settings.cron, settings.zone, now)),
        cron=settings.cron,
        timezone=settings.timezone,
        sizes=_sizes(place, dagster_home),
        holds=tuple(
            _choice(settings, m, m.reason, f"sync --date {m.snapshot_date} --approve") for m in open_holds(readable)
        ),
        discarded=tuple(discarded),
        unproven=tuple(u.description for u in place.landings.long_unproven()),
        history=_days(merged),
        readers=readers,
        lacking=_days(set(lake) - shown) if merged else Days(),
        expired=_days([d for d in merged if d not in lake]),
        keep_days=settings.keep_days,
        lines=tuple(lines),
        problems=tuple(problems),
    )


def open_holds(manifests: Iterable[Manifest]) -> list[Manifest]:
    """The landings of many days, in their order, that wait for approval."""
    return [
        hold
        for _, of_day in groupby(manifests, key=lambda m: m.snapshot_date)
        if (hold := open_hold(of_day)) is not None
    ]


def freshness(
    settings: Settings, now: datetime, last_good: Manifest | None, shown: Container[date]
) -> tuple[datetime, float | None]:
    """The last night that should have been synced, and how many seconds the night is late (None: synced, on a
    day that is `shown` to readers).
    """
    night = cron.due(settings.cron)
    due = cron.last_tick(settings.cron, settings.zone, now - night.grace)
    is_shown = last_good is not None and last_good.snapshot_date in shown
    is_late = (
        last_good is None
        or not is_shown
        or last_good.snapshot_date < due.date()  # a sync of the evening before is of another day
        or last_good.started_at < due - night.slack
    )
    return due, (now - due).total_seconds() if is_late else None


def why_late(due: datetime, holds: Iterable[date], settings: Settings) -> str:
    """Why the night that was `due` is late, and what to do, to follow the night's name: `holds` are the held days."""
    if due.date() in holds:
        return f"is held: see `{settings.command('held')}`, then approve it or ask the service's representative"
    return f"was not synced: run `{settings.command('sync')}`, and see what it says"


@contextmanager
def _noted(problems: list[str]) -> Iterator[None]:
    """List an error among the problems, and go on."""
    try:
        yield
    except RollbookError as error:
        problems.append(error.message)


def _choice(settings: Settings, m: Manifest, reason: str, command: str) -> Choice:
    return Choice(snapshot_date=m.snapshot_date, landing=m.landing, reason=reason, command=settings.command(command))


def _sizes(place: Place, dagster_home: Path | None) -> dict[str, int]:
    warehouse = place.warehouse
    return {
        "published": machine.size(warehouse.published_file.resolve()),
        "previous": sum(machine.size(version) for version in warehouse.kept()),
        "raw": machine.size(place.raw.root),
        "snapshots": machine.size(place.lake.root),
        "build": machine.size(warehouse.build),
        **({"dagster": machine.size(dagster_home)} if dagster_home else {}),
        "free": machine.free(warehouse.root),
    }


def _days(days: Iterable[date]) -> Days:
    listed = sorted(days)
    return Days(count=len(listed), first=listed[0], last=listed[-1]) if listed else Days()


def _last_sync(m: Manifest | None) -> LastSync | None:
    if m is None:
        return None
    finished = m.judged_at or m.finished_at
    return LastSync(
        snapshot_date=m.snapshot_date,
        landing=m.landing,
        outcome=(m.verdict or Verdict.FAILED).outcome,
        proven=m.proven,
        started_at=m.started_at,
        finished_at=finished,
        seconds=m.seconds,
        received=m.received,
        rows_added=sum(c.added for c in m.counts),
        rows_changed=sum(c.changed for c in m.counts),
        rows_removed=sum(c.removed for c in m.counts),
        rejected=sum(m.rejected.values()),
        kept_out=sum(w.erased for w in m.walks),
        requests=m.requests,
        reason=m.reason,
    )


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes: `sync` must be free for a sync, `night` is the growth per night, `year` is the warehouse's size in
    a year.
    """

    sync: int
    night: int
    year: int


@dataclass(frozen=True)
class Night:
    """The bytes that one night adds to raw/ and snapshots/, and the published file's present size."""

    raw: int
    lake: int
    published: int

    @property
    def growth(self) -> float:
        """Bytes by which the published file grows in a night."""
        return max(GROWTH * self.lake, MIN_GROWTH)


def last_night(place: Place) -> Night | None:
    """The sizes of the newest landing that counts. None before the first sync."""
    newest = place.newest()
    if newest is None:
        return None
    landing = place.raw.root / f"snapshot_date={newest.snapshot_date}" / f"landing={newest.landing}"
    lake = place.lake.days().get(newest.snapshot_date)
    published = place.warehouse.published_file
    size = published.stat().st_size if published.exists() else 0
    return Night(machine.size(landing), sum(lake.sizes.values()) if lake else 0, size)


def predict(place: Place, settings: Settings, night: Night, *, nights: int = YEAR) -> Capacity:
    """Predict what a sync needs, and the warehouse's size after `nights` nights, including Dagster's records."""
    keep = settings.keep_days
    raw_now, lake_now = machine.size(place.raw.root), machine.size(place.lake.root)
    # One day more than the setting: files are deleted one night after the views, for readers that are still open.
    days = nights if keep is None else min(nights, keep + 1)
    landed = days * (night.raw + night.lake) + (raw_now + lake_now if keep is None or nights < keep else 0)
    file = max(night.published, MIN_FILE) + nights * night.growth
    # The pseudonymous file is at most as large as the published file; three exist during the making.
    coded = 0 if place.warehouse.shared_mode is None else 1
    return Capacity(
        sync=round(2 * night.raw + 4 * night.lake + (1.5 + coded) * max(night.published, MIN_FILE) + MARGIN),
        night=round(night.raw + night.lake + (1 + coded) * night.growth),
        year=round(landed + (1 + KEPT + 3 * coded) * file + nights * RUN_BYTES),
    )
