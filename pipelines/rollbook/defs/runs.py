"""The runs of Dagster: how one fails, the process that does it, the alert about it, and its deletion.

The sensors report each sync that has ended, and a night that is late. The alerts' text and delivery are in `notify`;
the institutions of a registry report their own syncs. Dagster purges ticks by age (`retention` in dagster.yaml) but
keeps runs and their events forever.
"""

import shutil
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from filelock import Timeout

from rollbook import settings
from rollbook.assembly import assemble
from rollbook.defs.partitions import (
    BACKFILL_TAGS,
    BY_COMMAND,
    BY_HAND,
    IS_FRESH,
    NIGHTLY,
    PARTITION_TAG,
    PUBLISHED,
    SYNC_TAG,
)
from rollbook.errors import HeldError, RollbookError, unexpected_error
from rollbook.institutions import Registry
from rollbook.landing.manifest import Hold
from rollbook.operations.status import freshness, not_synced
from rollbook.outputs.notify.alerts import AlertKind, Alerts, Outcome, deliver
from rollbook.util import files

# A year, and a month more to compare with the year before.
KEEP_DAYS = 400
# Runs deleted per night; a first pruning after years takes several nights.
MAX_AT_ONCE = 1000
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]

# The locks of the runs whose work this process does.
_locks: list[files.Lock] = []


class Failed(dg.Failure):
    """Fails a run without retries; its first line says what happened and what to do."""

    # The UI's first line of an error begins with the class's module, unless it is a builtin.
    __module__ = "builtins"

    def __init__(self, error: RollbookError, **metadata: Any) -> None:
        """A held night also shows what would change."""
        if isinstance(error, HeldError) and isinstance(error.report, Hold):
            metadata["what would change"] = _hold_table(error.report)
        description, metadata = error.message.removeprefix("Held: "), {"exit_code": error.exit_code, **metadata}
        super().__init__(description, metadata=metadata, allow_retries=False)


class Held(Failed):
    """Fails a run because its sync is held."""

    __module__ = "builtins"


def failed(error: RollbookError, **metadata: Any) -> Failed:
    """Return what fails a run with this error."""
    return (Held if isinstance(error, HeldError) else Failed)(error, **metadata)


def _hold_table(hold: Hold) -> dg.MetadataValue[Any]:
    lines = ["| table | rows | added | changed | removed |", "|---|--:|--:|--:|--:|"]
    lines += [f"| {c.table} | {c.before} | {c.added} | {c.changed} | {c.removed} |" for c in hold.counts]
    return dg.MetadataValue.md("\n".join(lines))


def failure_reason(instance: dg.DagsterInstance, run_id: str) -> tuple[str, int]:
    """Return why a run failed and what to do, in one or two sentences, and the command's exit code."""
    look = f"Its log is in the UI (run {run_id})"
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE):
        failure = entry.get_dagster_event().step_failure_data
        details = failure.user_failure_data
        if details is not None and details.description:
            return details.description, int(details.metadata["exit_code"].value)  # type: ignore[arg-type] # an integer
        error = failure.error.cause or failure.error if failure.error else None
        return unexpected_error((error.cls_name if error else None) or "unknown", look), RollbookError.exit_code
    killed = "It ended before it could say why: its process was killed, or could not start"
    return f"{killed}. {look}. Run `rollbook sync`", RollbookError.exit_code


def job_origin(module: str, location: str, job: str) -> RemoteJobOrigin:
    """Return the origin by which the UI finds a job in the code location that loads this module.

    Its parts are private to Dagster; they were checked against 1.13.0 and 1.13.27.
    """
    code = ManagedGrpcPythonEnvCodeLocationOrigin(LoadableTargetOrigin(module_name=module), location)
    return RemoteJobOrigin(RemoteRepositoryOrigin(code, "__repository__"), job)


def mark_as_mine(instance: dg.DagsterInstance, run_id: str) -> None:
    """Hold a run's lock until this process ends: however it ends, the system then frees the lock."""
    _locks.append(files.Lock(run_lock(instance, run_id)))
    _locks[-1].acquire()


def fail_orphaned_runs(instance: dg.DagsterInstance) -> None:
    """Mark runs as failed whose process on this machine is gone.

    Dagster only notices the death of a process that its daemon started and still watches. A run of a command, or one
    that died together with the daemon, would stay "started" and block every later night.
    """
    under_way = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
    for run in instance.get_runs(under_way):
        lock = run_lock(instance, run.run_id)
        if lock.exists():  # else it has not begun, or it is on another machine
            with suppress(Timeout), files.Lock(lock, timeout=0):
                instance.report_run_failed(run, "Its process is gone: it was killed, or the machine was switched off")


