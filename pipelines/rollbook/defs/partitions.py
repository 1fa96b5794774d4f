"""The days that are partitions, the tags that say what a run covers and how it was started, the nightly schedules."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import dagster as dg

from rollbook import settings
from rollbook.errors import RollbookError, SettingError
from rollbook.landing.raw import RawStore
from rollbook.settings import SourceSettings

PUBLISHED = dg.AssetKey(["published", "rollbook"])
# The check that the last night was synced; a run makes it, and so does `watch`.
IS_FRESH = "is_fresh"
PARTITION_TAG = "dagster/partition"
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
# A run with this tag fetches, whichever day it covers; the schedule, `rollbook sync` and each run that fetches set it.
SYNC_TAG = "rollbook/sync"
NIGHTLY, BY_HAND, BY_COMMAND = "nightly", "hand", "command"
# The account that asked for a run in the UI; the coordinator of `launches` sets it.
BY_TAG = "rollbook/by"
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
    """Return the days up to today in the easternmost zone. A sync's date is the date on which it starts.

    The first partition is the first landed day, or today if raw/ cannot be read.
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


nightly_sync = dg.define_asset_job(
    "nightly_sync",
    selection=dg.AssetSelection.all(),
    executor_def=dg.in_process_executor,
    description="Fetch both sets, snapshot, merge and publish them: one day, one run.",
)
# Characters of cron lines and zones that a schedule's name may not hold.
_IN_NAMES = str.maketrans({"*": "x", "/": "_per_", ",": "_and_", "-": "_to_", "+": "_plus_", " ": "_"})


def schedules(sources: Mapping[str, SourceSettings]) -> list[dg.ScheduleDefinition]:
    """Return a single school's schedule or, with a registry, one for each cron line and zone."""
    by_name = {_name(institution, source): source for institution, source in sources.items()}
    return [_schedule(name, source) for name, source in by_name.items()]


def _name(institution: str, source: SourceSettings) -> str:
    """The name of a single school's schedule, or of one for all institutions with this cron line and zone."""
    line = f"{source.timezone.replace('/', '_')} {' '.join(source.cron.split())}"
    return f"{NIGHTLY}_{line.translate(_IN_NAMES)}" if institution else NIGHTLY


def _schedule(name: str, source: SourceSettings) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=name,
        job=nightly_sync,
        cron_schedule=source.cron,
        execution_timezone=source.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Syncs today; all institutions with these nights in one run. If the machine was off then, it"
        " runs once when it is back.",
    )
    def tick() -> dg.RunRequest | dg.SkipReason:
        """Request today's sync: a late tick is labelled with the day on which it fetches."""
        # With the tag of its partition, Dagster accepts the day as given; it would look the day up as of the tick's
        # time, so that a tick of 23:59 that runs after midnight would not find it.
        day = str(datetime.now(source.zone).date())
        tags = {PARTITION_TAG: day, SYNC_TAG: NIGHTLY}
        if (registry := settings.registry()) is not None:
            now = settings.sources(registry)
            # One with wrong settings is in every run, which says what is wrong.
            names = [n for n in registry.institutions if n not in now or _name(n, now[n]) == name]
            if not names:
                return dg.SkipReason("no institution has these nights any more")
            tags[INSTITUTION_TAG] = ",".join(names)
        # Run keys are unique within a tick: a tick that a restarted daemon resumes requests no run twice.
        return dg.RunRequest(run_key=day, partition_key=day, tags=tags)

    return tick
