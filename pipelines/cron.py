"""The cron line as moments: when a night is due, and when it is late. No settings are read here, and no clock.

A line's hours are those of a wall clock in its zone, with the rules that Dagster's scheduler goes by: a time that the
spring's change skips comes at the first moment after the gap, one that the autumn's change repeats comes once, the
second time.
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

# How long a night may take before it is late. A sync of 100,000 students takes minutes; with every retry used, an hour.
GRACE = timedelta(hours=2)
# A night that the autumn's change moves by an hour is not late for it.
SLACK = timedelta(hours=1)
LEAST_GRACE = timedelta(minutes=10)

# The lines that both cronsim and Dagster read, and read alike: five fields of numbers, names, lists, ranges, steps.
_FIELD = r"(\*|\d+|[a-z]{3})(-(\d+|[a-z]{3}))?(/\d+)?"
_LINE = re.compile(rf"{_FIELD}(,{_FIELD})*(\s+{_FIELD}(,{_FIELD})*){{4}}", re.IGNORECASE)
# Two years show every weekday on every date that a shifted line could get wrong; no line needs more moments to tell.
_LOOKED_AT = 800
_MONDAY = datetime(2026, 1, 5)  # noqa: DTZ001 - the line itself is compared, in no zone


def check(line: str) -> None:
    """Raise ValueError for a line that does not say when."""
    try:
        CronSim(line, _MONDAY)
    except CronSimError:
        raise ValueError(line) from None
    if not _LINE.fullmatch(line.strip()):
        raise ValueError(line)


def ticks(line: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """The moments after `after`, in the zone, as Dagster's scheduler has them."""
    return _in_zone(line, zone, after, reverse=False)


def last_tick(line: str, zone: ZoneInfo, until: datetime) -> datetime:
    """The latest moment that is not after `until`."""
    found = _in_zone(line, zone, until + timedelta(minutes=1), reverse=True)
    return next(tick for tick in found if tick.astimezone(UTC) <= until.astimezone(UTC))


def _in_zone(line: str, zone: ZoneInfo, start: datetime, *, reverse: bool) -> Iterator[datetime]:
    sim = CronSim(line, start.astimezone(zone), reverse=reverse)
    # cronsim takes the first of two equal times; a line of every hour means both.
    fixed = len(sim.hours) < 24
    for tick in sim:
        moment = tick.replace(fold=1) if fixed else tick
        if reverse or moment.astimezone(UTC) > start.astimezone(UTC):
            yield moment


@dataclass(frozen=True)
class Due:
    """When a line's night is late.

    `deadline` is the line shifted by `grace`; None when no line says so (nights closer together than a few minutes,
    or on dates that a shift past midnight would tear apart). `slack` is how long before its tick a sync still counts
    as that night's. `gap` is the longest time between two nights.
    """

    grace: timedelta
    slack: timedelta
    gap: timedelta
    deadline: str | None


@cache
def due(line: str) -> Due:
    """When the nights of a line are late."""
    moments = list(islice(CronSim(line, _MONDAY), _LOOKED_AT))
    gaps = [b - a for a, b in pairwise(moments)]
    least = min(gaps)
    grace = min(GRACE, least / 2)
    grace -= grace % (timedelta(hours=1) if grace >= timedelta(hours=1) else timedelta(minutes=1))
    if grace < LEAST_GRACE:
        return Due(LEAST_GRACE, timedelta(0), max(gaps), None)
    slack = min(SLACK, least - grace)
    wanted = [m + grace for m in moments]
    shifted = next((s for s in _shifts(line, grace) if _says(s, wanted)), None)
    return Due(grace, slack, max(gaps), shifted)


def _shifts(line: str, grace: timedelta) -> Iterator[str]:
    """Lines that may say `grace` later than `line`: on the same days, or past midnight, on the following ones."""
    sim = CronSim(line, _MONDAY)
    days, months, weekdays = line.split()[2:]
    hours, minutes = divmod(int(grace.total_seconds()) // 60, 60)
    later_hours = _listed({(h + hours) % 24 for h in sim.hours}, 24)
    later_minutes = _listed({(m + minutes) % 60 for m in sim.minutes}, 60)
    yield f"{later_minutes} {later_hours} {days} {months} {weekdays}"
    if days == "*":
        # Tuples are weekdays of a certain week (2#1), which `check` refuses.
        following = _listed({(d + 1) % 7 for d in sim.weekdays if isinstance(d, int)}, 7)
        yield f"{later_minutes} {later_hours} {days} {months} {following}"


def _listed(values: set[int], count: int) -> str:
    return "*" if len(values) == count else ",".join(map(str, sorted(values)))


def _says(line: str, wanted: list[datetime]) -> bool:
    found = CronSim(line, wanted[0] - timedelta(minutes=1))
    return all(next(found) == moment for moment in wanted)
