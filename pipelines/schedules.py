"""The nightly job, its schedule, and the sensor that reports its runs. The stages are in `assets`, the alerts' text
and delivery in `notify`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from pipelines import partitions, runs, settings
from pipelines.assets import PARTITIONS
from pipelines.cron import due
from pipelines.errors import HeldError, RollbookError
from pipelines.notify import together
from pipelines.notify.alerts import Alerts, Kind, Outcome
from pipelines.partitions import (
    BACKFILL_TAGS,
    HOST_TAG,
    NIGHTLY,
    PARTITION_TAG,
    SCHEDULE_TAG,
    SYNC_TAG,
    Scope,
    schedule_name,
)
from pipelines.resources import settings_or_none
from pipelines.settings import Settings
from pipelines.sync import Rollbook
from pipelines.text import count_of, naming

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

_SETTINGS = settings_or_none()
NO_SETTINGS = "ROLLBOOK_BASE_URL and ROLLBOOK_API_KEY are not set: see .env.example, then restart"

nightly_sync = dg.define_asset_job(
    "nightly_sync",
    selection=dg.AssetSelection.all(),
    executor_def=dg.in_process_executor,
    description="Fetch both sets, snapshot, merge and publish them: one day, one run.",
)


@dg.schedule(
    name=NIGHTLY,
    job=nightly_sync,
    cron_schedule=_SETTINGS.cron if _SETTINGS else "15 2 * * *",
    execution_timezone=_SETTINGS.timezone if _SETTINGS else "UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Syncs today. If the machine was off at that time, the sync runs once when it is back.",
)
def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Request today's sync: a late tick is labelled with the day on which it fetches."""
    if _SETTINGS is None:
        return dg.SkipReason(NO_SETTINGS)
    now = datetime.now(_SETTINGS.zone)
    context.log.info("tick of %s, %s late", context.scheduled_execution_time, now - context.scheduled_execution_time)
    # With the tag, Dagster accepts the day as given. Without it, Dagster looks the partition up as of the tick's time:
    # a tick of 23:59 that runs after midnight would not find it.
    day = str(now.date())
    return dg.RunRequest(partition_key=day, tags={SYNC_TAG: NIGHTLY, "dagster/partition": day})


def schedules() -> list[dg.ScheduleDefinition]:
    """Return a single school's schedule or, with a registry, one for each cron line and zone."""
    if PARTITIONS.is_single:
        return [nightly]
    by_name: dict[str, list[str]] = {}
    for name, source in PARTITIONS.sources.items():
        by_name.setdefault(schedule_name(source), []).append(name)
    return [_schedule(name, tuple(institutions)) for name, institutions in by_name.items()]


