"""Cron schedules: when a sync is due, and when it is late. Reads no settings and no clock.

Times are wall clock times in the schedule's zone, by the rules of Dagster's scheduler: a tick in the hour that daylight
saving skips runs right after the gap; a tick in the repeated hour runs once, the second time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

# How long a sync may take before it is late. 100,000 students take minutes; with every retry used, an hour.
GRACE = timedelta(hours=2)
# The end of daylight saving moves a sync by an hour, which must not make it late.
SLACK = timedelta(hours=1)
MIN_GRACE = timedelta(minutes=10)

# The cron syntax that cronsim and Dagster read alike: five fields of numbers, names, lists, ranges and steps.
_FIELD = r"(\*|\d+|[a-z]{3})(-(\d+|[a-z]{3}))?(/\d+)?"
_LINE = re.compile(rf"{_FIELD}(,{_FIELD})*(\s+{_FIELD}(,{_FIELD})*){{4}}", re.IGNORECASE)
# Ticks that are looked at: two years of nights cover every distance between two of them.
_COMPARED_TICKS = 800
_MONDAY = datetime(2026, 1, 5)  # noqa: DTZ001 - lines are compared without a zone


def check(line: str) -> None:
    """Raise ValueError for an invalid cron line."""
    try:
        CronSim(line, _MONDAY)
    except CronSimError:
        raise ValueError(line) from None
    if not _LINE.fullmatch(line.strip()):
        raise ValueError(line)


def ticks(line: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield the ticks after `after`, in the zone, as Dagster's scheduler does."""
    return _in_zone(line, zone, after, reverse=False)


def last_tick(line: str, zone: ZoneInfo, until: datetime) -> datetime:
    """Return the latest tick that is not after `until`."""
    candidates = _in_zone(line, zone, until + timedelta(minutes=1), reverse=True)
    return next(tick for tick in candidates if tick.astimezone(UTC) <= until.astimezone(UTC))


def _in_zone(line: str, zone: ZoneInfo, start: datetime, *, reverse: bool) -> Iterator[datetime]:
    sim = CronSim(line, start.astimezone(zone), reverse=reverse)
    # cronsim picks the first of two equal wall clock times; an hourly line runs at both.
    picks_second = len(sim.hours) < 24
    for tick in sim:
        actual = tick.replace(fold=1) if picks_second else tick
        if reverse or actual.astimezone(UTC) > start.astimezone(UTC):
            yield actual


@dataclass(frozen=True)
class Due:
    """When a scheduled sync is late: `grace` after its tick. It counts if it starts at most `slack` before the tick.

    `gap` is the longest time between two ticks.
    """

    grace: timedelta
    slack: timedelta
    gap: timedelta


@cache
def due(line: str) -> Due:
    """Return when the syncs of a cron line are late."""
    gaps = [b - a for a, b in pairwise(islice(CronSim(line, _MONDAY), _COMPARED_TICKS))]
    grace = min(GRACE, min(gaps) / 2)
    grace -= grace % (timedelta(hours=1) if grace >= timedelta(hours=1) else timedelta(minutes=1))
    if grace < MIN_GRACE:
        return Due(MIN_GRACE, timedelta(0), max(gaps))
    return Due(grace, min(SLACK, min(gaps) - grace), max(gaps))
