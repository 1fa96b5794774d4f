"""The outcome of an institution's last night, in `fleet/state/<name>.json`, and when a refused key pauses it.

An institution's own records (`raw/`, `ops.syncs`) say what was landed and why. This is what a fleet needs besides: what
to retry, what to leave out, and what to show of an institution that has landed nothing yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path

import msgspec
from filelock import FileLock

from pipelines import files

log = logging.getLogger(__name__)

FOLDER = "state"  # in the fleet's folder
# A key that was refused on this many nights in a row pauses its institution: it will not recover by itself.
REFUSED_NIGHTS = 3


class Kind(StrEnum):
    """How an institution's night ended. `paused`: it was left out."""

    SYNCED = "synced"
    HELD = "held"
    FAILED = "failed"
    PAUSED = "paused"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One night of one institution. `message` says what happened and what to do next; `at` is when it ended (UTC).

    `received` counts records per set, `requests` the requests to the service; `asked` is false if the day was already
    synced, so that nothing was fetched. `refused`: the service did not accept the key.
    """

    kind: Kind
    at: datetime
    day: date | None = None
    message: str = ""
    seconds: float = 0.0
    requests: int = 0
    received: dict[str, int] = {}
    rejected: int = 0
    asked: bool = True
    refused: bool = False


class State(msgspec.Struct, frozen=True, kw_only=True):
    """An institution's state between two nights.

    `since` is when its nights began to end as the last one did. `refused` are the last nights in a row on which its key
    was refused; `paused` says why Rollbook paused it.
    """

    last: Outcome | None = None
    since: datetime | None = None
    refused: tuple[date, ...] = ()
    paused: str = ""

    def after(self, outcome: Outcome, name: str) -> State:
        """The state after another night: paused, if its key was refused on the last REFUSED_NIGHTS nights."""
        same = self.last is not None and self.last.kind is outcome.kind and self.since is not None
        refused: tuple[date, ...] = ()
        if outcome.refused and outcome.day is not None:
            refused = tuple(dict.fromkeys((*self.refused, outcome.day)))[-REFUSED_NIGHTS:]
        paused = self.paused
        if len(refused) == REFUSED_NIGHTS and not paused:
            paused = _key_refused(refused, name)
        return State(
            last=outcome,
            since=self.since if same else outcome.at,
            refused=refused,
            paused=paused,
        )


def load(fleet: Path, name: str) -> State:
    """An institution's state. A file that cannot be read counts as missing, and is logged."""
    path = _path(fleet, name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return State()
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s cannot be read (%s); the next night replaces it", path, type(error).__name__)
        return State()


def record(fleet: Path, name: str, outcome: Outcome) -> State:
    """Store the outcome of an institution's night; returns the new state."""
    return _change(fleet, name, lambda state: state.after(outcome, name))


def resume(fleet: Path, name: str) -> bool:
    """End a pause that Rollbook began; returns whether there was one."""
    paused = bool(load(fleet, name).paused)
    if paused:
        _change(fleet, name, lambda state: msgspec.structs.replace(state, refused=(), paused=""))
    return paused


def _change(fleet: Path, name: str, change: Callable[[State], State]) -> State:
    """Change a state, under a lock: two processes may do so at once."""
    folder = files.folder(fleet / FOLDER)
    with FileLock(folder / ".lock", mode=files.PRIVATE_FILE):
        state = change(load(fleet, name))
        files.write(_path(fleet, name), msgspec.json.encode(state))
    return state


def _path(fleet: Path, name: str) -> Path:
    return fleet / FOLDER / f"{name}.json"


def _key_refused(nights: tuple[date, ...], name: str) -> str:
    return (
        f"the service refused its key on {len(nights)} nights in a row, the last of them {nights[-1]}; when there is"
        f" another key: rollbook fleet resume {name}"
    )
