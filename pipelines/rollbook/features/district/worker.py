"""A worker of a district's run: a process that does one task after the other, each for one institution.

Tasks come over a connection as JSON, each with the secrets of its institution alone, and results go back. The end of
the connection is the end of the run, also of a run that was killed.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from traceback import extract_tb

import msgspec

from rollbook import settings
from rollbook.assembly import assemble, lines
from rollbook.errors import (
    HeldError,
    KeyRefusedError,
    NothingLandedError,
    RollbookError,
    unexpected_error,
)
from rollbook.health.doctor import examine
from rollbook.health.finding import Finding
from rollbook.landing.manifest import Manifest
from rollbook.night import past, sync
from rollbook.night.past import always, within_hold
from rollbook.opened import Rollbook
from rollbook.source.fetch import utc_now
from rollbook.store.database import machine_errors
from rollbook.util import files
from rollbook.util.text import printable


class NightKind(StrEnum):
    """How an institution's night or backfill ended. `skipped`: no day was landed; `paused`: left out."""

    SYNCED = "synced"
    REBUILT = "rebuilt"
    SKIPPED = "skipped"
    HELD = "held"
    FAILED = "failed"
    PAUSED = "paused"


class NightOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One night of one institution. `message` says what happened and what to do next; `at` is when it ended (UTC).

    `received` counts records per set, `requests` the requests to the service; `fetched` is false if the day was already
    synced, so that nothing was fetched. `refused`: the service did not accept the key. Of a backfill, `days` were
    rebuilt, and `skipped` says why others were not.
    """

    kind: NightKind
    at: datetime
    day: date | None = None
    message: str = ""
    seconds: float = 0.0
    requests: int = 0
    received: dict[str, int] = {}
    rejected: int = 0
    fetched: bool = True
    refused: bool = False
    days: tuple[date, ...] = ()
    skipped: dict[date, str] = {}


def outcome_of(manifest: Manifest, *, fetched: bool = True) -> NightOutcome:
    """The outcome of a landing that was decided; `fetched` is whether the sync asked the service just now."""
    ended = manifest.judged_at or manifest.finished_at
    return NightOutcome(
        kind=NightKind(manifest.verdict.outcome) if manifest.verdict else NightKind.FAILED,
        at=ended,
        day=manifest.snapshot_date,
        message=manifest.reason,
        seconds=manifest.seconds,
        requests=manifest.requests if fetched else 0,
        received=manifest.received,
        rejected=sum(manifest.rejected.values()),
        fetched=fetched,
    )


def failed_night(error: Exception, at: datetime, day: date | None) -> NightOutcome:
    """The outcome of a night that ended with an error."""
    kind = NightKind.HELD if isinstance(error, HeldError) else NightKind.FAILED
    return NightOutcome(
        kind=kind,
        at=at,
        day=day,
        message=_message(error).removeprefix("Held: "),
        refused=isinstance(error, KeyRefusedError),
    )


class Task(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Work for an institution. `secrets` are the variables that its settings, and libraries, read.

    The moment is `now` (default: by this machine's clock).
    """

    institution: str
    secrets: dict[str, str] = {}
    now: datetime | None = None
    day: date | None = None

    def clock(self) -> datetime:
        """The time of the task (UTC)."""
        return self.now or utc_now()


class Sync(Task, frozen=True, kw_only=True):
    """Sync a day. If the day is already synced, only finish what a killed process left undone, unless `fresh`."""

    fresh: bool = False

    def run(self, rollbook: Rollbook) -> NightOutcome:
        """The outcome of the night."""
        # The run reports: it also knows of killed workers and of pauses, and sends one message for all.
        writer = replace(rollbook.writer(), listeners=rollbook.listeners.unreported())
        done = sync(writer, self.day, fresh=self.fresh, unless_synced=not self.fresh)
        return outcome_of(done.manifest, fetched=done.is_new)


