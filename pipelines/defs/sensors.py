"""The sensors: each sync that has ended is reported as an alert, and so is a night that is late.

The alerts' text and delivery are in `notify`; the institutions of a registry report their own syncs.
"""

from datetime import UTC, date, datetime

import dagster as dg

from pipelines import settings
from pipelines.compose import compose
from pipelines.cron import due
from pipelines.defs import runs
from pipelines.defs.partitions import BACKFILL_TAGS, BY_COMMAND, BY_HAND, NIGHTLY, PARTITION_TAG, SYNC_TAG
from pipelines.errors import HeldError, RollbookError
from pipelines.institutions import Registry
from pipelines.notify.alerts import Alerts, Kind, Outcome, deliver
from pipelines.text import naming

WILL_RETRY_TAG = "dagster/will_retry"
# Institutions checked per tick for late nights and undelivered messages; the rest follow in the next ticks.
MOST_CHECKED = 100


def report_run(instance: dg.DagsterInstance, alerts: Alerts, run: dg.DagsterRun) -> None:
    """Report a run that has ended, unless it is no sync or is retried."""
    if SYNC_TAG not in run.tags or BACKFILL_TAGS & set(run.tags) or run.tags.get(WILL_RETRY_TAG) == "true":
        return
    reason, code = ("", 0) if run.is_success else runs.failure_reason(instance, run.run_id)
    kind = Kind.HELD if code == HeldError.exit_code else Kind.FAILED if code else Kind.SYNCED
    day = date.fromisoformat(run.tags[PARTITION_TAG])
    alerts.report(Outcome(run.run_id, kind, day, naming(alerts.settings.institution, reason)))


def tell(context: dg.RunStatusSensorContext) -> None:
    """Report a single school's run that has ended; nothing is reported twice."""
    if settings.registry() is None:
        alerts = Alerts(compose(settings.load(fetches=False)))
        if alerts.channels:
            report_run(context.instance, alerts, context.dagster_run)
            deliver({"": alerts})


# Runs of the command line belong to no code location.
tell_success, tell_failure = (
    dg.run_status_sensor(
        run_status=status,
        name=f"tell_{status.value.lower()}",
        monitor_all_code_locations=True,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert to the addresses of ROLLBOOK_NOTIFY for each failed or held sync, and for the first"
        " good one after.",
    )(tell)
    for status in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE)
)


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Sends an alert for each late sync, and what could not be delivered before. Also marks runs as failed "
    "whose process was killed, so that they do not block later nights.",
)
def watch(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Report late nights. Starts no run."""
    runs.fail_orphaned_runs(context.instance)
    try:
        if (registry := settings.registry()) is not None:
            return dg.SkipReason(watch_institutions(registry))
        alerts = Alerts(compose(settings.load(fetches=False)))
    except RollbookError as error:
        return dg.SkipReason(error.message)
    if not alerts.channels:
        return dg.SkipReason("ROLLBOOK_NOTIFY is not set: no alerts are sent")
    report_late_night(context.instance, alerts)
    deliver({"": alerts})
    return dg.SkipReason("it was checked whether the last night is late")


def watch_institutions(registry: Registry) -> str:
    """Report the late nights of institutions and deliver their alerts; returns what the tick says.

    At most MOST_CHECKED institutions per minute, in rotation: reading the settings of a thousand takes over a minute.
    """
    from pipelines.fleet.nights import Fleet  # a single school needs none of it

    names = tuple(registry.institutions)
    turn = int(datetime.now(UTC).timestamp()) // 60 % max(1, -(-len(names) // MOST_CHECKED))
    late = Fleet(registry, names[turn * MOST_CHECKED :][:MOST_CHECKED]).watch(wait=True) if names else {}
    return f"newly late: {', '.join(late)}" if late else "no institution is newly late"


def report_late_night(instance: dg.DagsterInstance, alerts: Alerts) -> None:
    """Report once that a single school's last night has not ended in time."""
    if (night := alerts.missed_night()) is None:
        return
    outcome_id = f"late {night.astimezone(UTC):%Y-%m-%dT%H:%M}Z"
    ended = dg.RunsFilter(
        statuses=runs.ENDED,
        tags={SYNC_TAG: [NIGHTLY, BY_HAND, BY_COMMAND]},
        updated_after=night - due(alerts.settings.cron).slack,
    )
    if alerts.was_reported(outcome_id) or instance.get_runs(ended, limit=1):
        return
    text = (
        f"It was due at {night:%H:%M} ({alerts.settings.timezone}), and no run of it has ended since. If the UI shows"
        " none under way or waiting, check that the machine was on and that the daemon runs (`rollbook serve`). To sync"
        " now, run `rollbook sync`"
    )
    alerts.report(Outcome(outcome_id, Kind.LATE, night.date(), text))