def delete_old_runs(instance: dg.DagsterInstance, *, dry_run: bool = False, now: datetime | None = None) -> int:
    """Delete finished runs older than KEEP_DAYS, with their events, files and compute logs; return how many.

    At most MAX_AT_ONCE, the oldest first. The data stay, but the UI no longer lists a deleted run's materializations.
    """
    filters = dg.RunsFilter(statuses=ENDED, created_before=(now or datetime.now(UTC)) - timedelta(days=KEEP_DAYS))
    old = instance.get_run_records(filters, limit=MAX_AT_ONCE, order_by="create_timestamp", ascending=True)
    for run_id in () if dry_run else [record.dagster_run.run_id for record in old]:
        instance.delete_run(run_id)
        shutil.rmtree(run_lock(instance, run_id).parent, ignore_errors=True)
        for path in Path(instance.root_directory).glob(f"history/runs/{run_id}.db*"):  # SQLite only empties it
            path.unlink()
    return len(old)


def run_lock(instance: dg.DagsterInstance, run_id: str) -> Path:
    """The lock file of a run, beside its compute logs on this machine."""
    return Path(instance.storage_directory()) / run_id / "process.lock"


WILL_RETRY_TAG = "dagster/will_retry"
# Institutions checked per tick for late nights and undelivered messages; the rest follow in the next ticks.
MAX_CHECKED = 100


def report_run(instance: dg.DagsterInstance, run: dg.DagsterRun, institution: str | None = None) -> None:
    """Send the alert about a run that has ended, unless it is no sync or is retried. Raises RollbookError."""
    alerts = Alerts(assemble(settings.load(fetches=False, institution=institution)))
    is_sync = SYNC_TAG in run.tags and not BACKFILL_TAGS & set(run.tags)
    if not alerts.channels or not is_sync or run.tags.get(WILL_RETRY_TAG) == "true":
        return
    reason, code = ("", 0) if run.is_success else failure_reason(instance, run.run_id)
    kind = AlertKind.HELD if code == HeldError.exit_code else AlertKind.FAILED if code else AlertKind.SYNCED
    day = date.fromisoformat(run.tags[PARTITION_TAG])
    alerts.report(Outcome(run.run_id, kind, day, reason))
    deliver({"": alerts})


def tell(context: dg.RunStatusSensorContext) -> None:
    """Report a single school's run that has ended; nothing is reported twice."""
    if settings.registry() is None:
        report_run(context.instance, context.dagster_run)


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
def watch(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    """Report late nights. Starts no run."""
    fail_orphaned_runs(context.instance)
    try:
        if (registry := settings.registry()) is not None:
            late = ", ".join(watch_institutions(registry))
            return _watched(f"newly late: {late}" if late else "no institution is newly late", late)
        alerts = Alerts(assemble(settings.load(fetches=False)))
        newest = alerts.rollbook.newest()
    except RollbookError as error:
        return _watched(error.message)
    due, late_by = freshness(alerts.rollbook, newest, alerts.rollbook.warehouse.shown())
    late = ""
    if newest is not None and late_by is not None and context.cursor != str(due):
        late = not_synced(due)
        context.update_cursor(str(due))
    if not alerts.channels:
        return _watched("ROLLBOOK_NOTIFY is not set: no alerts are sent", late)

    def has_ended(since: datetime) -> bool:
        tags = {SYNC_TAG: [NIGHTLY, BY_HAND, BY_COMMAND]}
        return bool(context.instance.get_runs(dg.RunsFilter(statuses=ENDED, tags=tags, updated_after=since), limit=1))

    alerts.report_late(has_ended)
    deliver({"": alerts})
    return _watched("it was checked whether the last night is late", late)


def _watched(says: str, late: str = "") -> dg.SensorResult:
    """The result of a tick. For a newly late night also a failed check: a backfill made the asset look fresh, maybe."""
    failed = dg.AssetCheckEvaluation(PUBLISHED, IS_FRESH, passed=False, metadata={"found": late})
    return dg.SensorResult(skip_reason=says, asset_events=[failed] if late else [])


def watch_institutions(registry: Registry) -> list[str]:
    """Report the late nights of institutions and deliver their alerts; returns the newly late institutions.

    At most MAX_CHECKED institutions per minute, in rotation: reading the settings of a thousand takes over a minute.
    """
    from rollbook.fleet.nights import Fleet  # a single school needs none of it

    names = tuple(registry.institutions)
    turn = int(datetime.now(UTC).timestamp()) // 60 % max(1, -(-len(names) // MAX_CHECKED))
    return [*Fleet(registry, names[turn * MAX_CHECKED :][:MAX_CHECKED]).watch(wait=True)] if names else []