class Backfill(Task, frozen=True, kw_only=True):
    """Rebuild the landed days from `day` to `last`. Unless `confirmed`, it is held if it would remove too many rows."""

    day: date
    last: date
    confirmed: bool = False

    def run(self, rollbook: Rollbook) -> NightOutcome:
        """The outcome of the backfill."""
        try:
            done = past.backfill(
                rollbook.writer(), self.day, self.last, confirm=always if self.confirmed else within_hold
            )
        except NothingLandedError as error:
            return NightOutcome(kind=NightKind.SKIPPED, at=self.clock(), message=error.message)
        return NightOutcome(kind=NightKind.REBUILT, at=self.clock(), days=tuple(done.rebuilt), skipped=done.skipped)


class Check(Task, frozen=True, kw_only=True):
    """Check whether the institution could be synced here and now."""

    def run(self, rollbook: Rollbook) -> list[Finding]:
        """The findings."""
        with machine_errors(rollbook.warehouse.root):
            return [*examine(rollbook.place, rollbook.settings, rollbook.clock()), *lines(rollbook)]


WorkerResult = NightOutcome | list[Finding]

# When memory runs out, Linux kills the process with the highest score: a worker, not the run.
_OOM_SCORE = Path("/proc/self/oom_score_adj")


def main() -> None:
    """Do the tasks of a run, which come over the connection that the command names, until there are no more."""
    with suppress(OSError):
        _OOM_SCORE.write_text("500")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    files.keep_private(None)
    run = Connection(int(sys.argv[1]))
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    Thread(target=_receive, args=(run, tasks), daemon=True).start()
    try:
        while True:
            result = work(msgspec.json.decode(tasks.get(), type=Sync | Backfill | Check))
            with suppress(OSError):  # the run has been killed
                run.send_bytes(msgspec.json.encode(result))
    finally:  # the interpreter's own end takes a tenth of a second, and names what DuckDB leaves behind
        logging.shutdown()
        os._exit(128 + signal.SIGTERM)


def _receive(run: Connection, tasks: queue.SimpleQueue[bytes]) -> None:
    """Queue the tasks. Ends this process with the run, also in the middle of a task: nobody would take its result."""
    with suppress(EOFError, OSError):
        while True:
            tasks.put(run.recv_bytes())
    os.kill(os.getpid(), signal.SIGTERM)
    # Wakes the main thread, which a signal does not interrupt that comes just before it begins to wait for a task.
    tasks.put(b"")


def work(task: Sync | Backfill | Check) -> WorkerResult:
    """Do a task. Any error is the institution's failed night."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines(f"{task.institution}: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    began, rollbook = time.monotonic(), None
    try:
        rollbook = assemble(_load(task), clock=task.clock)
        result = task.run(rollbook)
    except Exception as error:  # noqa: BLE001 - any error fails this institution only
        result = failed_night(error, task.clock(), task.day or (rollbook.today() if rollbook is not None else None))
    if isinstance(result, NightOutcome):
        return msgspec.structs.replace(result, at=task.clock(), seconds=round(time.monotonic() - began, 3))
    return result


def _load(task: Task) -> settings.Settings:
    """The institution's settings. Its own secrets are in the environment meanwhile; what libraries read stays."""
    os.environ.update(task.secrets)
    try:
        return settings.load(institution=task.institution, fetches=not isinstance(task, Backfill))
    finally:
        for secret in task.secrets:
            if not settings.is_of_library(secret):
                del os.environ[secret]


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        record.exc_info = record.exc_text = None  # a traceback might quote a record
        return printable(super().format(record))


def _message(error: Exception) -> str:
    """Say what happened and what to do. For an unexpected error, its type and place: its message may quote a record."""
    if isinstance(error, RollbookError):
        return error.message
    own = [frame for frame in extract_tb(error.__traceback__) if "rollbook" in Path(frame.filename).parts]
    place = f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
    return unexpected_error(
        f"{type(error).__name__}{place}", "Other institutions are not affected; the next run retries this one"
    )
