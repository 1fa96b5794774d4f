"""What is known from the landed manifests: which landing of a day counts, waits for approval, or comes next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime

from pipelines.errors import ArgumentError, NothingLandedError
from pipelines.landing.manifest import Manifest
from pipelines.landing.raw import RawStore
from pipelines.store.lake import DayRecord
from pipelines.sync import messages
from pipelines.sync.policy import counted, is_reusable, open_hold
from pipelines.sync.results import Backfilled


class Landings:
    """Questions about `raw/`, answered from its manifests. All raise DamagedError for one that cannot be read."""

    def __init__(self, raw: RawStore) -> None:
        self.raw = raw

    def counted(self, day: date) -> list[Manifest]:
        """The landings that add up to what a day states, in order (G7)."""
        return counted(self.raw.manifests(day))

    def numbers(self) -> dict[date, tuple[int, ...]]:
        """The numbers of the counted landings of each day that has any."""
        days = {day: self.counted(day) for day in self.raw.days()}
        return {day: tuple(m.landing for m in landings) for day, landings in days.items() if landings}

    def held(self, day: date) -> Manifest | None:
        """The day's landing that waits for approval, unless a later one was synced (G3)."""
        return open_hold(self.raw.manifests(day))

    def to_approve(self, day: date | None = None) -> Manifest:
        """The held landing that an approval merges: the day's, or that of the newest held day.

        Raises ArgumentError when nothing is held.
        """
        days = self.raw.days() if day is None else [day]
        found = next((held for d in reversed(days) if (held := self.held(d)) is not None), None)
        if found is None:
            raise ArgumentError(messages.nothing_held(day))
        return found

    def pending(self, day: date) -> Manifest:
        """The day's landing that has no verdict yet, else the last one that counts.

        This is how a stage that runs by itself finds its work. Raises NothingLandedError when there is none.
        """
        manifests = self.raw.manifests(day)
        waiting = [m for m in manifests if m.verdict is None or m.counts_for_its_day]
        if not waiting:
            raise NothingLandedError(messages.nothing_counts(day, manifests, self.raw.expired()), [day])
        return waiting[-1]

    def deferred(self) -> list[Manifest]:
        """The landings that could not be evaluated when they were fetched, unless their day was fetched again since."""
        last = (self.raw.manifests(day)[-1] for day in self.raw.days())
        return [m for m in last if m.deferred and m.verdict is None]

    def newest(self) -> Manifest | None:
        """The last landing that counts of the newest day that has one."""
        return next((landings[-1] for d in reversed(self.raw.days()) if (landings := self.counted(d))), None)

    def reusable(self, day: date, now: datetime, minutes: float) -> Manifest | None:
        """The day's last landing, if it may stand for another fetch."""
        manifests = self.raw.manifests(day)
        return manifests[-1] if manifests and is_reusable(manifests[-1], now, minutes) else None

    def details_since(self, day: date, moment: datetime) -> frozenset[int]:
        """The students whose details were fetched for a day since a moment, in landings that count."""
        bodies = (b for m in self.counted(day) if m.finished_at > moment for b in self.raw.pages(m))
        return frozenset(b.sought for b in bodies if b.kind == "detail" and b.sought and b.received_at > moment)

    def synced_since(self, day: date) -> list[date]:
        """The later days that have a landing that counts."""
        return [d for d in self.raw.days() if d > day and self.counted(d)]

    def school_id(self) -> int | None:
        """The institution that the first counted landing came from."""
        for day in self.raw.days():
            for manifest in self.counted(day):
                if manifest.school_id is not None:
                    return manifest.school_id
        return None

    def discarded_days(self) -> frozenset[date]:
        """The days that have no counted landing any more because theirs were discarded."""
        return frozenset(d for d in self.raw.discarded_days() if not self.counted(d))

    def expired_days(self) -> frozenset[date]:
        """The days that only the history still holds: their raw bodies and snapshots have expired."""
        return self.raw.expired() - set(self.raw.days())

    def skipped(self, days: Iterable[date]) -> dict[date, messages.Skip]:
        """Those of the days that a backfill skips, and why: they have no landing that counts."""
        expired, manifests = self.raw.expired(), {day: self.raw.manifests(day) for day in days}
        return {d: messages.why_skipped(d, found, expired) for d, found in manifests.items() if not counted(found)}

    def backfilled(self, days: Iterable[date], lake: Mapping[date, DayRecord]) -> Backfilled:
        """What a backfill of these days came to: the snapshots of those that count, and why others were skipped."""
        done = Backfilled()
        for day in days:
            done.add_day(day, self.raw.manifests(day), self.raw.expired())
            if day not in done.skipped and day in lake:
                done.rebuilt[day] = lake[day]
        return done
