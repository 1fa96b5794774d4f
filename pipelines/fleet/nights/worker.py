"""The work of one process in a fleet's run: one institution's night, backfill, check, or alert. Then it ends.

It receives only its own institution's key, through a pipe, and answers with one message through a second pipe. A
process that ends without an answer was killed, and only its own institution is affected.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime
from multiprocessing.connection import Connection
from multiprocessing.process import parent_process
from pathlib import Path
from threading import Thread
from traceback import extract_tb
from types import FrameType
from typing import Literal
from uuid import uuid4

import msgspec

from pipelines import files, machine
from pipelines.errors import HeldError, KeyRefusedError, RollbookError, unexpected_error
from pipelines.fleet.nights import outcomes
from pipelines.fleet.nights.backfilling import Rebuilt, rebuild, unfinished
from pipelines.fleet.nights.outcomes import Kind, Outcome
from pipelines.landing.manifest import Manifest
from pipelines.notify import alerts
from pipelines.operations.doctor import Doctor
from pipelines.settings import Settings, load
from pipelines.source.fetch import utc_now
from pipelines.sync import Rollbook
from pipelines.text import naming, printable

log = logging.getLogger(__name__)

# When memory runs out, Linux kills the process with the highest score: a worker, not the run.
_OOM_SCORE = Path("/proc/self/oom_score_adj")
_ALERTS = {Kind.SYNCED: alerts.Kind.SYNCED, Kind.HELD: alerts.Kind.HELD, Kind.FAILED: alerts.Kind.FAILED}


class Finding(msgspec.Struct, frozen=True):
    """One line of an institution's check."""

    what: str
    level: str
    says: str


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The task of one process. `outcome` is what to alert about; `secrets` are this institution's variables only.

    A backfill covers `day` to `last`; `confirmed` is whether it may remove more rows than the hold allows.
    """

    what: Literal["sync", "backfill", "check", "alert"]
    name: str
    day: date | None = None
    fresh: bool = False
    last: date | None = None
    confirmed: bool = False
    outcome: Outcome | None = None
    secrets: dict[str, str] = {}

    def __repr__(self) -> str:  # the secrets stay out of every message
        return f"Task({self.what}, {self.name})"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A process's answer: the night's outcome and whether it was stored, the days rebuilt, or the check's findings.

    `ended` says how a process ended that gave no answer.
    """

    outcome: Outcome | None = None
    is_noted: bool = False
    rebuilt: Rebuilt | None = None
    findings: tuple[Finding, ...] = ()
    ended: str = ""


class Stopped(BaseException):
    """The run was stopped, and this process with it."""


def work(orders: Connection, answers: Connection, clock: Callable[[], datetime] = utc_now) -> None:
    """Receive a task, do it, and answer. Ends the process."""
    with suppress(OSError):
        _OOM_SCORE.write_text("500")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which stops its workers
    signal.signal(signal.SIGTERM, _stop)
    Thread(target=_end_with_the_run, daemon=True).start()
    files.keep_private(None)
    task = msgspec.msgpack.decode(orders.recv_bytes(), type=Task)
    orders.close()
    _log_as(task.name)
    answer = {"sync": _sync, "backfill": _backfill, "check": _check, "alert": _alert}[task.what](task, clock)
    with suppress(BrokenPipeError):  # the run has been killed
        answers.send_bytes(msgspec.msgpack.encode(answer))
    logging.shutdown()
    os._exit(0)  # the interpreter would take a tenth of a second to end


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the handler's signature
    raise Stopped


