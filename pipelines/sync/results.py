"""The results of a sync, of a backfill, and of an evaluation (a dry run)."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from pipelines.errors import ArgumentError
from pipelines.ingest import Flattened
from pipelines.landing.manifest import Manifest, TableCounts, Verdict
from pipelines.store.lake import DayRecord
from pipelines.sync import messages
from pipelines.sync.composer import Composed
from pipelines.sync.policy import Decision, counted


@dataclass(frozen=True)
class Evaluation:
    """The effect of a landing, before anything is recorded: its day, composed in the build folder, and the decision."""

    flattened: Flattened
    composed: Composed
    decision: Decision


@dataclass(frozen=True)
class Synced:
    """The result of one sync: the landing with its verdict, and the changes in each current table."""

    manifest: Manifest
    day: DayRecord
    counts: tuple[TableCounts, ...]


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
            self.skipped[day] = messages.nothing_counts(day, manifests, expired)
        return landings


def days_between(first: date, last: date) -> list[date]:
    """The days of a range, both ends included. Raises ArgumentError if it ends before it begins."""
    if last < first:
        raise ArgumentError(f"The range ends before it begins: write rollbook backfill {last} {first}")
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]
