"""Dagster's own records: opening them, how much room they take, letting go of the oldest, runs whose process is gone,
why a run failed.

Dagster purges ticks by age (`retention` in dagster.yaml); its runs and their events it keeps for ever. What a run does
is not known here.
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
from dagster._core.execution.plan.objects import StepFailureData
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log import SqliteEventLogStorage
from filelock import FileLock

from pipelines.errors import RollbookError, unforeseen

log = logging.getLogger(__name__)

# A year back, and a month to look at the year before.
KEPT_DAYS = 400
# Which process does a run's work. The run is named in it too: a retried run begins with the tags of the one before.
PROCESS_TAG = "rollbook/process"
# At once; a first pruning after years goes on in the next night.
MOST_AT_ONCE = 1000


@contextmanager
def opened() -> Iterator[dg.DagsterInstance]:
    """The records in DAGSTER_HOME, its tables made when they are not there yet. Raises whatever Dagster raises.

    One process at a time: of two that make the tables at once, Dagster lets one fail over what the other has made.
    """
    home = Path(os.environ.get("DAGSTER_HOME", ""))
    lock = FileLock(home / "opening.lock") if home.is_absolute() and home.is_dir() else nullcontext()
    with lock:
        instance = dg.DagsterInstance.get()
    with instance:
        yield instance


def old(instance: dg.DagsterInstance, days: int, now: datetime | None = None) -> list[str]:
    """The ids of the runs that ended and were made more than so many days ago, the oldest first."""
    before = (now or datetime.now(UTC)) - timedelta(days=days)
    wanted = dg.RunsFilter(statuses=list(FINISHED_STATUSES), created_before=before)
    records = instance.get_run_records(wanted, limit=MOST_AT_ONCE, order_by="create_timestamp", ascending=True)
    return [record.dagster_run.run_id for record in records]


def let_go(instance: dg.DagsterInstance, days: int, now: datetime | None = None) -> int:
    """Delete the runs older than so many days, their events, files and compute logs; returns how many.

    The days' data stay: what a deleted run materialized is only no longer listed in the UI.
    """
    gone = old(instance, days, now)
    for run_id in gone:
        instance.delete_run(run_id)
        for path in files(instance, run_id):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    if gone:
        log.info("Let go of %d of Dagster's runs, older than %d days", len(gone), days)
    return len(gone)


def prune(instance: dg.DagsterInstance) -> None:
    """Let go of the runs that are due. Whatever goes wrong with that is no sync's fault, and tried again tomorrow."""
    try:
        let_go(instance, KEPT_DAYS)
    except Exception as error:  # noqa: BLE001 - as said
        log.warning("Dagster's old runs could not be let go of (%s)", type(error).__name__)


def files(instance: dg.DagsterInstance, run_id: str) -> Iterator[Path]:
    """What a run leaves on this machine's disk beside its rows: with SQLite a file of its own, and its compute logs.

    Dagster deletes the rows in the former and leaves the file at its size.
    """
    storage = instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage):
        shard = Path(storage.path_for_shard(run_id))
        yield from (p for p in (shard, shard.with_name(f"{shard.name}-wal"), shard.with_name(f"{shard.name}-shm")))
    yield Path(instance.storage_directory()) / run_id


def count(instance: dg.DagsterInstance) -> int:
    """How many runs Dagster keeps."""
    return instance.get_runs_count()


def signature(run_id: str) -> dict[str, str]:
    """The tag that says of a run that this process does its work."""
    return {PROCESS_TAG: f"{run_id}:{platform.node()}:{os.getpid()}:{_born(os.getpid())}"}


def bury(instance: dg.DagsterInstance) -> list[str]:
    """Mark the runs as failed whose process on this machine is gone, and free their slots; returns their ids.

    Dagster itself notices when a process dies that its daemon started and still watches. It does not notice the death
    of a command's run, nor of any run that died along with its daemon: those would hold up every later night.
    """
    dead = []
    under_way = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
    for run in instance.get_runs(under_way):
        signed = run.tags.get(PROCESS_TAG, "").split(":")
        mine = len(signed) == 4 and signed[:2] == [run.run_id, platform.node()]
        if mine and not _is_alive(int(signed[2]), signed[3]):
            instance.report_run_failed(run, "Its process is gone: it was killed, or the machine was switched off")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            dead.append(run.run_id)
    return dead


def why(failures: Iterable[StepFailureData | None], run_id: str) -> tuple[str, int] | None:
    """Why a run failed and what to do, in a sentence or two, and the command's exit code for it, by its failed steps.

    None when no step failed: the run ended before one, or was killed.
    """
    for failure in failures:
        if failure is None:
            continue
        said = failure.user_failure_data
        if said is not None and said.description:
            code = said.metadata.get("exit_code")
            return said.description, int(getattr(code, "value", None) or RollbookError.exit_code)
        error = failure.error.cause or failure.error if failure.error else None
        kind = (error.cls_name if error else None) or "unknown"
        return unforeseen(kind, f"Its log is in the UI (run {run_id})"), RollbookError.exit_code
    return None


def _is_alive(number: int, born: str) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _born(number) == born


def _born(number: int) -> str:
    """What tells a process from a later one of the same number, where the system says: its boot and its time since.

    Empty elsewhere, and for one that has ended and is only still listed.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot}-{fields[19]}"