def _schedule(name: str, institutions: tuple[str, ...]) -> dg.ScheduleDefinition:
    source = PARTITIONS.sources[institutions[0]]

    @dg.schedule(
        name=name,
        job=nightly_sync,
        cron_schedule=source.cron,
        execution_timezone=source.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Syncs today, for {count_of(len(institutions), 'institution')}. If the machine was off at that "
        "time, the syncs run once when it is back.",
    )
    def tick(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        try:
            registry = settings.registry()
            left_out = partitions.paused(registry) if registry else {}
        except RollbookError as error:
            return dg.SkipReason(error.message)
        for paused in (n for n in institutions if n in left_out):
            context.log.warning("%s is paused and left out: %s", paused, left_out[paused])
        known = registry.institutions if registry else {}
        due_now = [n for n in institutions if n in known and n not in left_out]
        if not due_now:
            return dg.SkipReason(f"every institution is paused, or has left the registry: {', '.join(institutions)}")
        return requests(due_now, datetime.now(source.zone).date(), name)

    return tick


def requests(institutions: Sequence[str], day: date, schedule: str) -> list[dg.RunRequest]:
    """Return a night's runs: one per batch or, without batches, one per institution, alternating between hosts."""
    from pipelines.fleet.nights.order import Queue  # a single school needs none of it

    if PARTITIONS.batches:
        batches = sorted({PARTITIONS.batch_of(name) for name in institutions})
        tags = [{**PARTITIONS.batch_tags(day, batch), SCHEDULE_TAG: schedule} for batch in batches]
    else:
        queue = Queue({name: PARTITIONS.owner_tags(name).get(HOST_TAG, name) for name in institutions})
        tags = [PARTITIONS.tags(queue.next(), day) for _ in institutions]
    # Run keys are unique within a tick: a tick that a restarted daemon resumes requests no run twice.
    keyed = [(t[PARTITION_TAG], {**t, SYNC_TAG: NIGHTLY}) for t in tags]
    return [dg.RunRequest(run_key=key, partition_key=key, tags=own) for key, own in keyed]


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Sends an alert to the addresses of ROLLBOOK_NOTIFY for each failed, held and late sync, and for the "
    "first good one after. Also marks runs as failed whose process was killed, so that they do not block later nights.",
)
def watch(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Report the runs that ended since the last tick. Starts no run."""
    runs.fail_orphaned_runs(context.instance)
    since = datetime.fromisoformat(context.cursor) if context.cursor else None
    says = "the runs that ended were checked"
    if PARTITIONS.is_single:
        if _SETTINGS is None:
            return dg.SkipReason(NO_SETTINGS)
        alerts = {"": Alerts(Rollbook(_SETTINGS))}
        if not alerts[""].enabled:
            return dg.SkipReason("ROLLBOOK_NOTIFY is not set: no alerts are sent")
    else:
        alerts, problem = alerts_of_all()
        says = "; ".join(filter(None, (says, problem)))
    context.update_cursor(report_ended_runs(context.instance, alerts, since).isoformat())
    return dg.SkipReason(says)


def alerts_of_all(now: datetime | None = None) -> tuple[dict[str, Alerts], str]:
    """Return the alerts of each institution that has addresses, and a text about institutions that cannot be alerted.

    At most MOST_CHECKED institutions per minute, in rotation: reading the settings of a thousand takes over a minute.
    """
    try:
        registry = settings.registry()
    except RollbookError as error:
        return {}, error.message
    names = list(registry.institutions) if registry else []
    parts = -(-len(names) // MOST_CHECKED) or 1
    turn = int((now or datetime.now(UTC)).timestamp()) // 60 % parts
    found = {name: alerts for name in names[turn::parts] if (alerts := together.alerts_of(name)) is not None}
    wrong = [name for name in names if name in PARTITIONS.names and name not in PARTITIONS.sources]
    new = [name for name in names if name not in PARTITIONS.names]
    told = []
    if wrong:
        told.append(f"the settings of {', '.join(wrong)} are wrong: see `rollbook fleet check`")
    if new:
        told.append(
            f"{', '.join(new)} joined the registry after this code was loaded: reload it on the page Deployment"
        )
    return found, "; ".join(told)


def report_ended_runs(
    instance: dg.DagsterInstance, alerts: Alerts | Mapping[str, Alerts], since: datetime | None
) -> datetime:
    """Report the syncs that ended since `since` (None: from now on) and late nights; deliver the alerts that are due.

    `alerts` are a single school's, or each institution's by name. Returns the `since` of the next call.
    """
    by_name = dict(alerts) if isinstance(alerts, Mapping) else {"": alerts}
    missed = {name: of_one.missed_night() for name, of_one in by_name.items()}
    now = datetime.now(UTC)
    since = min(since or now, now)  # after the clock was set back, new runs must still be found
    filters = dg.RunsFilter(statuses=ENDED, updated_after=since - OVERLAP)
    most = max(RUNS_PER_TICK, len(PARTITIONS.names))
    ended = instance.get_run_records(filters, limit=most, order_by="update_timestamp", ascending=True)
    for record in ended:
        report_run(instance, by_name, record)
        since = max(since, record.update_timestamp)
    if len(ended) < most:
        _report_late_nights(instance, by_name, {name: at for name, at in missed.items() if at is not None})
    if PARTITIONS.is_single:
        by_name[""].deliver()
    else:
        together.deliver(by_name, wait=True)
    return since


def report_run(instance: dg.DagsterInstance, alerts: Alerts | dict[str, Alerts], record: dg.RunRecord) -> None:
    """Report the outcome of a run that has ended. Runs that are not syncs or will be retried are skipped.

    Adds the institution's alerts to the dict `alerts` if they are missing there.
    """
    run = record.dagster_run
    # A command's run has no origin, and Dagster cannot retry a run without one, even with this tag.
    will_retry = run.tags.get(WILL_RETRY_TAG) == "true" and run.remote_job_origin is not None
    if SYNC_TAG not in run.tags or BACKFILL_TAGS & set(run.tags) or will_retry:
        return
    try:
        scope = PARTITIONS.scope(run.tags)
    except RollbookError:  # its institution has left the registry, or it has no day
        scope = None
    by_name = alerts if isinstance(alerts, dict) else {alerts.settings.institution: alerts}
    if scope is not None and not scope.is_alone:
        _report_unreached(instance, by_name, run, scope)
        return
    name = scope.institution if scope else ""
    if not _has_alerts(by_name, name):
        return
    day = scope.days[0] if scope else None
    if run.status is dg.DagsterRunStatus.SUCCESS:
        by_name[name].report(Outcome(run.run_id, Kind.SYNCED, day))
        return
    reason, exit_code = failure_reason(instance, run.run_id)
    kind = Kind.HELD if exit_code == HeldError.exit_code else Kind.FAILED
    by_name[name].report(Outcome(run.run_id, kind, day, naming(name, reason)))


def _report_unreached(
    instance: dg.DagsterInstance, by_name: dict[str, Alerts], run: dg.DagsterRun, scope: Scope
) -> None:
    """Report the institutions that a killed run over several did not reach. The run reported the others itself."""
    from pipelines.several import outcomes_of

    if run.status is dg.DagsterRunStatus.SUCCESS:
        return
    reason, _ = failure_reason(instance, run.run_id)
    told = outcomes_of(instance, run.run_id)
    for name in (n for n in scope.institutions if n not in told and _has_alerts(by_name, n)):
        outcome = Outcome(f"{run.run_id} {name}", Kind.FAILED, scope.days[0], naming(name, reason))
        by_name[name].report(outcome)


def _has_alerts(by_name: dict[str, Alerts], institution: str) -> bool:
    """Whether an institution has alert addresses; if so, its alerts are then in `by_name`."""
    if institution and institution not in by_name and (alerts := together.alerts_of(institution)) is not None:
        by_name[institution] = alerts
    return institution in by_name


def failure_reason(instance: dg.DagsterInstance, run_id: str) -> tuple[str, int]:
    """Return why a run failed and what to do, in one or two sentences, and the command's exit code."""
    failures = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    known = runs.failure_reason((entry.get_dagster_event().step_failure_data for entry in failures), run_id)
    killed = "It ended before it could say why: its process was killed, or could not start"
    return known or (f"{killed}. Its log is in the UI (run {run_id}). Run `rollbook sync`", RollbookError.exit_code)


def _report_late_nights(
    instance: dg.DagsterInstance, by_name: Mapping[str, Alerts], missed: Mapping[str, datetime]
) -> None:
    waiting = {}
    for name, at in missed.items():
        outcome_id = f"late {at.astimezone(UTC):%Y-%m-%dT%H:%M}Z"
        if not by_name[name].was_reported(outcome_id):
            waiting[name] = outcome_id
    if not waiting:
        return
    left_out = set() if PARTITIONS.is_single else set(_paused())
    for name, outcome_id in waiting.items():
        settings_, at = by_name[name].settings, missed[name]
        whose = PARTITIONS.place_tags(name)
        ended = dg.RunsFilter(statuses=ENDED, updated_after=at - due(settings_.cron).slack, tags=whose)
        if name in left_out or any(_is_sync(r, name) for r in instance.get_run_records(ended, limit=200)):
            continue
        under_way = dg.RunsFilter(statuses=UNDER_WAY, tags=whose)
        running = any(_is_sync(r, name) for r in instance.get_run_records(under_way))
        text = naming(name, _late_text(settings_, at, running=running))
        by_name[name].report(Outcome(outcome_id, Kind.LATE, at.date(), text))


def _paused() -> Iterable[str]:
    try:
        registry = settings.registry()
    except RollbookError:
        return ()
    return partitions.paused(registry) if registry else ()


def _late_text(settings: Settings, missed: datetime, *, running: bool) -> str:
    due_at = f"It was due at {missed:%H:%M} ({settings.timezone})"
    if running:
        return f"{due_at} and is still under way or waiting: look at its run in the UI"
    return (
        f"{due_at}, and no run of it has ended since. Check that the machine was on and that the daemon runs (`rollbook"
        " serve`). To sync now, run `rollbook sync`"
    )


def _is_sync(record: dg.RunRecord, institution: str) -> bool:
    tags = record.dagster_run.tags
    return SYNC_TAG in tags and PARTITIONS.is_of(institution, tags)
