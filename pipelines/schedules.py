"""The nightly job, its schedule, and the sensor that reports its runs. The stages are in `assets`, the alerts' text
and delivery in `notify`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    schedule_name,
)
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

nightly_sync = dg.define_asset_job(
    "nightly_sync",
    selection=dg.AssetSelection.all(),
    executor_def=dg.in_process_executor,
    description="Fetch both sets, snapshot, merge and publish them: one day, one run.",
)


def schedules() -> list[dg.ScheduleDefinition]:
    """Return a single school's schedule or, with a registry, one for each cron line and zone."""
    by_name: dict[str, list[str]] = {}
    for name, source in PARTITIONS.sources.items():
        by_name.setdefault(NIGHTLY if PARTITIONS.is_single else schedule_name(source), []).append(name)
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
        """Request today's syncs: a late tick is labelled with the day on which it fetches."""
        try:
            if (registry := settings.registry()) is None:
                settings.load()  # or the tick says what is missing
            left_out = partitions.paused(registry) if registry else {}
        except RollbookError as error:
            return dg.SkipReason(error.message)
        for paused in (n for n in institutions if n in left_out):
            context.log.warning("%s is paused and left out: %s", paused, left_out[paused])
        due_now = [n for n in institutions if n not in left_out and (registry is None or n in registry.institutions)]
        if not due_now:
            return dg.SkipReason(f"every institution is paused, or has left the registry: {', '.join(institutions)}")
        return requests(due_now, datetime.now(source.zone).date(), name)

    return tick


def requests(institutions: Sequence[str], day: date, schedule: str) -> list[dg.RunRequest]:
    """Return a night's runs: one per batch or, without batches, one per institution, alternating between hosts."""
    if PARTITIONS.batches:
        batches = sorted({PARTITIONS.batch_of(name) for name in institutions})
        tags = [{**PARTITIONS.batch_tags(day, batch), SCHEDULE_TAG: schedule} for batch in batches]
    elif PARTITIONS.is_single:
        tags = [PARTITIONS.tags("", day)]
    else:
        from pipelines.fleet.nights.order import Queue  # a single school needs none of it

        queue = Queue({name: PARTITIONS.owner_tags(name).get(HOST_TAG, name) for name in institutions})
        tags = [PARTITIONS.tags(queue.next(), day) for _ in institutions]
    # Run keys are unique within a tick: a tick that a restarted daemon resumes requests no run twice. With the tag of
    # its partition, Dagster accepts the day as given; it would look the day up as of the tick's time, so that a tick of
    # 23:59 that runs after midnight would not find it.
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
    alerts, problem = alerts_of_all()
    if PARTITIONS.is_single and not alerts:
        return dg.SkipReason(problem or "ROLLBOOK_NOTIFY is not set: no alerts are sent")
    since = datetime.fromisoformat(context.cursor) if context.cursor else None
    context.update_cursor(report_ended_runs(context.instance, alerts, since).isoformat())
    return dg.SkipReason("; ".join(filter(None, ("the runs that ended were checked", problem))))


