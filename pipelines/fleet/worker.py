"""The work of one process in a fleet's run: one institution's night, backfill or check. Then it ends.

It receives only its own institution's key, through a pipe, and answers through a second one. A process that ends
without an answer was killed, and only its own institution is affected.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from multiprocessing.connection import Connection
from multiprocessing.process import parent_process
from pathlib import Path
from threading import Thread
from traceback import extract_tb
from typing import Any

import msgspec

from pipelines import files, machine
from pipelines.compose import compose
from pipelines.errors import HeldError, KeyRefusedError, NothingLandedError, RollbookError, unexpected_error
from pipelines.fleet import outcomes
from pipelines.fleet.outcomes import Kind, Outcome
from pipelines.operations.doctor import Doctor, Finding
from pipelines.settings import load
from pipelines.sync import Rollbook, always, within_hold
from pipelines.text import naming, printable

# When memory runs out, Linux kills the process with the highest score: a worker, not the run.
_OOM_SCORE = Path("/proc/self/oom_score_adj")

Answer = Outcome | list[Finding]


def work(
    job: Callable[..., Answer],
    name: str,
    arguments: Mapping[str, Any],
    secrets: Mapping[str, str],
    clock: Callable[[], datetime],
    answers: Connection,
) -> None:
    """Do a job of this module for an institution, and answer. Ends the process."""
    with suppress(OSError):
        _OOM_SCORE.write_text("500")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which stops its workers
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    Thread(target=_end_with_the_run, daemon=True).start()
    files.keep_private(None)
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines(f"{name}: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    began, book = time.monotonic(), None
    try:
        os.environ.update(secrets)  # only while the settings are read: no process that is started later inherits them
        settings = load(institution=name, fetches=job is not backfill)
        for secret in secrets:
            del os.environ[secret]
        book = compose(settings, clock=clock)
        answer = job(book, **arguments)
    except Exception as error:  # noqa: BLE001 - any error fails this institution only
        answer = Outcome(
            kind=Kind.HELD if isinstance(error, HeldError) else Kind.FAILED,
            at=clock(),
            day=arguments.get("day") or (book.today() if book is not None else None),
            message=_message(error, name),
            refused=isinstance(error, KeyRefusedError),
        )
    if isinstance(answer, Outcome):
        answer = msgspec.structs.replace(answer, at=clock(), seconds=round(time.monotonic() - began, 3))
    with suppress(BrokenPipeError):  # the run has been killed
        answers.send(answer)
    logging.shutdown()
    os._exit(0)  # the interpreter would take a tenth of a second to end


def sync(book: Rollbook, *, day: date | None, fresh: bool) -> Outcome:
    """Sync a day. If it is already synced, only finish what a killed process left undone."""
    day = book.partition(day or book.today())
    with book.writer():
        counted = [] if fresh else book.landings.counted(day)
        if counted:
            book.ready()
            done = outcomes.of(counted[-1], asked=False)
        else:
            manifest, _ = book.snapshot(book.land(day, fresh=fresh))
            book.merge()
            book.publish()
            done = outcomes.of(manifest)
    book.check_listeners()
    return done


def backfill(book: Rollbook, *, day: date, last: date, confirmed: bool) -> Outcome:
    """Rebuild the landed days of a range. Unless `confirmed`, it is held if it would remove too many rows."""
    try:
        done = book.backfill(day, last, confirm=always if confirmed else within_hold)
    except NothingLandedError as error:
        return Outcome(kind=Kind.SKIPPED, at=book.clock(), message=error.message)
    return Outcome(kind=Kind.REBUILT, at=book.clock(), days=tuple(done.rebuilt), skipped=done.skipped)


def check(book: Rollbook) -> list[Finding]:
    """Check whether the institution could be synced here and now."""
    name = book.settings.institution
    with machine.translate_errors(book.warehouse.root):
        return [replace(found, says=naming(name, found.says)) for found in Doctor(book).examine()]


def _end_with_the_run() -> None:
    """End this process when the run is killed: nobody would receive its answer."""
    run = parent_process()
    if run is not None:
        run.join()
        os.kill(os.getpid(), signal.SIGTERM)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        record.exc_info = record.exc_text = None  # a traceback might quote a record
        return printable(super().format(record))


def _message(error: Exception, name: str) -> str:
    """What happened and what to do. For an unexpected error, its type and place: its message may quote a record."""
    if isinstance(error, RollbookError):
        return naming(name, error.message)
    own = [frame for frame in extract_tb(error.__traceback__) if "pipelines" in Path(frame.filename).parts]
    place = f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
    return unexpected_error(
        f"{type(error).__name__}{place}", "Other institutions are not affected; the next run retries this one"
    )
