"""The nightly job, its schedule, and the sensor that reports its runs. The stages are in `assets`, the alerts' text
and delivery in `notify`.
"""

from datetime import UTC, date, datetime, timedelta

import dagster as dg

from pipelines import runs
from pipelines.assets import BACKFILL_TAGS, NIGHTLY, SYNC_TAG
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
# Runs read per tick of the sensor, a minute apart; a daemon that was off for long catches up over several ticks.
RUNS_PER_TICK = 20
# Read again on each tick, so that a run that ends during one is not missed. Nothing is reported twice.
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
    description="Syncs today. If the machine was off at that time, the sync runs once when it is back.",
)
def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Request the sync of today: a late tick is labelled with the day on which it fetches."""
    if _SETTINGS is None:
        return dg.SkipReason("ROLLBOOK_BASE_URL and ROLLBOOK_API_KEY are not set: see .env.example, then restart")
    now = datetime.now(_SETTINGS.zone)
    context.log.info("tick of %s, %s late", context.scheduled_execution_time, now - context.scheduled_execution_time)
    # With the tag, Dagster takes the day as it is. Without it, Dagster looks for the partition as of the tick's time:
    # a tick of 23:59 that runs after midnight would not find it.
    day = str(now.date())
    return dg.RunRequest(partition_key=day, tags={SYNC_TAG: NIGHTLY, "dagster/partition": day})


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Sends an alert to the addresses of ROLLBOOK_NOTIFY for each failed, held and late sync, and for the "
    "first good one after. Also marks runs as failed whose process was killed, so that they do not block later nights.",
)
def watch(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Report the runs that ended since the last tick. It starts no run."""
    runs.fail_orphaned_runs(context.instance)
    if _SETTINGS is None:
        return dg.SkipReason("ROLLBOOK_BASE_URL and ROLLBOOK_API_KEY are not set: see .env.example, then restart")
    alerts = Alerts(Rollbook(_SETTINGS))
    if not alerts.enabled:
        return dg.SkipReason("ROLLBOOK_NOTIFY is not set: no alerts are sent")
    cursor = report_ended_runs(
        context.instance, alerts, datetime.fromisoformat(context.cursor) if context.cursor else None
    )
    context.update_cursor(cursor.isoformat())
    return dg.SkipReason("the runs that ended were checked")


def report_ended_runs(instance: dg.DagsterInstance, alerts: Alerts, since: datetime | None) -> datetime:
    """Report the syncs that ended since `since` (None: from now on) and a night that is late; deliver what is due.

    Returns the moment from which to read the next time.
    """
    missed = alerts.missed_night()
    now = datetime.now(UTC)
    since = min(since or now, now)  # if the clock was set back, runs that end from now on must still be found
    filters = dg.RunsFilter(statuses=ENDED, updated_after=since - OVERLAP)
    ended = instance.get_run_records(filters, limit=RUNS_PER_TICK, order_by="update_timestamp", ascending=True)
    for record in ended:
        report_run(instance, alerts, record)
        since = max(since, record.update_timestamp)
    if missed is not None and len(ended) < RUNS_PER_TICK:
        _report_late_night(instance, alerts, missed)
    alerts.deliver()
    return since


def report_run(instance: dg.DagsterInstance, alerts: Alerts, record: dg.RunRecord) -> None:
    """Report the outcome of a run that has ended. Runs that are not syncs or will be retried are skipped."""
    run = record.dagster_run
    # A command's run has no origin, and Dagster cannot retry a run without one, whatever the tag says.
    will_retry = run.tags.get(WILL_RETRY_TAG) == "true" and run.remote_job_origin is not None
    if SYNC_TAG not in run.tags or BACKFILL_TAGS & set(run.tags) or will_retry:
        return
    day = date.fromisoformat(run.tags["dagster/partition"]) if "dagster/partition" in run.tags else None
    if run.status is dg.DagsterRunStatus.SUCCESS:
        alerts.report(Outcome(run.run_id, Kind.SYNCED, day))
        return
    reason, exit_code = failure_reason(instance, run.run_id)
    alerts.report(Outcome(run.run_id, Kind.HELD if exit_code == HeldError.exit_code else Kind.FAILED, day, reason))


def failure_reason(instance: dg.DagsterInstance, run_id: str) -> tuple[str, int]:
    """Why a run failed and what to do, in a sentence or two, and the command's exit code for it."""
    failures = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    known = runs.failure_reason((entry.get_dagster_event().step_failure_data for entry in failures), run_id)
    killed = "It ended before it could say why: its process was killed, or could not start"
    return known or (f"{killed}. Its log is in the UI (run {run_id}). Run `rollbook sync`", RollbookError.exit_code)


def _report_late_night(instance: dg.DagsterInstance, alerts: Alerts, missed: datetime) -> None:
    settings = alerts.settings
    outcome_id = f"late {missed.astimezone(UTC):%Y-%m-%dT%H:%M}Z"
    if alerts.was_reported(outcome_id):
        return
    ended = dg.RunsFilter(statuses=ENDED, updated_after=missed - due(settings.cron).slack)
    if any(_is_sync(record) for record in instance.get_run_records(ended, limit=200)):
        return
    running = any(_is_sync(r) for r in instance.get_run_records(dg.RunsFilter(statuses=UNDER_WAY)))
    alerts.report(Outcome(outcome_id, Kind.LATE, missed.date(), _late_text(settings, missed, running=running)))


def _late_text(settings: Settings, missed: datetime, *, running: bool) -> str:
    due_at = f"It was due at {missed:%H:%M} ({settings.timezone})"
    if running:
        return f"{due_at} and is still under way or waiting: look at its run in the UI"
    return (
        f"{due_at}, and no run of it has ended since. Check that the machine was on and that the daemon runs (`rollbook"
        " serve`). To sync now, run `rollbook sync`"
    )


def _is_sync(record: dg.RunRecord) -> bool:
    return SYNC_TAG in record.dagster_run.tags
