"""One run of Dagster: how it fails, the process that does it, and its deletion.

Dagster purges ticks by age (`retention` in dagster.yaml) but keeps runs and their events forever.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
from filelock import FileLock, Timeout

from pipelines.errors import HeldError, RollbookError, unexpected_error
from pipelines.landing.manifest import Hold
from pipelines.text import naming

# A year, and a month more to compare with the year before.
KEEP_DAYS = 400
# Runs deleted per night; a first pruning after years takes several nights.
MOST_AT_ONCE = 1000
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]

# The locks of the runs whose work this process does.
_locks: list[FileLock] = []


class Failed(dg.Failure):
    """Fails a run without retries; its first line says what happened and what to do."""

    # The UI's first line of an error begins with the class's module, unless it is a builtin.
    __module__ = "builtins"

    def __init__(self, error: RollbookError, institution: str = "", **metadata: Any) -> None:
        """With a registry, the commands in the message name the institution."""
        if isinstance(error, HeldError) and isinstance(error.report, Hold):
            metadata["what would change"] = _hold_table(error.report)
        description = naming(institution, error.message.removeprefix("Held: "))
        super().__init__(description, metadata={"exit_code": error.exit_code, **metadata}, allow_retries=False)


class Held(Failed):
    """Fails a run because its sync is held."""

    __module__ = "builtins"


def failed(error: RollbookError, institution: str = "", **metadata: Any) -> Failed:
    """Return what fails a run with this error."""
    return (Held if isinstance(error, HeldError) else Failed)(error, institution, **metadata)


def _hold_table(hold: Hold) -> dg.MetadataValue[Any]:
    lines = ["| table | rows | added | changed | removed |", "|---|--:|--:|--:|--:|"]
    lines += [f"| {c.table} | {c.before} | {c.added} | {c.changed} | {c.removed} |" for c in hold.counts]
    return dg.MetadataValue.md("\n".join(lines))


def failure_reason(instance: dg.DagsterInstance, run_id: str) -> tuple[str, int]:
    """Return why a run failed and what to do, in one or two sentences, and the command's exit code."""
    look = f"Its log is in the UI (run {run_id})"
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE):
        failure = entry.get_dagster_event().step_failure_data
        known = failure.user_failure_data
        if known is not None and known.description:
            return known.description, int(known.metadata["exit_code"].value)  # type: ignore[arg-type] # an integer
        error = failure.error.cause or failure.error if failure.error else None
        return unexpected_error((error.cls_name if error else None) or "unknown", look), RollbookError.exit_code
    killed = "It ended before it could say why: its process was killed, or could not start"
    return f"{killed}. {look}. Run `rollbook sync`", RollbookError.exit_code


def mark_as_mine(instance: dg.DagsterInstance, run_id: str) -> None:
    """Hold a run's lock until this process ends: however it ends, the system then frees the lock."""
    _locks.append(FileLock(_lock(instance, run_id)))
    _locks[-1].acquire()


def fail_orphaned_runs(instance: dg.DagsterInstance) -> None:
    """Mark runs as failed whose process on this machine is gone.

    Dagster only notices the death of a process that its daemon started and still watches. A run of a command, or one
    that died together with the daemon, would stay "started" and block every later night.
    """
    under_way = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
    for run in instance.get_runs(under_way):
        lock = _lock(instance, run.run_id)
        if lock.exists():  # else it has not begun, or it is on another machine
            with suppress(Timeout), FileLock(lock, timeout=0):
                says = "Its process is gone: it was killed, or the machine was switched off"
                instance.report_run_failed(run, says)


def delete_old_runs(instance: dg.DagsterInstance, *, dry_run: bool = False, now: datetime | None = None) -> int:
    """Delete finished runs older than KEEP_DAYS, with their events, files and compute logs; return how many.

    At most MOST_AT_ONCE, the oldest first. The data stay, but the UI no longer lists a deleted run's materializations.
    """
    before = (now or datetime.now(UTC)) - timedelta(days=KEEP_DAYS)
    filters = dg.RunsFilter(statuses=ENDED, created_before=before)
    old = instance.get_run_records(filters, limit=MOST_AT_ONCE, order_by="create_timestamp", ascending=True)
    for run_id in () if dry_run else [record.dagster_run.run_id for record in old]:
        instance.delete_run(run_id)
        shutil.rmtree(_lock(instance, run_id).parent, ignore_errors=True)
        for path in Path(instance.root_directory).glob(f"history/runs/{run_id}.db*"):  # SQLite only empties it
            path.unlink()
    return len(old)


def _lock(instance: dg.DagsterInstance, run_id: str) -> Path:
    """The lock file of a run, beside its compute logs on this machine."""
    return Path(instance.storage_directory()) / run_id / "process.lock"
