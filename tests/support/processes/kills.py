"""A writer in a new process, to be killed with SIGKILL: at any instant, or by itself at a chosen step.

A step is a call that puts a whole file or folder where the next writer looks for it: a rename or a link. The process is
forked from one that has imported everything, so that the kill comes during the writing, not during the start.
"""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from rollbook.night import past, sync
from rollbook.tables import TABLES
from tests.support.warehouses.days import rollbook

STEPS = ("replace", "rename", "link")


@dataclass(frozen=True)
class Job:
    """The work of a writer: a sync of `first`, a backfill of `first` to `last`, or a rebuild.

    `wrongly`: with a flattening that takes every class's room from the wrong field, so that a backfill has to put
    each class right on each day.
    """

    what: str
    warehouse: Path
    base_url: str
    first: date
    last: date
    wrongly: bool = False

    def run(self) -> None:
        """Do the job, in this process."""
        book = rollbook(self.warehouse, self.base_url, today=self.last)
        if self.what == "sync":
            sync(book.writer(), self.first)
        elif self.what == "backfill":
            past.backfill(book.writer(), self.first, self.last)
        else:
            past.rebuild(book.writer())


def start(job: Job, *, die_at: int | None = None) -> BaseProcess:
    """Start a writer; with `die_at`, the process kills itself just before the n-th step."""
    return forked(_work, job, die_at)


def forked(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Start some work in a process that is forked from a process with all imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    process = context.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def killed_or_done(process: BaseProcess, *, after: float | None = None) -> bool:
    """Kill a writer `after` so many seconds, or let the writer end; returns whether it was killed. It must not fail by
    itself.
    """
    process.join(180 if after is None else after)
    if after is not None:
        process.kill()
        process.join(10)
    assert process.exitcode in (0, -signal.SIGKILL), f"the writer ended by itself, with {process.exitcode}"
    return process.exitcode != 0


def _work(job: Job, die_at: int | None) -> None:
    logging.disable()
    classes = TABLES["classes"]
    if job.wrongly:
        columns = (replace(c, source="class_code") if c.name == "class_room" else c for c in classes.columns)
        TABLES["classes"] = replace(classes, columns=tuple(columns))
    if die_at is not None:
        die_at_step(die_at)
    job.run()


def die_at_step(number: int) -> None:
    """Let this process kill itself just before the n-th step."""
    count = itertools.count(1)
    for name in STEPS:
        setattr(os, name, _killing(getattr(os, name), count, number))


def _killing(call: Callable[..., Any], count: itertools.count[int], die_at: int) -> Callable[..., Any]:
    def step(*arguments: Any, **named: Any) -> Any:
        if next(count) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)

    return step
