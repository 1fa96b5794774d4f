"""The table `institutions`, one row each: its school, its newest day, and the outcome of its last night."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date
from pathlib import Path

from pipelines.fleet.nights import outcomes
from pipelines.institutions import Registry
from pipelines.store.parts import Given

Row = dict[str, object]


def rows(fleet: Path, registry: Registry, given: Mapping[str, Given], left_out: Mapping[str, str]) -> list[Row]:
    """The rows of the table `institutions`, in the order of their names."""
    newest = max((g.newest_day for g in given.values() if g.newest_day), default=None)
    names = sorted({*registry.institutions, *given, *left_out})
    return [_row(name, fleet, registry, given.get(name), left_out.get(name), newest) for name in names]


def _row(
    name: str, fleet: Path, registry: Registry, given: Given | None, left_out: str | None, newest: date | None
) -> Row:
    state = outcomes.load(fleet, name)
    last = state.last
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
        "last_outcome": str(last.kind) if last else None,
        "last_day": last.day if last else None,
        "last_at": last.at.astimezone(UTC).replace(tzinfo=None) if last else None,
        "said": (last.message or None) if last else None,
        "paused": (there.paused if there else "") or state.paused or None,
        "left_out": left_out,
    }
