"""The nightly job and its schedules."""

from collections.abc import Mapping
from datetime import datetime

import dagster as dg

from pipelines import settings
from pipelines.defs.partitions import INSTITUTION_TAG, NIGHTLY, PARTITION_TAG, SYNC_TAG
from pipelines.settings import SourceSettings

nightly_sync = dg.define_asset_job(
    "nightly_sync",
    selection=dg.AssetSelection.all(),
    executor_def=dg.in_process_executor,
    description="Fetch both sets, snapshot, merge and publish them: one day, one run.",
)
# What a cron line and a zone are made of, as a schedule's name may hold it.
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
