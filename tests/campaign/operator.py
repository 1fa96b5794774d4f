"""What an operator can do to a warehouse, in this process or in one that is killed on the way."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable
from datetime import date
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import stamina

from pipelines import errors
from pipelines.operations import discard as discards
from pipelines.operations.diff import diff
from pipelines.operations.prune import prune as prune_now
from pipelines.sync import always, within_hold
from tests.support.nights import TRIES, House
from tests.support.processes.kills import die_at_step

# A night takes about thirty steps; one that has to recover first, more.
STEPS_MOST = 45
DONE, REFUSED = 0, 9


class Operator:
    """Calls of `Rollbook` by a house's settings and clock."""

    def __init__(self, house: House) -> None:
        self.house = house

    def sync(self) -> None:
        """The nightly job."""
        self.house.sync()

    def approve(self, day: date, *, named: bool) -> None:
        """Merge what a day holds; it need not be `named` when it is the newest."""
        self.house.approve(day if named else None)

    def approve_nothing(self) -> None:
        """Approve though nothing is held."""
        self.house.approve()

    def backfill(self, first: date, last: date) -> None:
        """Make some days again from what was landed."""
        self.house.rollbook().backfill(first, last)

    def rebuild(self) -> None:
        """Make everything again."""
        self.house.rollbook().rebuild()

    def rebuild_accepting_the_loss(self) -> None:
        """Make everything again from what is left."""
        self.house.rollbook().rebuild(confirm=always, accept_loss=True)

    def discard(self, day: date, number: int | None, *, accept: bool = False) -> None:
        """Take a landing back: the last counted one of its day, without a number."""
        confirm = always if accept else within_hold
        discards.discard(self.house.rollbook(), day, number, reason="the campaign says so", confirm=confirm)

    def undo_discard(self, day: date, number: int | None, *, accept: bool = False) -> None:
        """Put a discarded landing back."""
        discards.undo_discard(self.house.rollbook(), day, number, confirm=always if accept else within_hold)

    def restore(self, kept: Path) -> None:
        """Put a kept file in the published one's place."""
        self.house.rollbook().restore(kept)

    def prune(self) -> None:
        """Drop what need not be kept."""
        prune_now(self.house.rollbook())

    def diff(self) -> None:
        """Look at what a sync would do."""
        with stamina.set_testing(True, attempts=TRIES, cap=True):
            diff(self.house.rollbook())

    def kept(self) -> list[Path]:
        """The published files before this one."""
        return self.house.rollbook().warehouse.kept()


def forked(work: Callable[[], None], *, die_at: int | None = None) -> BaseProcess:
    """Do some work in a process of its own; with `die_at` it kills itself just before its n-th rename or link."""
    process = multiprocessing.get_context("fork").Process(target=_work, args=(work, die_at), daemon=True)
    process.start()
    return process


def killed(work: Callable[[], None], random: Random) -> bool:
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


def _work(work: Callable[[], None], die_at: int | None) -> None:
    logging.disable()
    if die_at is not None:
        die_at_step(die_at)
    try:
        work()
    except errors.RollbookError:
        os._exit(REFUSED)
