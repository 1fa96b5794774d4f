"""Approvals: a held landing is merged without another fetch (G3)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime

from rollbook.errors import ArgumentError
from rollbook.landing.manifest import Approval, Manifest
from rollbook.night import Synced
from rollbook.night.place import Place, today_at
from rollbook.night.stages import Landed, merge, snapshot
from rollbook.night.writing import Writer, reported_end
from rollbook.util import machine


def approve(
    writer: Writer,
    digests: Collection[str],
    *,
    days: Collection[date] | None = None,
    reason: str = "",
    by: str = "",
) -> Synced:
    """Merge and publish the held landings with these `digests`, which a person was shown, in the order of their days,
    without a fetch (G3).

    The `reason`, and who approved (default: the person who runs this), are kept with them. Returns the newest day's
    result. Raises ArgumentError, also for landings of other than these `days`, and for a reason that holds a
    secret.
    """
    place, settings, clock = writer.place, writer.settings, writer.clock
    waiting = [day for day in days or place.raw.days() if is_held(place, day, digests)]
    last = max(waiting, default=today_at(settings, clock()))
    with reported_end(writer.listeners, last), writer.writing():
        settings.check_words(reason)
        held = held_as_shown(place, digests, days)
        approved = [
            snapshot(place, Landed(each), settings, clock(), approval(each, clock(), reason, by)) for each in held
        ]
        merged = merge(place)
        writer.publish(merged)
    manifest, record = approved[-1]
    return Synced(manifest, record, merged.counts)


def is_held(place: Place, day: date, digests: Collection[str]) -> bool:
    """Whether a day's landing with one of these digests is held."""
    return (held := place.landings.held(day)) is not None and held.hold_digest in digests


def approval(held: Manifest, at: datetime, reason: str = "", by: str = "") -> Approval:
    """The approval of a held landing `by` somebody (default: the person who runs this)."""
    return Approval(
        by=by or machine.person(),
        approved_at=at,
        reason=reason,
        held=held.reason,
        held_at=held.judged_at or held.finished_at,
        counts=held.counts,
    )


def to_approve(place: Place, day: date | None = None, *, every_day: bool = False) -> list[Manifest]:
    """The held landings that an approval merges, in the order of their days: a day's (default: the newest held
    day's), or those of every day.

    Raises ArgumentError if nothing is held.
    """
    days = place.raw.days() if day is None else [day]
    landings = [held for each in days if (held := place.landings.held(each)) is not None]
    if not landings:
        of = f"on {day}" if day else "on any day"
        raise ArgumentError(
            f"Nothing is held {of}, so there is nothing to approve. `rollbook status` lists what is held"
        )
    return landings if every_day else landings[-1:]


def held_as_shown(place: Place, digests: Collection[str], days: Collection[date] | None = None) -> list[Manifest]:
    """The held landings of these days (default: of any) with these digests, in the order of their days. Requires
    the writer lock: while an approval waits for it, another sync may hold or merge something else.

    Raises ArgumentError unless each of them is still held as a person was shown.
    """
    held = [each for day in place.raw.days() if (each := place.landings.held(day)) is not None]
    landings = [m for m in held if m.hold_digest in digests and (days is None or m.snapshot_date in days)]
    if not digests or len(landings) < len({*digests}):
        raise ArgumentError(
            "An approval names held landings by their digests, and what was named is not held now, or would change"
            " something else: look at `rollbook status`, then approve what it shows. Nothing was merged"
        )
    return landings
