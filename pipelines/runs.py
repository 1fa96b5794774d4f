"""Dagster's own records: opens the instance, deletes old runs, fails orphaned runs, says why a run failed.

Dagster purges ticks by age (`retention` in dagster.yaml) but keeps runs and their events forever. The work that runs do
is in `assets`.
"""

from __future__ import annotations

import logging
import os
import platform
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from filelock import FileLock

from pipelines.dagster_internals import FINISHED_STATUSES, SqliteEventLogStorage, StepFailureData
from pipelines.errors import RollbookError, unexpected_error

log = logging.getLogger(__name__)

# A year, and a month more to compare with the year before.
KEEP_DAYS = 400
# The process that does a run's work. The value includes the run's id: a retried run starts with the last run's tags.
PROCESS_TAG = ".dagster/rollbook_process"  # Dagster hides tags of this prefix
# Runs deleted per night; a first pruning after years takes several nights.
MOST_AT_ONCE = 1000


@contextmanager
def open_instance() -> Iterator[dg.DagsterInstance]:
    """Open the instance in DAGSTER_HOME, creating its tables if they are missing. Dagster's errors propagate.

    A lock admits one process at a time: when two create the tables at once, one of them fails.
    """
    home = Path(os.environ.get("DAGSTER_HOME", ""))
    lock = FileLock(home / "opening.lock") if home.is_absolute() and home.is_dir() else nullcontext()
    with lock:
        instance = dg.DagsterInstance.get()
    with instance:
        yield instance


def drop_notes_on_outputs(record: logging.LogRecord) -> bool:
    """Log filter that drops Dagster's note on outputs that were not yielded: their events are logged instead."""
    return "did not yield or return expected outputs" not in record.getMessage()


def expired_runs(instance: dg.DagsterInstance, days: int, now: datetime | None = None) -> list[str]:
    """Return the ids of finished runs created more than `days` days ago, oldest first, at most MOST_AT_ONCE."""
    before = (now or datetime.now(UTC)) - timedelta(days=days)
    filters = dg.RunsFilter(statuses=list(FINISHED_STATUSES), created_before=before)
    records = instance.get_run_records(filters, limit=MOST_AT_ONCE, order_by="create_timestamp", ascending=True)
    return [record.dagster_run.run_id for record in records]


def delete_runs(instance: dg.DagsterInstance, days: int, now: datetime | None = None) -> int:
    """Delete the runs older than `days` days, with their events, files and compute logs; return how many.

    The data stay, but the UI no longer lists a deleted run's materializations.
    """
    expired = expired_runs(instance, days, now)
    for run_id in expired:
        instance.delete_run(run_id)
        for path in files(instance, run_id):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    if expired:
        log.info("Deleted %d of Dagster's runs, older than %d days", len(expired), days)
    return len(expired)


def prune(instance: dg.DagsterInstance) -> None:
    """Delete the runs older than KEEP_DAYS. An error is logged and never fails a sync; the next night tries again."""
    try:
        delete_runs(instance, KEEP_DAYS)
    except Exception as error:  # noqa: BLE001 - pruning must not fail a sync
        log.warning("Dagster's old runs could not be deleted (%s)", type(error).__name__)


def files(instance: dg.DagsterInstance, run_id: str) -> Iterator[Path]:
    """Yield a run's files on this machine: its compute logs and, with SQLite, its own event log file.

    Dagster deletes the rows of an event log file but does not shrink or remove the file.
    """
    storage = instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage):
        shard = Path(storage.path_for_shard(run_id))
        yield from (p for p in (shard, shard.with_name(f"{shard.name}-wal"), shard.with_name(f"{shard.name}-shm")))
    yield Path(instance.storage_directory()) / run_id


def count(instance: dg.DagsterInstance) -> int:
    """Return the number of runs that Dagster keeps."""
    return instance.get_runs_count()


def process_tags(run_id: str) -> dict[str, str]:
    """Return the tag that marks this process as the one that does a run's work."""
    return {PROCESS_TAG: f"{run_id}:{platform.node()}:{os.getpid()}:{_start_time(os.getpid())}"}


def fail_orphaned_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark runs as failed whose process on this machine is gone, and free their slots; return their ids.

    Dagster only notices the death of a process that its daemon started and still watches. A run of a command, or one
    that died together with the daemon, would stay "started" and block every later night.
    """
    orphaned = []
    under_way = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
    for run in instance.get_runs(under_way):
        tag = run.tags.get(PROCESS_TAG, "").split(":")
        here = len(tag) == 4 and tag[:2] == [run.run_id, platform.node()]
        if here and not _is_alive(int(tag[2]), tag[3]):
            instance.report_run_failed(run, "Its process is gone: it was killed, or the machine was switched off")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            orphaned.append(run.run_id)
    return orphaned


def failure_reason(failures: Iterable[StepFailureData | None], run_id: str) -> tuple[str, int] | None:
    """Return why a run failed and what to do, in one or two sentences, and the exit code, from its failed steps.

    None if no step failed: the run ended before its first step, or was killed.
    """
    for failure in failures:
        if failure is None:
            continue
        known = failure.user_failure_data
        if known is not None and known.description:
            code = known.metadata.get("exit_code")
            return known.description, int(getattr(code, "value", None) or RollbookError.exit_code)
        error = failure.error.cause or failure.error if failure.error else None
        kind = (error.cls_name if error else None) or "unknown"
        return unexpected_error(kind, f"Its log is in the UI (run {run_id})"), RollbookError.exit_code
    return None


def _is_alive(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _start_time(pid) == started


def _start_time(pid: int) -> str:
    """Return the boot id and start time of a process, which distinguish it from a later process with the same pid.

    Empty for a zombie, and on systems without /proc.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot}-{fields[19]}"
