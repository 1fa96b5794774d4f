"""Approvals: a held landing is merged without another fetch (G3)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date

from rollbook.errors import ArgumentError
from rollbook.landing.manifest import Approval, Manifest
from rollbook.night import Synced
from rollbook.night.rollbook import Rollbook
from rollbook.night.stages import Landed, merge, publish, snapshot
from rollbook.night.writing import reported_end, writer
from rollbook.util import machine


def approve(
    rollbook: Rollbook,
    digests: Collection[str],
    *,
    days: Collection[date] | None = None,
    reason: str = "",
    by: str = "",
) -> Synced:
    """Merge and publish the held landings with these `digests`, which a person was shown, in the order of their days,
    without a fetch (G3).

    The `reason`, and who approved (default: the person who runs this), are kept with them. Returns the newest day's
    result. Raises ArgumentError, also for landings of other than these `days`.
    """
    with reported_end(rollbook, max(days or (), default=rollbook.today())), writer(rollbook):
        held = held_as_shown(rollbook, digests, days)
        approved = [snapshot(rollbook, Landed(each), approval(rollbook, each, reason, by)) for each in held]
        merged = merge(rollbook)
        publish(rollbook, merged)
    manifest, record = approved[-1]
    return Synced(manifest, record, merged.counts)


def approval(rollbook: Rollbook, held: Manifest, reason: str = "", by: str = "") -> Approval:
    """The approval of a held landing `by` somebody (default: the person who runs this). Raises ArgumentError for a
    reason that holds a secret.
    """
    rollbook.settings.check_words(reason)
    return Approval(
        by=by or machine.person(),
        approved_at=rollbook.clock(),
        reason=reason,
        held=held.reason,
        held_at=held.judged_at or held.finished_at,
        counts=held.counts,
    )


def to_approve(rollbook: Rollbook, day: date | None = None, *, every_day: bool = False) -> list[Manifest]:
    """The held landings that an approval merges, in the order of their days: a day's (default: the newest held
    day's), or those of every day.

    Raises ArgumentError if nothing is held.
    """
    days = rollbook.raw.days() if day is None else [day]
    landings = [held for each in days if (held := rollbook.landings.held(each)) is not None]
    if not landings:
        of = f"on {day}" if day else "on any day"
        raise ArgumentError(
            f"Nothing is held {of}, so there is nothing to approve. `rollbook status` lists what is held"
        )
    return landings if every_day else landings[-1:]


def held_as_shown(rollbook: Rollbook, digests: Collection[str], days: Collection[date] | None = None) -> list[Manifest]:
    """The held landings of these days (default: of any) with these digests, in the order of their days. Requires
    the writer lock: while an approval waits for it, another sync may hold or merge something else.

    Raises ArgumentError unless each of them is still held as a person was shown.
    """
    held = [each for day in rollbook.raw.days() if (each := rollbook.landings.held(day)) is not None]
    landings = [m for m in held if m.hold_digest in digests and (days is None or m.snapshot_date in days)]
    if not digests or len(landings) < len({*digests}):
        raise ArgumentError(
            "An approval names held landings by their digests, and what was named is not held now, or would change"
            " something else: look at `rollbook status`, then approve what it shows. Nothing was merged"
        )
    return landings
