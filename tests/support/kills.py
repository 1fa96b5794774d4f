"""A writer in a process of its own, to be killed with SIGKILL: at any instant, or by itself at a chosen step.

A step is a call that puts a whole file or folder where the next writer will look for it: a rename or a link. The
process is forked from one that has imported everything, so that what is killed is a writer and not an interpreter
starting up.
"""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

from pipelines.tables import TABLES
from tests.support.fortnight import rollbook

STEPS = ("replace", "rename", "link")


@dataclass(frozen=True)
class Job:
    """What a writer is to do: a sync of `first`, a backfill of `first` to `last`, or a rebuild.

    `wrongly`: with a flattening that takes every class's room from the wrong field, so that a backfill has to put
    each class right on each day. `without`: as a Rollbook that does not know this column of `classes` yet.
    """

    what: str
    warehouse: Path
    base_url: str
    first: date
    last: date
    wrongly: bool = False
    without: str = ""

    def run(self) -> None:
        """Do it, in this process."""
        book = rollbook(self.warehouse, self.base_url, today=self.last)
        if self.what == "sync":
            book.sync(self.first)
        elif self.what == "backfill":
            book.backfill(self.first, self.last)
        else:
            book.rebuild()


def start(job: Job, *, die_at: int | None = None) -> BaseProcess:
    """Start a writer; with `die_at`, it kills itself just before its n-th step."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.kills"])
    process = context.Process(target=_work, args=(job, die_at), daemon=True)
    process.start()
    return process


def killed_or_done(process: BaseProcess, *, after: float | None = None) -> bool:
    """Kill a writer `after` so many seconds, or let it end; returns whether it was killed. It never fails by itself."""
    process.join(180 if after is None else after)
    if after is not None:
        process.kill()
        process.join(10)
    assert process.exitcode in (0, -signal.SIGKILL), f"the writer ended by itself, with {process.exitcode}"
    return process.exitcode != 0


class Aim:
    """Blows at random instants of a piece of work, at the pace that the machine has just now."""

    def __init__(self, seed: int) -> None:
        self.takes = 1.0
        self.hits = 0
        self._random = Random(seed)

    @contextmanager
    def timing(self) -> Iterator[None]:
        """What is done meanwhile takes as long as the work that is aimed at."""
        began = time.monotonic()
        yield
        self.takes = max(0.2, time.monotonic() - began)

    def strike(self, process: BaseProcess) -> None:
        """Kill a writer before it is done. One that was over before the blow shows that the work takes less by now."""
        if killed_or_done(process, after=self._random.uniform(0, 0.8 * self.takes)):
            self.hits += 1
        else:
            self.takes *= 0.7


def _work(job: Job, die_at: int | None) -> None:
    logging.disable()
    classes = TABLES["classes"]
    columns = tuple(c for c in classes.columns if c.name != job.without)
    if job.wrongly:
        columns = tuple(replace(c, source="class_code") if c.name == "class_room" else c for c in columns)
    TABLES["classes"] = replace(classes, columns=columns)
    if die_at is not None:
        count = itertools.count(1)
        for name in STEPS:
            setattr(os, name, _mortal(getattr(os, name), count, die_at))
    job.run()


def _mortal(call: Callable[..., Any], count: itertools.count[int], die_at: int) -> Callable[..., Any]:
    def step(*arguments: Any, **named: Any) -> Any:
        if next(count) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)

    return step
