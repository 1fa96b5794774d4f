"""The sensor `watch`: it alerts of nights that did not come and of syncs that were killed, which no sync can tell."""

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from rollbook.defs.partitions import BACKFILL_TAGS, BY_HAND, NIGHTLY, PARTITION_TAG, SYNC_TAG
from rollbook.defs.resources import School
from rollbook.errors import RollbookError
from rollbook.features.alerts.alerts import AlertKind, Alerts, Outcome, deliver

WILL_RETRY_TAG = "dagster/will_retry"
# How long a killed run is looked for after it was marked as failed.
REPORTED_WITHIN = timedelta(hours=1)
SENDER = "rollbook-alerts"


def definitions(school: School) -> dg.Definitions | None:
    """Return the sensor of a single school; None for a district, which watches its institutions."""
    if school.registry() is not None:
        return None
    return dg.Definitions(sensors=[watch(school, lambda instance: dg.SkipReason(watched(instance, school)))])


def watch(
    school: School, watched: Callable[[dg.DagsterInstance], dg.SensorResult | dg.SkipReason]
) -> dg.SensorDefinition:
    """Return the sensor. `watched` alerts of what it finds, and returns a sentence; it starts no run."""

    @dg.sensor(
        name=school.named("watch"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert for each night that did not come and each sync that was killed, and what could not"
        " be delivered before.",
    )
    def tick(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            return watched(context.instance)
        except RollbookError as error:
            return dg.SkipReason(error.message)

    return tick


def watched(instance: dg.DagsterInstance, school: School) -> str:
    """Report a single school's late night and its killed syncs; returns a sentence. Raises RollbookError.

    Its check of lateness is evaluated by `record`.
    """
    rollbook = school.opened()
    alerts, newest = rollbook.find(Alerts), rollbook.newest()
    if not (alerts and alerts.channels):
        return "ROLLBOOK_NOTIFY is not set: no alerts are sent"
    report_killed(instance, alerts)
    alerts.report_late(lambda since: newest is not None and (newest.judged_at or newest.finished_at) >= since)
    send({"": alerts})
    return "it was checked whether the last night is late"


def report_killed(instance: dg.DagsterInstance, alerts: Alerts) -> None:
    """Report the syncs whose process was killed, unless Dagster retries them; all others tell of themselves."""
    failed = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.FAILURE],
        tags={SYNC_TAG: [NIGHTLY, BY_HAND]},
        updated_after=datetime.now(UTC) - REPORTED_WITHIN,
    )
    for run in instance.get_runs(failed):
        said = any(True for _ in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE))
        if not said and run.tags.get(WILL_RETRY_TAG) != "true" and not BACKFILL_TAGS & set(run.tags):
            text = f"Its process was killed, or could not start. Its log is in the UI (run {run.run_id})"
            text = f"{text}. Run `{alerts.settings.command('sync')}`"
            day = date.fromisoformat(run.tags[PARTITION_TAG])
            alerts.report(Outcome(run.run_id, AlertKind.FAILED, day, text))


def send(alerts: Mapping[str, Alerts], *, wait: bool = False) -> None:
    """Deliver the due messages in the background, unless an earlier tick still does; with `wait`, as `deliver`.

    Dagster ends a tick after 60 seconds, and one message may take 35. A message whose process ends is sent again.
    """
    of = {own.settings.common_path for own in alerts.values()}  # one school's messages wait for no other school's
    name = f"{SENDER} {', '.join(sorted(map(str, of)))}"
    if alerts and all(thread.name != name for thread in threading.enumerate()):
        threading.Thread(target=deliver, args=(alerts,), kwargs={"wait": wait}, name=name, daemon=True).start()
