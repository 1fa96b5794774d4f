"""The days that are partitions, and the tags that say what a run covers and how it was started."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import dagster as dg

from rollbook.defs.resources import School
from rollbook.errors import DamagedError, RollbookError
from rollbook.landing.manifest import Verdict
from rollbook.landing.raw import RawStore

PARTITION_TAG = "dagster/partition"
RANGE_START = "dagster/asset_partition_range_start"
# A run with this tag fetches, whichever day it covers; the schedule and each run that fetches set it.
SYNC_TAG = "rollbook/sync"
NIGHTLY, BY_HAND = "nightly", "hand"
# Either tag marks a backfill: launched in the UI over several days.
BACKFILL_TAGS = {"dagster/backfill", RANGE_START}


def days(school: School) -> dg.DailyPartitionsDefinition:
    """Return the days on which something was landed, and today in the easternmost zone, on which a sync may begin.

    Days without a landing are left out: the service keeps no history, so nothing could make them. Raises SettingError.
    """
    sources = school.sources()
    zones = {source.timezone for source in sources.values()} or {"UTC"}
    easternmost = max(sorted(zones), key=lambda zone: datetime.now(ZoneInfo(zone)).utcoffset() or timedelta())
    today = datetime.now(ZoneInfo(easternmost)).date()
    landed = {today}.union(*(landed_days(Path(school.folder()) / name / "raw", of_many=bool(name)) for name in sources))
    first = min(landed)
    without = [day for n in range((today - first).days) if (day := first + timedelta(days=n)) not in landed]
    midnights = [datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(easternmost)) for day in without]
    return dg.DailyPartitionsDefinition(str(first), timezone=easternmost, end_offset=1, exclusions=midnights or None)


def landed_days(raw: Path, *, of_many: bool = False) -> set[date]:
    """Return the days on which a landing counts or may still be approved.

    A day with a damaged manifest is included, so that its run reports the damage. With `of_many` institutions, only the
    folders are read: a thousand with a year of days each would take minutes.
    """
    landed = set[date]()
    with suppress(RollbookError, OSError):
        store = RawStore(raw)
        for day in store.days():
            with suppress(DamagedError):
                if not of_many and all(m.verdict is Verdict.FAILED for m in store.manifests(day)):
                    continue
            landed.add(day)
    return landed


def is_sync(tags: Mapping[str, str], days: Sequence[date], todays: Collection[date]) -> bool:
    """Whether a run fetches its day.

    A backfill does not (G8), nor does a run of a past day that was not started as a sync.
    """
    by_hand = len(days) == 1 and days[0] in todays
    return not BACKFILL_TAGS & set(tags) and (SYNC_TAG in tags or by_hand)
