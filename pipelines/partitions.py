"""What a Dagster run covers: days, which are the partitions, and institutions, which a tag names.

A run's tags also say how it was started, and so whether it fetches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import dagster as dg

from pipelines import report, settings
from pipelines.cron import due
from pipelines.errors import ArgumentError, RollbookError, SettingError
from pipelines.landing.raw import RawStore
from pipelines.settings import SourceSettings

PUBLISHED = dg.AssetKey(["published", "rollbook"])
PARTITION_TAG = "dagster/partition"
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"

# A run with this tag fetches, whichever day it covers; the schedule and `rollbook sync` set it.
SYNC_TAG = "rollbook/sync"
NIGHTLY = "nightly"
# Any of these tags marks a backfill: launched in the UI over several days, or by `rollbook backfill`.
BACKFILL_TAGS = {"dagster/backfill", RANGE_START}
# The institutions that a run is limited to, comma-separated; without it, a run covers all of the registry.
INSTITUTION_TAG = "rollbook/institution"

_SUMMER_AND_WINTER = (datetime(2026, 1, 15), datetime(2026, 7, 15))  # noqa: DTZ001 - used in every zone
_EASTERNMOST = "Etc/GMT-14"


@dataclass(frozen=True)
class Scope:
    """The days and institutions that a run covers. None are named for a single school, or for all of a registry.

    `is_alone`: the run does the work of its one institution itself. Else each has a process of its own.
    """

    days: tuple[date, ...]
    institutions: tuple[str, ...] = ()
    is_alone: bool = True

    @property
    def institution(self) -> str:
        """The institution of a run that is alone; empty for a single school, and for a run over several."""
        return self.institutions[0] if self.is_alone and self.institutions else ""


class Partitions:
    """The partitions of a single school or of a registry."""

    def __init__(
        self, timezone: str, first_day: date, sources: Mapping[str, SourceSettings], *, is_single: bool
    ) -> None:
        """`sources` says when each institution is synced; a single school's name is empty."""
        self.sources = sources
        self.is_single = is_single
        # Today is a partition: a sync is labelled with the day on which it begins.
        self.days = dg.DailyPartitionsDefinition(start_date=str(first_day), timezone=timezone, end_offset=1)

    @property
    def freshness(self) -> dg.FreshnessPolicy | None:
        """Fails when nothing was published for the longest time between two nights, and their grace period.

        With a registry, a night counts once all institutions are done. The sensor `watch` reports each late one.
        """
        nights = [due(source.cron) for source in self.sources.values()]
        return dg.FreshnessPolicy.time_window(max(n.gap + n.grace for n in nights)) if nights else None

    def scope(self, tags: Mapping[str, str]) -> Scope:
        """Return the days and institutions that a run with these tags covers.

        Raises ArgumentError for a run without a day.
        """
        first, last = (tags.get(PARTITION_TAG) or tags.get(tag) for tag in (RANGE_START, RANGE_END))
        if first is None or last is None:
            raise ArgumentError("This run has no partition: launch it for a day")
        start, end = date.fromisoformat(first), date.fromisoformat(last)
        days = tuple(start + timedelta(days=n) for n in range((end - start).days + 1))
        if self.is_single:
            return Scope(days)
        named = tuple(filter(None, map(str.strip, tags.get(INSTITUTION_TAG, "").split(","))))
        return Scope(days, named, is_alone=len(named) == 1 and tags.get(SYNC_TAG) != NIGHTLY)

    def tags(self, institution: str, first: date, last: date) -> dict[str, str]:
        """Return the tags of a run over an institution's days from `first` to `last`."""
        return {RANGE_START: str(first), RANGE_END: str(last), **owner_tags(institution)}

    def page(self, institution: str) -> str:
        """Return the URL path at which `rollbook serve` shows the morning page of an institution or a single school."""
        return f"/{report.FILE}" if self.is_single else f"/report/{institution}.html"


def owner_tags(institution: str) -> dict[str, str]:
    """Return the tag that names a run's institution. A single school has none."""
    return {INSTITUTION_TAG: institution} if institution else {}


def read() -> Partitions:
    """Return the partitions of the registry or, without one, of a single school.

    They begin today while its settings are wrong or raw/ is damaged. Raises SettingError for a broken registry.
    """
    registry = settings.registry()
    sources: dict[str, SourceSettings] = {}
    if registry is not None:
        sources = settings.sources(registry)
    else:
        with suppress(SettingError):  # the UI must load all the same; `rollbook doctor` says what is wrong
            sources = {"": settings.load(fetches=False)}
    common = settings.common_path() if sources else Path()
    firsts = [_first_day(RawStore(common / name / "raw"), source) for name, source in sources.items()]
    zones = {source.timezone for source in sources.values()} or {"UTC"}
    first = min(firsts, default=datetime.now(UTC).date())
    return Partitions(easternmost(zones), first, sources, is_single=registry is None)


def easternmost(zones: Iterable[str]) -> str:
    """Return the zone in which a day begins first, so that every institution's today is a partition.

    If no single zone is first in both summer and winter, return UTC+14.
    """
    offsets = {zone: [ZoneInfo(zone).utcoffset(day) or timedelta() for day in _SUMMER_AND_WINTER] for zone in zones}
    first = [max(column) for column in zip(*offsets.values(), strict=True)]
    return next((zone for zone, own in sorted(offsets.items()) if own == first), _EASTERNMOST)


def schedule_name(source: SourceSettings) -> str:
    """Return the name of the schedule shared by all institutions with this cron line and zone."""
    zone, cron = source.timezone, " ".join(source.cron.split())
    for sign, word in (("*", "x"), ("/", "_per_"), (",", "_and_"), ("-", "_to_"), (" ", "_")):
        cron = cron.replace(sign, word)
    for sign, word in (("/", "_"), ("+", "_plus_"), ("-", "_minus_")):
        zone = zone.replace(sign, word)
    return f"{NIGHTLY}_{zone}_{cron}"


def _first_day(raw: RawStore, source: SourceSettings) -> date:
    today = datetime.now(source.zone).date()
    try:
        return source.first_date or min((*raw.all_days(), today))
    except RollbookError:
        return today
