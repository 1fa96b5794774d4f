"""The institutions themselves, one row each: who is there, up to which day, and what became of the last night."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec

from pipelines.institutions import Registry
from pipelines.store.parts import Given

STATE = "state"  # in the fleet's folder: what came of each institution's last night

Row = dict[str, object]


class _Outcome(msgspec.Struct, frozen=True):
    """What is read of one night's outcome; more may stand there."""

    kind: str = ""
    at: datetime | None = None
    day: date | None = None
    message: str = ""


class _State(msgspec.Struct, frozen=True):
    """What is read of an institution's state."""

    last: _Outcome | None = None
    paused: str = ""


def rows(fleet: Path, registry: Registry, given: Mapping[str, Given], left_out: Mapping[str, str]) -> list[Row]:
    """The rows of the table `institutions`, by name."""
    newest = max((g.newest_day for g in given.values() if g.newest_day), default=None)
    names = sorted({*registry.institutions, *given, *left_out})
    return [_row(name, fleet, registry, given.get(name), left_out.get(name), newest) for name in names]


def _row(
    name: str, fleet: Path, registry: Registry, given: Given | None, left_out: str | None, newest: date | None
) -> Row:
    state = _state(fleet, name)
    last = state.last or _Outcome()
    there = registry.institutions.get(name)
    day = given.newest_day if given else None
    return {
        "institution": name,
        "school_id": given.school_id if given else None,
        "school_name": given.school_name if given else None,
        "in_registry": there is not None,
        "newest_day": day,
        "days_behind": (newest - day).days if newest and day else None,
        "published_at": given.published_at if given else None,
        "version": given.version if given else None,
        "last_outcome": last.kind or None,
        "last_day": last.day,
        "last_at": last.at.astimezone(UTC).replace(tzinfo=None) if last.at and last.at.tzinfo else last.at,
        "said": last.message or None,
        "paused": (there.paused if there else "") or state.paused or None,
        "left_out": left_out,
    }


def _state(fleet: Path, name: str) -> _State:
    """What is known of an institution's last night; nothing where that is missing or cannot be read."""
    try:
        return msgspec.json.decode((fleet / STATE / f"{name}.json").read_bytes(), type=_State)
    except (OSError, msgspec.MsgspecError):
        return _State()