def _end_with_the_run() -> None:
    """End this process when the run is killed: nobody would receive its answer."""
    run = parent_process()
    if run is not None:
        run.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _log_as(name: str) -> None:
    """Print warnings to standard error, each with the institution's name before it."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines(f"{name}: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        record.exc_info = record.exc_text = None  # a traceback might quote a record
        return printable(super().format(record))


def _sync(task: Task, clock: Callable[[], datetime]) -> Answer:
    began, book = time.monotonic(), None
    try:
        book = Rollbook(_settings(task), clock=clock)
        outcome = _night(book, task)
    except Exception as error:  # noqa: BLE001 - any error fails this institution only
        outcome = _failed(error, book, task, clock())
    outcome = msgspec.structs.replace(outcome, at=clock(), seconds=round(time.monotonic() - began, 3))
    try:
        outcome = note(book or _unasking(task, clock), outcome)
    except (RollbookError, OSError):
        return Answer(outcome=outcome)
    return Answer(outcome=outcome, is_noted=True)


def note(book: Rollbook, outcome: Outcome) -> Outcome:
    """Store an institution's outcome and alert about it; returns it, with a note if Rollbook paused the institution.

    Raises OSError when it cannot be stored; the alert is sent all the same.
    """
    name, fleet = book.settings.institution, book.settings.fleet_path
    try:
        if fleet is not None:
            was_paused = outcomes.load(fleet, name).paused
            known = outcomes.record(fleet, name, outcome)
            if known.paused and not was_paused:
                message = f"{outcome.message} Rollbook has paused it now: {known.paused}."
                outcome = msgspec.structs.replace(outcome, message=message)
    finally:
        tell(book, outcome)
    return outcome


def tell(book: Rollbook, outcome: Outcome) -> None:
    """Alert about an outcome as a single school would, by the institution's own ROLLBOOK_NOTIFY. Never raises.

    `notify.together` sends it with the alerts of the other institutions.
    """
    try:
        told = alerts.Alerts(book, clock=book.clock)
        if told.enabled:
            told.report(alerts.Outcome(f"fleet {uuid4()}", _ALERTS[outcome.kind], outcome.day, outcome.message))
    except Exception as error:  # noqa: BLE001 - a failed alert does not change the night's outcome
        log.warning("The alert could not be noted (%s)", type(error).__name__)


def _night(book: Rollbook, task: Task) -> Outcome:
    """Sync a day. If it is already synced, only finish what a killed process left undone."""
    day = book.partition(task.day or book.today())
    with book.writer():
        counted = [] if task.fresh else book.landings.counted(day)
        if counted:
            book.ready()
            done = synced(counted[-1], asked=False)
        else:
            manifest, _ = book.snapshot(book.land(day, fresh=task.fresh))
            book.merge()
            book.publish()
            done = synced(manifest, asked=True)
    book.mirror.check()
    return done


def synced(manifest: Manifest, *, asked: bool) -> Outcome:
    """The outcome of a night that was synced; `asked` is whether it was fetched just now."""
    return Outcome(
        kind=Kind.SYNCED,
        at=manifest.finished_at,
        day=manifest.snapshot_date,
        message=manifest.reason,
        requests=manifest.requests if asked else 0,
        received=manifest.received,
        rejected=sum(manifest.rejected.values()),
        asked=asked,
    )


def _failed(error: Exception, book: Rollbook | None, task: Task, now: datetime) -> Outcome:
    """The outcome of a night that ended with an error: held, or failed."""
    day = task.day or (book.today() if book is not None else None)
    return Outcome(
        kind=Kind.HELD if isinstance(error, HeldError) else Kind.FAILED,
        at=now,
        day=day,
        message=_message(error, task.name),
        refused=isinstance(error, KeyRefusedError),
    )


def _message(error: Exception, name: str) -> str:
    """What happened and what to do. For an unexpected error, its type and place: its message may quote a record."""
    if isinstance(error, RollbookError):
        return naming(name, error.message)
    own = [frame for frame in extract_tb(error.__traceback__) if "pipelines" in Path(frame.filename).parts]
    place = f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
    return unexpected_error(
        f"{type(error).__name__}{place}", "Other institutions are not affected; the next run retries this one"
    )


def _backfill(task: Task, clock: Callable[[], datetime]) -> Answer:
    try:
        first = task.day or clock().date()
        return Answer(rebuilt=rebuild(_unasking(task, clock), first, task.last or first, confirmed=task.confirmed))
    except Exception as error:  # noqa: BLE001 - as above
        return Answer(rebuilt=unfinished(error, _message(error, task.name)))


def _check(task: Task, clock: Callable[[], datetime]) -> Answer:
    try:
        book = Rollbook(_settings(task), clock=clock)
        with machine.translate_errors(book.warehouse.root):
            found = [Finding(f.what, str(f.level), naming(task.name, f.says)) for f in Doctor(book).examine()]
    except Exception as error:  # noqa: BLE001 - as above
        found = [Finding("settings", "failed", _message(error, task.name))]
    return Answer(findings=tuple(found))


def _alert(task: Task, clock: Callable[[], datetime]) -> Answer:
    """Alert about a process that was killed, and so could not do it itself."""
    if task.outcome is not None:
        with suppress(RollbookError):
            tell(_unasking(task, clock), task.outcome)
    return Answer(outcome=task.outcome)


def _unasking(task: Task, clock: Callable[[], datetime]) -> Rollbook:
    """The institution's warehouse, for work that needs no key. Raises SettingError."""
    with _in_environment(task.secrets):
        return Rollbook(load(fetches=False, institution=task.name), clock=clock)


def _settings(task: Task) -> Settings:
    """The institution's settings, with its key. Raises SettingError."""
    with _in_environment(task.secrets):
        return load(institution=task.name)


@contextmanager
def _in_environment(secrets: Mapping[str, str]) -> Iterator[None]:
    """Set these variables only while the settings are read: no process that is started later inherits them."""
    os.environ.update(secrets)
    try:
        yield
    finally:
        for name in secrets:
            os.environ.pop(name, None)
