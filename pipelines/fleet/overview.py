"""All institutions of a registry at a glance: the outcome of each one's last night, and which are late. Read-only.

Reads each institution's state and its newest day's manifests but no database, so that a thousand take seconds.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime

import msgspec
from msgspec.structs import replace

from pipelines import settings
from pipelines.errors import RollbookError
from pipelines.fleet.nights import outcomes
from pipelines.fleet.nights.outcomes import Kind, State
from pipelines.fleet.nights.runner import Fleet
from pipelines.landing.manifest import Manifest
from pipelines.operations.status import freshness
from pipelines.sync import Rollbook
from pipelines.text import naming

NEVER = "never"


class InstitutionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One institution. Times are UTC; unknown values are null.

    `outcome` is that of its last sync (`synced`, `held`, `failed`, or `never` before the first), `day` that sync's day,
    `since` when its syncs began to end that way. `paused` says why it is paused, and is empty if it is not.
    `readers_see` is the newest day that was synced. `late_by` is the seconds since a missed night was due. `requests`,
    `seconds` and `records` (per set) are the last sync's, `rejected` how many of its records were refused.
    """

    institution: str
    outcome: str = NEVER
    day: date | None = None
    at: datetime | None = None
    since: datetime | None = None
    message: str = ""
    paused: str = ""
    readers_see: date | None = None
    synced_at: datetime | None = None
    due: datetime | None = None
    late_by: float | None = None
    requests: int = 0
    seconds: float = 0.0
    records: dict[str, int] = {}
    rejected: int = 0
    refused_nights: int = 0

    @property
    def shown(self) -> str:
        """The institution's state in one word."""
        if self.paused:
            return str(Kind.PAUSED)
        if self.outcome == Kind.SYNCED and self.late_by is not None:
            return "late"
        return self.outcome

    @property
    def is_fine(self) -> bool:
        """Whether it needs no attention."""
        return self.shown == Kind.SYNCED

    @property
    def why(self) -> str:
        """What happened, and what to do, in words."""
        if self.paused:
            return self.paused
        if self.shown == "late" and self.due is not None:
            return f"the night of {self.due:%Y-%m-%d %H:%M} UTC was not synced: run `rollbook fleet sync`"
        return self.message


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What `rollbook fleet status` prints, also as JSON: the number of institutions by state, and each institution."""

    counts: dict[str, int]
    institutions: tuple[InstitutionStatus, ...]


def load_overview(fleet: Fleet) -> FleetStatus:
    """Read each institution's status. One that cannot be read is shown as failed, with the reason."""
    found = tuple(_look(fleet, name) for name in fleet.institutions)
    return FleetStatus(counts=dict(Counter(status.shown for status in found)), institutions=found)


def _look(fleet: Fleet, name: str) -> InstitutionStatus:
    state = outcomes.load(fleet.path, name)
    paused = fleet.institutions[name].paused or state.paused
    known = InstitutionStatus(institution=name, paused=paused, refused_nights=len(state.refused))
    try:
        book = Rollbook(settings.load(fetches=False, institution=name), clock=fleet.clock)
        newest, good = _newest(book), book.newest()
        due, late_by = freshness(book, good)
    except (RollbookError, OSError) as error:
        message = naming(name, error.message) if isinstance(error, RollbookError) else type(error).__name__
        return replace(known, outcome=str(Kind.FAILED), message=message)
    if good is not None:
        known = replace(known, readers_see=good.snapshot_date, synced_at=good.finished_at)
    elif newest is None and state.last is None:
        late_by = None  # it was added only recently
    return _with_last(replace(known, due=due.astimezone(UTC), late_by=late_by), state, newest)


def _newest(book: Rollbook) -> Manifest | None:
    """The last landing with a verdict: by a fleet's run, by Dagster or by hand."""
    days = book.raw.days()
    decided = [m for m in book.raw.manifests(days[-1]) if m.verdict is not None] if days else []
    return max(decided, key=lambda m: m.started_at, default=None)


def _with_last(known: InstitutionStatus, state: State, newest: Manifest | None) -> InstitutionStatus:
    """The status with the last sync: the one in the fleet's state, unless a newer one was landed."""
    last = state.last
    ended = (newest.judged_at or newest.finished_at) if newest else None
    if newest is not None and ended is not None and (last is None or last.at < ended):
        kind = newest.verdict.outcome if newest.verdict else str(Kind.FAILED)
        return replace(
            known,
            outcome=kind,
            day=newest.snapshot_date,
            at=ended,
            since=state.since if last is not None and last.kind == kind else ended,
            message=newest.reason,
            requests=newest.requests,
            seconds=round((ended - newest.started_at).total_seconds(), 3),
            records=newest.received,
            rejected=sum(newest.rejected.values()),
        )
    if last is None:
        return known
    return replace(
        known,
        outcome=str(last.kind),
        day=last.day,
        at=last.at,
        since=state.since,
        message=last.message,
        requests=last.requests,
        seconds=last.seconds,
        records=last.received,
        rejected=last.rejected,
    )
