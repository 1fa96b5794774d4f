"""The runs of Dagster: how one ends, the process that does it, and its deletion.

Dagster purges ticks by age (`retention` in dagster.yaml) but keeps runs and their events forever.
"""

import os
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
from filelock import Timeout

from rollbook.errors import HeldError, NotConfirmedError, RollbookError
from rollbook.landing.manifest import Hold, TableCounts
from rollbook.settings import SERVED_BY
from rollbook.util import files

# A year, and a month more to compare with the year before.
KEEP_DAYS = 400
# Runs deleted per night; a first pruning after years takes several nights.
MAX_AT_ONCE = 1000
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
UNDER_WAY = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]

# A tag of each event, and of a held sync's run: so it is found in the list of runs.
OUTCOME = "rollbook/outcome"

# The locks of the runs whose work this process does.
_locks: list[files.Lock] = []


class Failed(dg.Failure):
    """Fails a run without retries; its first line says what happened and what to do."""

    # The UI's first line of an error begins with the class's module, unless it is a builtin.
    __module__ = "builtins"

    def __init__(self, error: RollbookError, **metadata: Any) -> None:
        """An error about an unconfirmed change also shows that change."""
        if isinstance(error, HeldError) and isinstance(error.report, Hold):
            metadata["what would change"] = change_table(error.report.counts)
        description, metadata = error.message.removeprefix("Held: "), {"exit_code": error.exit_code, **metadata}
        super().__init__(description, metadata=metadata, allow_retries=False)


def end(context: dg.AssetExecutionContext, error: RollbookError, metadata: Mapping[str, Any]) -> None:
    """End a run with an error: raise Failed with this metadata, unless its sync is held.

    A held sync waits for a person's decision, while a failed one needs a repair; and a failed run would turn all twelve
    assets red. So the run ends with a warning and a tag, the day's tables stay unmarked, and `nothing_held` fails.
    """
    if not is_held(error):
        raise Failed(error, **metadata)
    context.log.warning(error.message)
    context.instance.add_run_tags(context.run.run_id, {OUTCOME: "held"})


def is_held(error: RollbookError) -> bool:
    """Whether a sync is held; what was only not confirmed is not."""
    return isinstance(error, HeldError) and not isinstance(error, NotConfirmedError)


def change_table(counts: Iterable[TableCounts]) -> dg.MetadataValue[Any]:
    """Return what changes, or would change, with a line for each table."""
    lines = ["| table | rows | added | changed | removed |", "|---|--:|--:|--:|--:|"]
    lines += [f"| {c.table} | {c.before} | {c.added} | {c.changed} | {c.removed} |" for c in counts]
    return dg.MetadataValue.md("\n".join(lines))


def removal(counts: Iterable[TableCounts]) -> str:
    """A sentence for a run's log: which rows readers no longer have."""
    removed = ", ".join(f"{c.removed} of {c.table}" for c in counts if c.removed)
    return f"Readers have it now. Removed rows: {removed or 'none'}"


def mark_as_mine(instance: dg.DagsterInstance, run_id: str) -> None:
    """Hold a run's lock until this process ends: however it ends, the system then frees the lock.

    A killed `rollbook serve` could not end this process, so it ends by itself.
    """
    _locks.append(files.Lock(run_lock(instance, run_id)))
    _locks[-1].acquire()
    if served_by := os.environ.get(SERVED_BY):
        Thread(target=_end_with, args=(int(served_by),), daemon=True).start()


def _end_with(process: int) -> None:
    with suppress(OSError):  # it is gone, or another account's process has its number
        while True:
            os.kill(process, 0)
            time.sleep(1)
    os._exit(1)


def fail_orphaned_runs(instance: dg.DagsterInstance) -> None:
    """Mark runs as failed that died together with Dagster: for those, `run_monitoring` only waits out the time limit.

    Such a run would stay "started" and block every later night. A run on another machine is left alone.
    """
    for run in instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY)):
        lock = run_lock(instance, run.run_id)
        if lock.exists():  # else it has not begun here
            with suppress(Timeout), files.Lock(lock, timeout=0):
                instance.report_run_failed(run, "Its process is gone: it was killed, or the machine was switched off")


def is_under_way(instance: dg.DagsterInstance) -> bool:
    """Whether a run of Rollbook's is under way on this machine."""
    started = instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY))
    return any(run_lock(instance, run.run_id).exists() for run in started)


def delete_old_runs(instance: dg.DagsterInstance, newest: date | None, *, dry_run: bool = False) -> int:
    """Delete finished runs older than KEEP_DAYS, with their events, files and compute logs; return how many.

    They are older than the `newest` landed day by so much, since this machine's clock alone may be wrong; before the
    first, none is. At most MAX_AT_ONCE, the oldest first. The data stay, but the UI no longer lists a deleted run's
    materializations.
    """
    if newest is None:
        return 0
    before = datetime.combine(newest - timedelta(days=KEEP_DAYS), datetime.min.time(), UTC)
    filters = dg.RunsFilter(statuses=ENDED, created_before=before)
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
