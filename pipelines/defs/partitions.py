"""The days that are partitions, and the tags that say what a run covers and how it was started."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import dagster as dg

from pipelines import settings
from pipelines.errors import RollbookError, SettingError
from pipelines.landing.raw import RawStore
from pipelines.settings import SourceSettings

PUBLISHED = dg.AssetKey(["published", "rollbook"])
PARTITION_TAG = "dagster/partition"
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
# A run with this tag fetches, whichever day it covers; the schedule, `rollbook sync` and each run that fetches set it.
SYNC_TAG = "rollbook/sync"
NIGHTLY, BY_HAND, BY_COMMAND = "nightly", "hand", "command"
# Either tag marks a backfill: launched in the UI over several days, or by `rollbook backfill`.
BACKFILL_TAGS = {"dagster/backfill", RANGE_START}
# The institutions that a run is limited to, comma-separated; without it, a run covers all of the registry.
INSTITUTION_TAG = "rollbook/institution"


def sources() -> dict[str, SourceSettings]:
    """Return when each institution is synced; a single school's name is empty.

    Empty while a single school's settings are wrong. Raises SettingError for a broken registry.
    """
    if (registry := settings.registry()) is not None:
        return settings.sources(registry)
    with suppress(SettingError):  # the UI must load all the same; `rollbook doctor` says what is wrong
        return {"": settings.load(fetches=False)}
    return {}


def days(of: Mapping[str, SourceSettings]) -> dg.DailyPartitionsDefinition:
    """Return the days up to today, in the zone where a day begins first; a sync is labelled with its first moment's.

    They begin with the first landed day, and today while raw/ is damaged.
    """
    zones = {source.timezone for source in of.values()} or {"UTC"}
    first = min((_first_day(name, source) for name, source in of.items()), default=datetime.now(UTC).date())
    easternmost = max(sorted(zones), key=lambda zone: datetime.now(ZoneInfo(zone)).utcoffset() or timedelta())
    return dg.DailyPartitionsDefinition(start_date=str(first), timezone=easternmost, end_offset=1)


def _first_day(name: str, source: SourceSettings) -> date:
    today = datetime.now(source.zone).date()
    with suppress(RollbookError):
        return source.first_date or min((*RawStore(settings.common_path() / name / "raw").all_days(), today))
    return today


def is_sync(tags: Mapping[str, str], days: Sequence[date], todays: Collection[date], *, approve: bool) -> bool:
    """Whether a run syncs its day: fetches it, or approves it. A backfill fetches nothing (G8), nor does any run of a
    past day that is not started as a sync.
    """
    by_hand = approve or (len(days) == 1 and days[0] in todays)
    return not BACKFILL_TAGS & set(tags) and (SYNC_TAG in tags or by_hand)


def owner_tags(institution: str) -> dict[str, str]:
    """Return the tag that names a run's institution. A single school has none."""
    return {INSTITUTION_TAG: institution} if institution else {}
