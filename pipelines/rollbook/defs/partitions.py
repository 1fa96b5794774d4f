"""The days that are partitions, the tags that say what a run covers and how it was started, the nightly schedules."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import dagster as dg

from rollbook import settings
from rollbook.defs.school import School
from rollbook.errors import DamagedError, RollbookError, SettingError
from rollbook.landing.manifest import Verdict
from rollbook.landing.raw import RawStore
from rollbook.settings import SourceSettings

JOB = "nightly_sync"
PARTITION_TAG = "dagster/partition"
RANGE_START = "dagster/asset_partition_range_start"
# A run with this tag fetches, whichever day it covers; the schedule and each run that fetches set it.
SYNC_TAG = "rollbook/sync"
NIGHTLY, BY_HAND = "nightly", "hand"
# Either tag marks a backfill: launched in the UI over several days.
BACKFILL_TAGS = {"dagster/backfill", RANGE_START}
# The institutions that a run is limited to, comma-separated; without it, a run covers all of the registry.
INSTITUTION_TAG = "rollbook/institution"


def sources(school: School) -> dict[str, SourceSettings]:
    """Return when each institution is synced; a single school's name is empty.

    Empty while a single school's settings are wrong. Raises SettingError for a broken registry.
    """
    if (registry := school.registry()) is not None:
        return settings.sources(registry)
    with suppress(SettingError):  # the UI must load all the same; `rollbook doctor` says what is wrong
        return {"": school.settings()}
    return {}


def days(school: School, of: Mapping[str, SourceSettings]) -> dg.DailyPartitionsDefinition:
    """Return the days on which something was landed, and today in the easternmost zone, on which a sync may begin.

    Days without a landing are left out: the service keeps no history, so nothing could make them.
    """
    zones = {source.timezone for source in of.values()} or {"UTC"}
    easternmost = max(sorted(zones), key=lambda zone: datetime.now(ZoneInfo(zone)).utcoffset() or timedelta())
    today = datetime.now(ZoneInfo(easternmost)).date()
    landed = {today}.union(*(landed_days(Path(school.folder()) / name / "raw", of_many=bool(name)) for name in of))
    first = min(landed)
    without = [day for n in range((today - first).days) if (day := first + timedelta(days=n)) not in landed]
    midnights = [datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(easternmost)) for day in without]
    return dg.DailyPartitionsDefinition(str(first), timezone=easternmost, end_offset=1, exclusions=midnights or None)


def landed_days(raw: Path, *, of_many: bool = False) -> set[date]:
    """Return the days on which a landing counts or may still be approved. A damaged day is one of them: a run says so.

    Of an institution of many, only the folders are read: a thousand with a year of days each would take minutes.
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
    """Whether a run fetches its day. A backfill does not (G8), nor does a run of a past day that is not started as a
    sync.
    """
    by_hand = len(days) == 1 and days[0] in todays
    return not BACKFILL_TAGS & set(tags) and (SYNC_TAG in tags or by_hand)


# Characters of cron lines and zones that a schedule's name may not hold.
_IN_NAMES = str.maketrans({"*": "x", "/": "_per_", ",": "_and_", "-": "_to_", "+": "_plus_", " ": "_"})


def schedules(school: School, sources: Mapping[str, SourceSettings]) -> list[dg.ScheduleDefinition]:
    """Return a single school's schedule or, with a registry, one for each cron line and zone."""
    by_name = {_name(institution, source): source for institution, source in sources.items()}
    return [_schedule(school, name, source) for name, source in by_name.items()]


def _name(institution: str, source: SourceSettings) -> str:
    """The name of a single school's schedule, or of one for all institutions with this cron line and zone."""
    line = f"{source.timezone.replace('/', '_')} {' '.join(source.cron.split())}"
    return f"{NIGHTLY}_{line.translate(_IN_NAMES)}" if institution else NIGHTLY


def _schedule(school: School, name: str, source: SourceSettings) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=school.named(name),
        job_name=school.named(JOB),
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
        if (registry := school.registry()) is not None:
            now = settings.sources(registry)
            # One with wrong settings is in every run, which says what is wrong.
            names = [n for n in registry.institutions if n not in now or _name(n, now[n]) == name]
            if not names:
                return dg.SkipReason("no institution has these nights any more")
            tags[INSTITUTION_TAG] = ",".join(names)
        # Run keys are unique within a tick: a tick that a restarted daemon resumes requests no run twice.
        return dg.RunRequest(run_key=day, partition_key=day, tags=tags)

    return tick