def alerts_of_all() -> tuple[dict[str, Alerts], str]:
    """Return the alerts of each institution that has addresses, and a text about institutions that cannot be alerted.

    At most MOST_CHECKED institutions per minute, in rotation: reading the settings of a thousand takes over a minute.
    """
    try:
        registry = settings.registry()
        names = list(registry.institutions) if registry else [settings.load(fetches=False).institution]
    except RollbookError as error:
        return {}, error.message
    parts = -(-len(names) // MOST_CHECKED) or 1
    turn = int(datetime.now(UTC).timestamp()) // 60 % parts
    found = {name: alerts for name in names[turn::parts] if (alerts := together.alerts_of(name)) is not None}
    told = []
    if wrong := [name for name in names if name in PARTITIONS.names and name not in PARTITIONS.sources]:
        told.append(f"the settings of {', '.join(wrong)} are wrong: see `rollbook fleet check`")
    if new := [name for name in names if name not in PARTITIONS.names]:
        told.append(
            f"{', '.join(new)} joined the registry after this code was loaded: reload it on the page Deployment"
        )
    return found, "; ".join(told)


def report_ended_runs(instance: dg.DagsterInstance, alerts: dict[str, Alerts], since: datetime | None) -> datetime:
    """Report the syncs that ended since `since` (None: from now on) and late nights; deliver the alerts that are due.

    `alerts` are each institution's, by name. Returns the `since` of the next call.
    """
    missed = {name: at for name, of_one in alerts.items() if (at := of_one.missed_night()) is not None}
    now = datetime.now(UTC)
    since = min(since or now, now)  # after the clock was set back, new runs must still be found
    filters = dg.RunsFilter(statuses=ENDED, updated_after=since - OVERLAP)
    most = max(RUNS_PER_TICK, len(PARTITIONS.names))
    ended = instance.get_run_records(filters, limit=most, order_by="update_timestamp", ascending=True)
    for record in ended:
        report_run(instance, alerts, record)
        since = max(since, record.update_timestamp)
    if len(ended) < most:
        _report_late_nights(instance, alerts, missed)
    if PARTITIONS.is_single:
        alerts[""].deliver()
    else:
        together.deliver(alerts, wait=True)
    return since


def report_run(instance: dg.DagsterInstance, alerts: dict[str, Alerts], record: dg.RunRecord) -> None:
    """Report the outcome of a run that has ended. Runs that are not syncs or will be retried are skipped.

    Adds the institution's alerts to `alerts` if they are missing there.
    """
    run = record.dagster_run
    # A command's run has no origin, and Dagster cannot retry a run without one, even with this tag.
    will_retry = run.tags.get(WILL_RETRY_TAG) == "true" and run.remote_job_origin is not None
    if SYNC_TAG not in run.tags or BACKFILL_TAGS & set(run.tags) or will_retry:
        return
    with suppress(RollbookError):  # its institution has left the registry, or it has no day
        scope = PARTITIONS.scope(run.tags)
        day, good = scope.days[0], run.status is dg.DagsterRunStatus.SUCCESS
        reason, exit_code = ("", 0) if good else runs.failure_reason(instance, run.run_id)
        if scope.is_alone:
            kind = Kind.SYNCED if good else Kind.HELD if exit_code == HeldError.exit_code else Kind.FAILED
            reported = {scope.institution: Outcome(run.run_id, kind, day, naming(scope.institution, reason))}
        elif good:
            return
        else:  # a run over several reports each institution itself; a killed one did not reach all
            from pipelines.several import outcomes_of

            left = set(scope.institutions) - set(outcomes_of(instance, run.run_id))
            reported = {n: Outcome(f"{run.run_id} {n}", Kind.FAILED, day, naming(n, reason)) for n in left}
        for name, outcome in reported.items():
            if name not in alerts and (of_one := together.alerts_of(name)) is not None:
                alerts[name] = of_one
            if name in alerts:
                alerts[name].report(outcome)


def _report_late_nights(
    instance: dg.DagsterInstance, alerts: Mapping[str, Alerts], missed: Mapping[str, datetime]
) -> None:
    ids = {name: f"late {at.astimezone(UTC):%Y-%m-%dT%H:%M}Z" for name, at in missed.items()}
    waiting = [name for name, outcome_id in ids.items() if not alerts[name].was_reported(outcome_id)]
    registry = settings.registry() if waiting else None
    left_out = partitions.paused(registry) if registry else {}
    for name in (name for name in waiting if name not in left_out):
        of_one, at, whose = alerts[name].settings, missed[name], PARTITIONS.place_tags(name)
        ended = dg.RunsFilter(statuses=ENDED, updated_after=at - due(of_one.cron).slack, tags=whose)
        if any(_is_sync(r, name) for r in instance.get_run_records(ended, limit=200)):
            continue
        under_way = instance.get_run_records(dg.RunsFilter(statuses=UNDER_WAY, tags=whose))
        text = f"It was due at {at:%H:%M} ({of_one.timezone})"
        if any(_is_sync(r, name) for r in under_way):
            text += " and is still under way or waiting: look at its run in the UI"
        else:
            text += (
                ", and no run of it has ended since. Check that the machine was on and that the daemon runs (`rollbook"
                " serve`). To sync now, run `rollbook sync`"
            )
        alerts[name].report(Outcome(ids[name], Kind.LATE, at.date(), naming(name, text)))


def _is_sync(record: dg.RunRecord, institution: str) -> bool:
    tags = record.dagster_run.tags
    return SYNC_TAG in tags and PARTITIONS.is_of(institution, tags)
