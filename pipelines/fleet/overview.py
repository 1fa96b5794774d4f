"""All institutions of a registry at a glance: the outcome of each one's last night, and which are late. Read-only.

Reads each institution's state and its newest day's manifests but no database, so that a thousand take seconds.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime

import msgspec
from msgspec.structs import replace

from pipelines import settings
from pipelines.compose import compose
from pipelines.errors import RollbookError
from pipelines.fleet import outcomes
from pipelines.fleet.nights import Fleet
from pipelines.fleet.outcomes import Kind, Outcome
from pipelines.operations.status import freshness
from pipelines.sync import Rollbook
from pipelines.text import naming

NEVER = "never"


class InstitutionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One institution. Times are UTC; unknown values are null.

    `last` is its last sync, by a fleet's run or by itself; null before the first. `since` is when its syncs began to
    end that way. `paused` says why it is paused, and is empty if it is not. `readers_see` is the newest day that was
    synced, at `synced_at`. `late_by` is the seconds since a missed night was due.
    """

    institution: str
    last: Outcome | None = None
    since: datetime | None = None
    paused: str = ""
    readers_see: date | None = None
    synced_at: datetime | None = None
    due: datetime | None = None
    late_by: float | None = None
    refused_nights: int = 0

    @property
    def outcome(self) -> str:
        """The last sync's outcome: synced, held, failed, or never."""
        return str(self.last.kind) if self.last else NEVER

    @property
    def shown(self) -> str:
        """The institution's state in one word."""
        if self.paused:
            return str(Kind.PAUSED)
        return "late" if self.outcome == Kind.SYNCED and self.late_by is not None else self.outcome

    @property
    def is_fine(self) -> bool:
        """Whether it needs no attention."""
        return self.shown == Kind.SYNCED

    @property
    def why(self) -> str:
        """What happened, and what to do, in words."""
        if self.shown == "late" and self.due is not None:
            return f"the night of {self.due:%Y-%m-%d %H:%M} UTC was not synced: run `rollbook fleet sync`"
        return self.paused or (self.last.message if self.last else "")


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What `rollbook fleet status` prints, also as JSON: the number of institutions by state, and each institution."""

    counts: dict[str, int]
    institutions: tuple[InstitutionStatus, ...]


def load_overview(fleet: Fleet) -> FleetStatus:
    """Read each institution's status. One that cannot be read is shown as failed, with the reason."""
    found = tuple(_look(fleet, name) for name in fleet.institutions)
    return FleetStatus(counts=dict(Counter(status.shown for status in found)), institutions=found)


def _look(fleet: Fleet, name: str) -> InstitutionStatus:
    state = fleet.state(name)
    paused = fleet.institutions[name].paused or state.why_paused(name)
    known = InstitutionStatus(institution=name, paused=paused, refused_nights=len(state.refused))
    try:
        book = compose(settings.load(fetches=False, institution=name), clock=fleet.clock)
        last, good = _last(book, state), book.newest()
        due, late_by = freshness(book, good)
    except (RollbookError, OSError) as error:
        message = naming(name, error.message) if isinstance(error, RollbookError) else type(error).__name__
        return replace(known, last=Outcome(kind=Kind.FAILED, at=fleet.clock(), message=message))
    if last is not None:
        same = state.last is not None and state.last.kind is last.kind
        known = replace(known, last=last, since=state.since if same else last.at)
    if good is not None:
        known = replace(known, readers_see=good.snapshot_date, synced_at=good.finished_at)
    # One that was added only recently is not late.
    return replace(known, due=due.astimezone(UTC), late_by=late_by if last is not None else None)


def _last(book: Rollbook, state: outcomes.State) -> Outcome | None:
    """The last sync: the last one of a fleet's run, unless one by Dagster or by hand was decided later."""
    days = book.raw.days()
    decided = [outcomes.of(m) for m in book.raw.manifests(days[-1]) if m.verdict is not None] if days else []
    return max([*([state.last] if state.last else []), *decided], key=lambda o: o.at, default=None)
