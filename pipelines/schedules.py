"""The nightly job, its schedule, and the sensor that reports its runs. The stages are in `assets`, the alerts' text
and delivery in `notify`.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import dagster as dg

from pipelines import runs, settings
from pipelines.assets import PARTITIONS
from pipelines.compose import compose
from pipelines.cron import due
from pipelines.errors import HeldError, RollbookError
from pipelines.notify.alerts import Alerts, Kind, Outcome
from pipelines.partitions import BACKFILL_TAGS, INSTITUTION_TAG, NIGHTLY, PARTITION_TAG, SYNC_TAG, schedule_name
from pipelines.settings import SourceSettings
from pipelines.text import naming

WILL_RETRY_TAG = "dagster/will_retry"
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]
UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]
# Runs read per tick of the sensor, once a minute; a daemon that was off for long catches up over several ticks.
RUNS_PER_TICK = 20
# Institutions checked per tick for late nights and undelivered messages; the rest follow in the next ticks.
MOST_CHECKED = 100
# Each tick reads these last seconds again, to catch runs that ended during the last one. Nothing is reported twice.
OVERLAP = timedelta(seconds=5)

nightly_sync = dg.define_asset_job(
    "nightly_sync",
    selection=dg.AssetSelection.all(),
    executor_def=dg.in_process_executor,
    description="Fetch both sets, snapshot, merge and publish them: one day, one run.",
)


def schedules() -> list[dg.ScheduleDefinition]:
    """Return a single school's schedule or, with a registry, one for each cron line and zone."""
    by_name = {NIGHTLY if PARTITIONS.is_single else schedule_name(s): s for s in PARTITIONS.sources.values()}
    return [_schedule(name, source) for name, source in by_name.items()]


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
        try:
            if (registry := settings.registry()) is None:
                settings.load()  # or the tick says what is missing
            else:
                now = settings.sources(registry)
                # One with wrong settings is in every run, which says what is wrong.
                names = [n for n in registry.institutions if n not in now or schedule_name(now[n]) == name]
                if not names:
                    return dg.SkipReason("no institution has these nights any more")
                tags[INSTITUTION_TAG] = ",".join(names)
        except RollbookError as error:
            return dg.SkipReason(error.message)
        # Run keys are unique within a tick: a tick that a restarted daemon resumes requests no run twice.
        return dg.RunRequest(run_key=day, partition_key=day, tags=tags)

    return tick


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Sends an alert to the addresses of ROLLBOOK_NOTIFY for each failed, held and late sync, and for the "
    "first good one after. Also marks runs as failed whose process was killed, so that they do not block later nights.",
)
def watch(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Report the runs that ended since the last tick, or the late institutions of a registry. Starts no run."""
    runs.fail_orphaned_runs(context.instance)
    if not PARTITIONS.is_single:
        return dg.SkipReason(watch_institutions())
    try:
        alerts = Alerts(compose(settings.load(fetches=False)))
    except RollbookError as error:
        return dg.SkipReason(error.message)
    if not alerts.enabled:
        return dg.SkipReason("ROLLBOOK_NOTIFY is not set: no alerts are sent")
    since = datetime.fromisoformat(context.cursor) if context.cursor else None
    context.update_cursor(report_ended_runs(context.instance, alerts, since).isoformat())
    return dg.SkipReason("the runs that ended were checked")


def watch_institutions() -> str:
    """Report the late nights of institutions and deliver their alerts; returns what the tick says.

    At most MOST_CHECKED institutions per minute, in rotation: reading the settings of a thousand takes over a minute.
    """
    from pipelines.fleet.nights import Fleet  # a single school needs none of it

    try:
        registry = settings.registry()
    except RollbookError as error:
        return error.message
    if registry is None or not registry.institutions:
        return "the registry names no institutions yet"
    names = tuple(registry.institutions)
    parts = -(-len(names) // MOST_CHECKED)
    turn = int(datetime.now(UTC).timestamp()) // 60 % parts
    late = Fleet(registry, names[turn::parts]).watch(wait=True)
    return f"newly late: {', '.join(late)}" if late else "no institution is newly late"


def report_ended_runs(instance: dg.DagsterInstance, alerts: Alerts, since: datetime | None) -> datetime:
    """Report one school's syncs that ended since `since` (None: from now on) and late nights; deliver what is due.

    Returns the `since` of the next call.
    """
    missed = alerts.missed_night()
    now = datetime.now(UTC)
    since = min(since or now, now)  # after the clock was set back, new runs must still be found
    filters = dg.RunsFilter(statuses=ENDED, updated_after=since - OVERLAP)
    ended = instance.get_run_records(filters, limit=RUNS_PER_TICK, order_by="update_timestamp", ascending=True)
    for record in ended:
        report_run(instance, alerts, record)
        since = max(since, record.update_timestamp)
    if len(ended) < RUNS_PER_TICK and missed is not None:
        _report_late_night(instance, alerts, missed)
    alerts.deliver()
    return since


def report_run(instance: dg.DagsterInstance, alerts: Alerts, record: dg.RunRecord) -> None:
    """Report the outcome of one school's run that has ended. Runs that are not syncs or will be retried are skipped."""
    run = record.dagster_run
    # A command's run has no origin, and Dagster cannot retry a run without one, even with this tag.
    will_retry = run.tags.get(WILL_RETRY_TAG) == "true" and run.remote_job_origin is not None
    if SYNC_TAG not in run.tags or BACKFILL_TAGS & set(run.tags) or will_retry:
        return
    with suppress(RollbookError):  # it has no day
        day, good = PARTITIONS.scope(run.tags).days[0], run.status is dg.DagsterRunStatus.SUCCESS
        reason, exit_code = ("", 0) if good else runs.failure_reason(instance, run.run_id)
        kind = Kind.SYNCED if good else Kind.HELD if exit_code == HeldError.exit_code else Kind.FAILED
        alerts.report(Outcome(run.run_id, kind, day, naming(alerts.settings.institution, reason)))


def _report_late_night(instance: dg.DagsterInstance, alerts: Alerts, missed: datetime) -> None:
    outcome_id = f"late {missed.astimezone(UTC):%Y-%m-%dT%H:%M}Z"
    ended = dg.RunsFilter(statuses=ENDED, updated_after=missed - due(alerts.settings.cron).slack)
    if alerts.was_reported(outcome_id) or any(map(_is_sync, instance.get_run_records(ended, limit=200))):
        return
    text = f"It was due at {missed:%H:%M} ({alerts.settings.timezone})"
    if any(map(_is_sync, instance.get_run_records(dg.RunsFilter(statuses=UNDER_WAY)))):
        text += " and is still under way or waiting: look at its run in the UI"
    else:
        text += (
            ", and no run of it has ended since. Check that the machine was on and that the daemon runs (`rollbook"
            " serve`). To sync now, run `rollbook sync`"
        )
    alerts.report(Outcome(outcome_id, Kind.LATE, missed.date(), text))


def _is_sync(record: dg.RunRecord) -> bool:
    return SYNC_TAG in record.dagster_run.tags
