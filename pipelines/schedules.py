"""The nightly job, its cron, and who hears of its runs. What the job does is in `assets`, what is said in `alerts`."""

from datetime import UTC, date, datetime, timedelta

import dagster as dg

from pipelines import runs
from pipelines.assets import BACKFILL_TAGS, SYNC_TAG
from pipelines.cron import due
from pipelines.errors import HeldError, RollbookError
from pipelines.notify.alerts import Alerts, Kind, Outcome
from pipelines.resources import settings_or_none
from pipelines.settings import Settings
from pipelines.sync import Rollbook

WILL_RETRY_TAG = "dagster/will_retry"
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]
UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]
# Runs looked at per tick of the sensor; a daemon that was off for long catches up a minute at a time.
RUNS_AT_ONCE = 20
# Looked at again each time: what ends while a look is under way is not missed, and nothing is told twice.
OVERLAP = timedelta(seconds=5)

_SETTINGS = settings_or_none()

nightly_sync = dg.define_asset_job(
    "nightly_sync",
    selection=dg.AssetSelection.all(),
    executor_def=dg.in_process_executor,
    description="Fetch both sets, snapshot, merge and publish them: one day, one run.",
)


@dg.schedule(
    job=nightly_sync,
    cron_schedule=_SETTINGS.cron if _SETTINGS else "15 2 * * *",
    execution_timezone=_SETTINGS.timezone if _SETTINGS else "UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Sync the day it is now. A night that the machine slept through is caught up once, when it is back.",
)
def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Ask for the sync of the day it is now: a tick that comes late is labelled with the day on which it fetches."""
    if _SETTINGS is None:
        return dg.SkipReason("ROLLBOOK_BASE_URL and ROLLBOOK_API_KEY are not set: see .env.example, then restart")
    now = datetime.now(_SETTINGS.zone)
    context.log.info("tick of %s, %s late", context.scheduled_execution_time, now - context.scheduled_execution_time)
    # With the tag, Dagster takes the day as it is; else it looks it up as of the tick's time, when a tick of 23:59 that
    # is caught up after midnight has no such partition yet.
    day = str(now.date())
    return dg.RunRequest(partition_key=day, tags={SYNC_TAG: "nightly", "dagster/partition": day})


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Tells of failed, held and late syncs, and of the first good one after, by webhook and mail where they "
    "are set; and marks runs as failed whose process was killed, so that they hold up no later night.",
)
def watch(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Look at what ended since the last look. It starts no run."""
    runs.bury(context.instance)
    if _SETTINGS is None:
        return dg.SkipReason("ROLLBOOK_BASE_URL and ROLLBOOK_API_KEY are not set: see .env.example, then restart")
    alerts = Alerts(Rollbook(_SETTINGS))
    if not alerts.wanted:
        return dg.SkipReason("neither ROLLBOOK_ALERT_WEBHOOK nor ROLLBOOK_SMTP_URL is set: nobody is told")
    seen = look(context.instance, alerts, datetime.fromisoformat(context.cursor) if context.cursor else None)
    context.update_cursor(seen.isoformat())
    return dg.SkipReason("looked")


def look(instance: dg.DagsterInstance, alerts: Alerts, since: datetime | None) -> datetime:
    """Report the syncs that ended since `since` (None: from now on), and a night that is late; deliver what waits.

    Returns the moment from which to look the next time.
    """
    missed = alerts.missed()
    now = datetime.now(UTC)
    since = min(since or now, now)  # a clock that was set back must not hide what ends from now on
    found = dg.RunsFilter(statuses=ENDED, updated_after=since - OVERLAP)
    ended = instance.get_run_records(found, limit=RUNS_AT_ONCE, order_by="update_timestamp", ascending=True)
    for record in ended:
        tell(instance, alerts, record)
        since = max(since, record.update_timestamp)
    if missed is not None and len(ended) < RUNS_AT_ONCE:
        _tell_late(instance, alerts, missed)
    alerts.deliver()
    return since


def tell(instance: dg.DagsterInstance, alerts: Alerts, record: dg.RunRecord) -> None:
    """Report what became of a run, if it was a sync."""
    run = record.dagster_run
    # A command's run has no origin, and without one Dagster cannot start it again, whatever the tag says.
    will_retry = run.tags.get(WILL_RETRY_TAG) == "true" and run.remote_job_origin is not None
    if SYNC_TAG not in run.tags or BACKFILL_TAGS & set(run.tags) or will_retry:
        return
    day = date.fromisoformat(run.tags["dagster/partition"]) if "dagster/partition" in run.tags else None
    if run.status is dg.DagsterRunStatus.SUCCESS:
        alerts.report(Outcome(run.run_id, Kind.SYNCED, day))
        return
    said, code = why(instance, run.run_id)
    alerts.report(Outcome(run.run_id, Kind.HELD if code == HeldError.exit_code else Kind.FAILED, day, said))


def why(instance: dg.DagsterInstance, run_id: str) -> tuple[str, int]:
    """Why a run failed and what to do, in a sentence or two, and the command's exit code for it."""
    failures = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    known = runs.why((entry.get_dagster_event().step_failure_data for entry in failures), run_id)
    killed = "It ended before it could say why: its process was killed, or could not start"
    return known or (f"{killed}. Its log is in the UI (run {run_id}). Run `rollbook sync`", RollbookError.exit_code)


def _tell_late(instance: dg.DagsterInstance, alerts: Alerts, missed: datetime) -> None:
    settings = alerts.settings
    outcome = f"late {missed.astimezone(UTC):%Y-%m-%dT%H:%M}Z"
    if alerts.told(outcome):
        return
    ended = dg.RunsFilter(statuses=ENDED, updated_after=missed - due(settings.cron).slack)
    if any(_is_sync(record) for record in instance.get_run_records(ended, limit=200)):
        return
    running = any(_is_sync(r) for r in instance.get_run_records(dg.RunsFilter(statuses=UNDER_WAY)))
    alerts.report(Outcome(outcome, Kind.LATE, missed.date(), _late(settings, missed, running=running)))


def _late(settings: Settings, missed: datetime, *, running: bool) -> str:
    due_at = f"It was due at {missed:%H:%M} ({settings.timezone})"
    if running:
        return f"{due_at} and is still under way or waiting: look at its run in the UI"
    return (
        f"{due_at}, and no run of it has ended since. See that the machine was on and that the daemon runs (`rollbook"
        " serve`); `rollbook sync` syncs now"
    )


def _is_sync(record: dg.RunRecord) -> bool:
    return SYNC_TAG in record.dagster_run.tags
