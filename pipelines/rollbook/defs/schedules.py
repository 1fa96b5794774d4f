"""The nightly schedule: it requests today's sync."""

from collections.abc import Callable, Mapping
from datetime import datetime

import dagster as dg

from rollbook.defs.jobs import NIGHTLY_SYNC
from rollbook.defs.partitions import NIGHTLY, PARTITION_TAG, SYNC_TAG
from rollbook.defs.resources import School
from rollbook.settings import SourceSettings


def nightly(
    school: School,
    source: SourceSettings,
    name: str = NIGHTLY,
    more_tags: Callable[[], Mapping[str, str] | None] = dict,
) -> dg.ScheduleDefinition:
    """Return the schedule of a cron line and zone. Each tick asks for `more_tags`, and is skipped if they are None."""

    @dg.schedule(
        name=school.named(name),
        job_name=school.named(NIGHTLY_SYNC),
        cron_schedule=source.cron,
        execution_timezone=source.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Syncs today; all institutions with these nights in one run. If the machine was off then, it"
        " runs once when it is back.",
    )
    def tick() -> dg.RunRequest | dg.SkipReason:
        """Request today's sync: a late tick is labelled with the day on which it fetches."""
        if (more := more_tags()) is None:
            return dg.SkipReason("no institution has these nights any more")
        # With the tag of its partition, Dagster accepts the day as given; it would look the day up as of the tick's
        # time, so that a tick of 23:59 that runs after midnight would not find it.
        day = str(datetime.now(source.zone).date())
        # Run keys are unique within a tick: a tick that a restarted daemon resumes requests no run twice.
        return dg.RunRequest(run_key=day, partition_key=day, tags={PARTITION_TAG: day, SYNC_TAG: NIGHTLY, **more})

    return tick
