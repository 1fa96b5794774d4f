"""What came of a sync, a backfill, or a look at what one would do."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import date

from pipelines import landing
from pipelines.landing import Hold, Manifest, TableCounts, Verdict
from pipelines.store.lake import DayRecord
from pipelines.sync import words
from pipelines.sync.days import Composed, Flattened


@dataclass(frozen=True)
class Weighed:
    """What a landing makes of its day, before anything is decided: the day composed aside, and what it would change."""

    flattened: Flattened
    composed: Composed
    hold: Hold


@dataclass(frozen=True)
class Synced:
    """What one sync did: the judged landing, and what changed in the current tables."""

    manifest: Manifest
    day: DayRecord
    counts: tuple[TableCounts, ...]


@dataclass
class Backfilled:
    """What became of each day of a backfill: rebuilt, or why not, in words."""

    rebuilt: dict[date, DayRecord] = field(default_factory=dict)
    skipped: dict[date, str] = field(default_factory=dict)
    held: dict[date, list[int]] = field(default_factory=dict)
    counts: tuple[TableCounts, ...] = ()

    def look(self, day: date, manifests: Sequence[Manifest], thinned: Container[date] = ()) -> list[Manifest]:
        """Note what of a day's landings is left out, and why; returns those that count."""
        counted = landing.counted(manifests)
        held = [m.landing for m in manifests if m.verdict is Verdict.HELD]
        if held:
            self.held[day] = held
        if not counted:
            self.skipped[day] = words.nothing(day, manifests, thinned)
        return counted
