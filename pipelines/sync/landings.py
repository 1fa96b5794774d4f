"""Queries over the landed manifests: which landing of a day counts, waits for approval, or comes next."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from pipelines.errors import ArgumentError, NothingLandedError
from pipelines.landing.manifest import Manifest, TableCounts, Verdict
from pipelines.landing.raw import RawStore
from pipelines.store.lake import DayRecord
from pipelines.sync import policy
from pipelines.sync.policy import Unproven, counted, is_reusable, long_unproven, open_hold


@dataclass
class Backfilled:
    """The result for each day of a backfill: rebuilt, or why it was skipped."""

    rebuilt: dict[date, DayRecord] = field(default_factory=dict)
    skipped: dict[date, str] = field(default_factory=dict)
    held: dict[date, list[int]] = field(default_factory=dict)
    counts: tuple[TableCounts, ...] = ()

    def add_day(self, day: date, manifests: Sequence[Manifest], expired: Container[date] = ()) -> list[Manifest]:
        """Record a day's held landings, or why it is skipped. Returns its landings that count."""
        landings = counted(manifests)
        held = [m.landing for m in manifests if m.verdict is Verdict.HELD]
        if held:
            self.held[day] = held
        if not landings:
            self.skipped[day] = policy.nothing_counts(day, manifests, expired)
        return landings


def days_between(first: date, last: date) -> list[date]:
    """The days of a range, both ends included. Raises ArgumentError if it ends before it begins."""
    if last < first:
        raise ArgumentError(f"The range ends before it begins: write rollbook backfill {last} {first}")
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


class Landings:
    """Queries over the manifests in `raw/`. They raise DamagedError for a manifest that cannot be read, except
    `newest` and `school_id`: whatever is damaged, tonight is fetched.
    """

    def __init__(self, raw: RawStore) -> None:
        self.raw = raw

    def counted(self, day: date) -> list[Manifest]:
        """The landings that make up a day's state, in order (G7)."""
        return counted(self.raw.manifests(day))

    def numbers(self) -> dict[date, tuple[int, ...]]:
        """The numbers of the counted landings of each day that has any."""
        days = {day: self.counted(day) for day in self.raw.days()}
        return {day: tuple(m.landing for m in landings) for day, landings in days.items() if landings}

    def held(self, day: date) -> Manifest | None:
        """The day's landing that waits for approval; None if a later landing of that day was synced (G3)."""
        return open_hold(self.raw.manifests(day))

    def to_approve(self, day: date | None = None) -> Manifest:
        """The held landing that an approval merges (default: that of the newest held day).

        Raises ArgumentError if nothing is held.
        """
        days = self.raw.days() if day is None else [day]
        found = next((held for d in reversed(days) if (held := self.held(d)) is not None), None)
        if found is None:
            of = f"on {day}" if day else "on any day"
            raise ArgumentError(
                f"Nothing is held {of}, so there is nothing to approve. `rollbook status` lists what is held"
            )
        return found

    def pending(self, day: date) -> Manifest:
        """The day's last landing that did not fail: the input of a stage that runs by itself.

        Raises NothingLandedError if there is none.
        """
        manifests = self.raw.manifests(day)
        waiting = [m for m in manifests if m.verdict is not Verdict.FAILED]
        if not waiting:
            raise NothingLandedError(policy.nothing_counts(day, manifests, self.raw.expired()), [day])
        return waiting[-1]

    def undecided(self) -> list[Manifest]:
        """The landings without a verdict, in order: their sync was killed, or could not compare them with anything."""
        return [m for m in self.raw.manifests() if m.verdict is None]

    def newest(self) -> Manifest | None:
        """The newest day's last landing that counts and can be read; None if there is none."""
        readable = (counted(self.raw.readable(day)) for day in reversed(self.raw.days()))
        return next((landings[-1] for landings in readable if landings), None)

    def long_unproven(self) -> list[Unproven]:
        """The sets that the last nights left unproven, if for long (`policy.long_unproven`)."""
        nights = (counted(self.raw.readable(day)) for day in reversed(self.raw.days()))
        return long_unproven(landings for landings in nights if landings)

    def reusable(self, day: date, now: datetime, minutes: float) -> Manifest | None:
        """The day's last landing, if it may replace another fetch (`policy.is_reusable`)."""
        manifests = self.raw.manifests(day)
        return manifests[-1] if manifests and is_reusable(manifests[-1], now, minutes) else None

    def details_since(self, day: date, moment: datetime) -> frozenset[int]:
        """The students whose details a day's counted landings fetched after `moment`."""
        bodies = (b for m in self.counted(day) if m.finished_at > moment for b in self.raw.open(m).pages())
        return frozenset(b.sought for b in bodies if b.kind == "detail" and b.sought and b.received_at > moment)

    def synced_since(self, day: date) -> list[date]:
        """The later days with a landing that counts."""
        return [d for d in self.raw.days() if d > day and self.counted(d)]

    def discarded_days(self) -> frozenset[date]:
        """The days without a counted landing because theirs were discarded."""
        return frozenset(d for d in self.raw.discarded_days() if not self.counted(d))

    def expired_days(self) -> frozenset[date]:
        """The days that only the history still holds: their raw bodies and snapshots were deleted."""
        return self.raw.expired() - set(self.raw.days())

    def skipped(self, days: Iterable[date]) -> dict[date, policy.Skip]:
        """Which of the days a backfill skips, because no landing of theirs counts, and why."""
        expired, manifests = self.raw.expired(), {day: self.raw.manifests(day) for day in days}
        return {d: policy.why_skipped(d, found, expired) for d, found in manifests.items() if not counted(found)}

    def backfilled(self, days: Iterable[date], lake: Mapping[date, DayRecord]) -> Backfilled:
        """The result of a backfill of these days: the new snapshots, and the skipped days with the reason."""
        done = Backfilled()
        for day in days:
            done.add_day(day, self.raw.manifests(day), self.raw.expired())
            if day not in done.skipped and day in lake:
                done.rebuilt[day] = lake[day]
        return done
