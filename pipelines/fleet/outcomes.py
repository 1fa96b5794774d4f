"""The outcome of an institution's last night, in `fleet/state/<name>.json`, and why it is paused.

An institution's own records (`raw/`, `ops.syncs`) say what was landed and why. This is what a fleet needs besides: what
to leave out, and what to show of an institution that has landed nothing yet.
"""

from __future__ import annotations

import logging
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path

import msgspec

from pipelines import files
from pipelines.landing.manifest import Manifest
from pipelines.landing.raw import RawStore

log = logging.getLogger(__name__)

FOLDER = "state"  # in the fleet's folder
# A key that was refused on this many nights in a row pauses its institution: it will not recover by itself.
REFUSED_NIGHTS = 3


class NightKind(StrEnum):
    """How an institution's night or backfill ended. `skipped`: no day was landed; `paused`: left out."""

    SYNCED = "synced"
    REBUILT = "rebuilt"
    SKIPPED = "skipped"
    HELD = "held"
    FAILED = "failed"
    PAUSED = "paused"


class NightOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One night of one institution. `message` says what happened and what to do next; `at` is when it ended (UTC).

    `received` counts records per set, `requests` the requests to the service; `asked` is false if the day was already
    synced, so that nothing was fetched. `refused`: the service did not accept the key. Of a backfill, `days` were
    rebuilt, and `skipped` says why others were not.
    """

    kind: NightKind
    at: datetime
    day: date | None = None
    message: str = ""
    seconds: float = 0.0
    requests: int = 0
    received: dict[str, int] = {}
    rejected: int = 0
    asked: bool = True
    refused: bool = False
    days: tuple[date, ...] = ()
    skipped: dict[date, str] = {}


def of(manifest: Manifest, *, asked: bool = True) -> NightOutcome:
    """The outcome of a landing that was decided; `asked` is whether it was fetched just now."""
    ended = manifest.judged_at or manifest.finished_at
    return NightOutcome(
        kind=NightKind(manifest.verdict.outcome) if manifest.verdict else NightKind.FAILED,
        at=ended,
        day=manifest.snapshot_date,
        message=manifest.reason,
        seconds=round((ended - manifest.started_at).total_seconds(), 3),
        requests=manifest.requests if asked else 0,
        received=manifest.received,
        rejected=sum(manifest.rejected.values()),
        asked=asked,
    )


class FleetState(msgspec.Struct, frozen=True, kw_only=True):
    """An institution's state between two nights.

    `since` is when its nights began to end as the last one did. `refused` are the last nights in a row on which its key
    was refused; `paused` is why a person paused it.
    """

    last: NightOutcome | None = None
    since: datetime | None = None
    refused: tuple[date, ...] = ()
    paused: str = ""

    def after(self, outcome: NightOutcome) -> FleetState:
        """The state after another night."""
        same = self.last is not None and self.last.kind is outcome.kind
        refused: tuple[date, ...] = ()
        if outcome.refused and outcome.day is not None:
            refused = tuple(dict.fromkeys((*self.refused, outcome.day)))[-REFUSED_NIGHTS:]
        since = self.since if same else outcome.at
        return msgspec.structs.replace(self, last=outcome, since=since, refused=refused)

    def why_paused(self, name: str) -> str:
        """Why the institution of this name is left out; empty if it is not."""
        if self.paused or len(self.refused) < REFUSED_NIGHTS:
            return self.paused
        return (
            f"the service refused its key on {REFUSED_NIGHTS} nights in a row, the last of them {self.refused[-1]};"
            f" when there is another key: rollbook fleet resume {name}"
        )


def last(raw: RawStore, state: FleetState) -> NightOutcome | None:
    """The last sync: the last one of a fleet's run, unless one by Dagster or by hand was decided later."""
    days = raw.days()
    decided = [of(manifest) for manifest in raw.manifests(days[-1]) if manifest.verdict is not None] if days else []
    return max([*([state.last] if state.last else []), *decided], key=lambda outcome: outcome.at, default=None)


def load(fleet: Path, name: str) -> FleetState:
    """An institution's state. A file that cannot be read counts as missing, and is logged."""
    path = fleet / FOLDER / f"{name}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=FleetState)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s cannot be read (%s); the next night replaces it", path, type(error).__name__)
    return FleetState()


def record(fleet: Path, name: str, outcome: NightOutcome) -> FleetState:
    """Store the outcome of an institution's night; returns the new state. Raises OSError."""
    return _save(fleet, name, load(fleet, name).after(outcome))


def pause(fleet: Path, name: str, reason: str) -> None:
    """Leave an institution out of the nights until it is resumed."""
    _save(fleet, name, msgspec.structs.replace(load(fleet, name), refused=(), paused=" ".join(reason.split())))


def resume(fleet: Path, name: str) -> bool:
    """End a pause that a person or Rollbook began; returns whether there was one."""
    was_paused = bool(load(fleet, name).why_paused(name))
    if was_paused:
        pause(fleet, name, "")
    return was_paused


def _save(fleet: Path, name: str, state: FleetState) -> FleetState:
    files.write(files.folder(fleet / FOLDER) / f"{name}.json", msgspec.json.encode(state))
    return state
