"""One run of Dagster: an operator's options for it, how it fails, the process that does it, and its deletion.

Dagster purges ticks by age (`retention` in dagster.yaml) but keeps runs and their events forever. The work that runs do
is in `assets`.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg
from filelock import FileLock, Timeout
from pydantic import Field

from pipelines.dagster_internals import FINISHED_STATUSES, SqliteEventLogStorage
from pipelines.errors import CheckError, HeldError, KeyRefusedError, RollbookError, unexpected_error
from pipelines.landing.manifest import Hold
from pipelines.settings import Details, registry
from pipelines.source.pagination import Progress
from pipelines.text import naming

log = logging.getLogger(__name__)

# A year, and a month more to compare with the year before.
KEEP_DAYS = 400
# Runs deleted per night; a first pruning after years takes several nights.
MOST_AT_ONCE = 1000

# The locks of the runs whose work this process does.
_LOCKS: dict[str, FileLock] = {}

# Called for each fetched page. The command line sets it: it runs the job in its own process.
progress: Progress | None = None


class Options(dg.Config):
    """An operator's options for one run, as the launchpad shows them."""

    approve: bool = Field(
        default=False,
        description="Merge what this day's sync held, without fetching again. In a backfill, publish even if a table "
        "would lose more than the hold allows. For this run only; look at the held run's table of counts first.",
    )
    details: Details = Field(
        default=Details.none,
        description="Fetch /v1/student/<id> too, one request per student: for none, for those who changed, for all.",
    )
    fresh: bool = Field(
        default=False,
        description="Fetch even if this day was synced within ROLLBOOK_CACHE_MINUTES. Otherwise only the key is "
        "checked, and what was fetched then is used. The nightly run always fetches.",
    )
    force: bool = Field(
        default=False,
        description="Compute all tables and the whole history again from the daily snapshots (a full refresh), instead "
        "of merging only what changed. Repairs what a failed check found in the published file. Takes longer; the "
        "result is the same if nothing was wrong.",
    )


class Held(dg.Failure):
    """Fails a run because its sync is held."""

    # The UI's first line of an error begins with the class's module, unless it is a builtin. It should begin with the
    # message.
    __module__ = "builtins"


class Failed(dg.Failure):
    """Fails a run with a RollbookError's message. `found` holds the violations that stopped a publish, by check."""

    found: Mapping[str, Sequence[str]] = MappingProxyType({})
    is_key_refused = False

    __module__ = "builtins"


@contextmanager
def translate_errors(institution: str = "") -> Iterator[None]:
    """Turn a RollbookError into a failed run without retries, whose first line says what happened and what to do.

    With a registry, the commands in the message name the institution.
    """
    try:
        yield
    except RollbookError as error:
        metadata: dict[str, Any] = {"exit_code": error.exit_code}
        message = naming(institution, error.message.removeprefix("Held: "))
        if isinstance(error, HeldError):
            if isinstance(error.report, Hold):
                metadata["what would change"] = hold_table(error.report)
            raise Held(message, metadata=metadata, allow_retries=False) from None
        failed = Failed(message, metadata=metadata, allow_retries=False)
        failed.is_key_refused = isinstance(error, KeyRefusedError)
        if isinstance(error, CheckError):
            failed.found = error.found
        raise failed from None


def hold_table(hold: Hold) -> dg.MetadataValue[Any]:
    """Return a hold's counts as a Markdown table."""
    lines = ["| table | rows | added | changed | removed |", "|---|--:|--:|--:|--:|"]
    lines += [f"| {c.table} | {c.before} | {c.added} | {c.changed} | {c.removed} |" for c in hold.counts]
    return dg.MetadataValue.md("\n".join(lines))


def keep_keys(institutions: Iterable[str]) -> None:
    """Remove all other institutions' keys from this process's environment, before it sends a request or starts a child.

    A run inherits every key from Dagster, which does not know whose run it is. A single school keeps its own.
    """
    if (known := registry()) is not None:
        own = frozenset().union(*(known[n].variables("api_key") for n in institutions if n in known.institutions))
        for name in known.variables("api_key") - own:
            os.environ.pop(name, None)


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


def delete_old_runs(instance: dg.DagsterInstance, *, dry_run: bool = False, now: datetime | None = None) -> int:
    """Delete finished runs older than KEEP_DAYS, with their events, files and compute logs; return how many.

    At most MOST_AT_ONCE, the oldest first. The data stay, but the UI no longer lists a deleted run's materializations.
    """
    before = (now or datetime.now(UTC)) - timedelta(days=KEEP_DAYS)
    filters = dg.RunsFilter(statuses=list(FINISHED_STATUSES), created_before=before)
    old = instance.get_run_records(filters, limit=MOST_AT_ONCE, order_by="create_timestamp", ascending=True)
    for record in [] if dry_run else old:
        run_id = record.dagster_run.run_id
        instance.delete_run(run_id)
        shutil.rmtree(_lock(instance, run_id).parent, ignore_errors=True)
        storage = instance.event_log_storage
        if isinstance(storage, SqliteEventLogStorage):  # it empties a run's file but does not remove it
            shard = Path(storage.path_for_shard(run_id))
            for path in shard.parent.glob(f"{shard.name}*"):
                path.unlink()
    return len(old)


def mark_as_mine(instance: dg.DagsterInstance, run_id: str) -> None:
    """Hold a run's lock until this process ends: however it ends, the system then frees the lock."""
    if run_id not in _LOCKS:
        _LOCKS[run_id] = FileLock(_lock(instance, run_id))
        _LOCKS[run_id].acquire()


def fail_orphaned_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark runs as failed whose process on this machine is gone; return their ids.

    Dagster only notices the death of a process that its daemon started and still watches. A run of a command, or one
    that died together with the daemon, would stay "started" and block every later night.
    """
    orphaned = []
    under_way = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
    for run in instance.get_runs(under_way):
        lock = _lock(instance, run.run_id)
        if not lock.exists():  # it has not begun, or it is on another machine
            continue
        try:
            with FileLock(lock, timeout=0):
                pass
        except Timeout:
            continue
        instance.report_run_failed(run, "Its process is gone: it was killed, or the machine was switched off")
        orphaned.append(run.run_id)
    return orphaned


def _lock(instance: dg.DagsterInstance, run_id: str) -> Path:
    """The lock file of a run, beside its compute logs on this machine."""
    return Path(instance.storage_directory()) / run_id / "process.lock"


def failure_reason(instance: dg.DagsterInstance, run_id: str) -> tuple[str, int]:
    """Return why a run failed and what to do, in one or two sentences, and the command's exit code."""
    look = f"Its log is in the UI (run {run_id})"
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE):
        failure = entry.get_dagster_event().step_failure_data
        known = failure.user_failure_data
        if known is not None and known.description:
            code = known.metadata.get("exit_code")
            return known.description, int(getattr(code, "value", None) or RollbookError.exit_code)
        error = failure.error.cause or failure.error if failure.error else None
        return unexpected_error((error.cls_name if error else None) or "unknown", look), RollbookError.exit_code
    killed = "It ended before it could say why: its process was killed, or could not start"
    return f"{killed}. {look}. Run `rollbook sync`", RollbookError.exit_code
