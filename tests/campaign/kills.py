"""Work in a process of its own, which may be killed on the way."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from random import Random

from pipelines import errors
from tests.support.processes.kills import die_at_step

# A night takes about thirty steps; one that has to recover first, more.
STEPS_MOST = 45
DONE, REFUSED = 0, 9


def forked(work: Callable[[], object], *, die_at: int | None = None) -> BaseProcess:
    """Do some work in a process of its own; with `die_at` it kills itself just before its n-th rename or link."""
    process = multiprocessing.get_context("fork").Process(target=_work, args=(work, die_at), daemon=True)
    process.start()
    return process


def killed(work: Callable[[], object], random: Random) -> bool:
    """Kill some work with SIGKILL, at a random step or instant; returns whether the blow came before its end."""
    if random.random() < 0.5:
        process = forked(work, die_at=random.randint(1, STEPS_MOST))
        process.join(60)
    else:
        process = forked(work)
        process.join(random.uniform(0.02, 0.9))
        process.kill()
        process.join(10)
    assert process.exitcode in (DONE, REFUSED, -signal.SIGKILL), f"the writer ended by itself, with {process.exitcode}"
    return process.exitcode == -signal.SIGKILL


def _work(work: Callable[[], object], die_at: int | None) -> None:
    logging.disable()
    if die_at is not None:
        die_at_step(die_at)
    try:
        work()
    except errors.RollbookError:
        os._exit(REFUSED)
