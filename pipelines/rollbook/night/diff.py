"""A dry run of a sync: fetches and compares everything, and keeps nothing.

Bodies and rows go to a private temporary folder in the warehouse's `build/`, which is removed at the end. If the
process is killed, the next writer removes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date

from rollbook.errors import BehindError, ContractChangedError
from rollbook.landing.manifest import Manifest, TableCounts
from rollbook.landing.raw import RawStore
from rollbook.night.place import Clock, Place, quiet, today_at
from rollbook.night.stages import evaluate, land, plan
from rollbook.settings import Settings
from rollbook.source.fetch import utc_now
from rollbook.source.pagination import Progress
from rollbook.store.database import machine_errors
from rollbook.store.warehouse import Warehouse
from rollbook.util import files


@dataclass(frozen=True)
class Diff:
    """The result that a sync would have: `outcome` as in `ops.syncs`, the reason, and the counts per table."""

    manifest: Manifest
    outcome: str
    reason: str
    counts: tuple[TableCounts, ...] = ()
    rejected: dict[str, int] | None = None


def diff(place: Place, settings: Settings, *, clock: Clock = utc_now, progress: Progress = quiet) -> Diff:
    """Walk both sets and compare them with what is published; change nothing. Takes no writer lock.

    Raises what fetching raises, and BehindError as `trial`.
    """
    day = today_at(settings, clock())
    with trial(place, day) as aside:
        planned = plan(place, day, settings, clock(), build=aside.warehouse.build)
        landed = land(aside, planned, settings, clock=clock, progress=progress)
        try:
            evaluation = evaluate(aside, landed, settings)
        except ContractChangedError as error:
            return Diff(landed.manifest, "failed", error.message)
    decision, rejected = evaluation.decision, evaluation.flattened.rejected()
    return Diff(landed.manifest, decision.verdict.outcome, decision.reason, decision.counts, rejected)


@contextmanager
def trial(place: Place, day: date) -> Iterator[Place]:
    """The same place, with what was landed on a day, whose writes go to a folder that is removed at the end.

    Raises BehindError when the published file does not match what was landed, because a sync would recover first and
    then compare with something else.
    """
    if not place.recovery.is_current():
        raise BehindError(
            "The published file does not match the landings: a sync is running or was interrupted, or the file was lost"
            " or changed. The next `rollbook sync` recovers it first; run this again after that"
        )
    with suppress(OSError):  # an account that may only read the warehouse can compare, too
        files.folder(place.warehouse.build)
    with machine_errors(place.warehouse.root), files.aside(place.warehouse.build) as folder:
        ours, raw = place.warehouse, RawStore(folder / "raw", place.raw.erasure_register)
        # A day is composed of all its landings.
        landed = place.raw.root / f"snapshot_date={day}"
        if landed.is_dir():
            unfinished = shutil.ignore_patterns(f".*{files.PARTIAL}")  # of a sync that is running
            shutil.copytree(landed, raw.root / landed.name, ignore=unfinished)
        yield Place(raw, Warehouse(ours.root, ours.mode, folder / "build", declared=ours.declared))
