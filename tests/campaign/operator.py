"""What an operator can do to a warehouse, in this process or in one that is killed on the way."""

from __future__ import annotations

import inspect
import itertools
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable
from datetime import date
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

import stamina

from pipelines import errors
from pipelines.sync import Rollbook
from tests.kills import STEPS, _mortal
from tests.nights import TRIES, House

# A night takes about thirty steps; one that has to recover first, more.
STEPS_MOST = 45
DONE, REFUSED = 0, 9

EXPIRED: type[errors.RollbookError] = next(
    getattr(errors, name) for name in ("ExpiredError", "ThinnedError") if hasattr(errors, name)
)


class Operator:
    """Calls of `Rollbook` by a house's settings and clock. `can` says which there are."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.can = {name for name in ("approve", "discard", "undo_discard") if hasattr(Rollbook, name)}
        self.can |= {"accept"} if "accept" in inspect.signature(Rollbook.backfill).parameters else set()

    @property
    def recovers_first(self) -> bool:
        """Whether every writer first brings what is published up to what is landed."""
        return "approve" in self.can

    def sync(self) -> None:
        """The nightly job."""
        self.house.sync()

    def approve(self, day: date, *, named: bool) -> None:
        """Merge what a day holds; it need not be `named` when it is the newest."""
        if "approve" in self.can:
            self._do("approve", day if named else None)
        else:
            self.house.sync(day, approve=True)

    def approve_nothing(self) -> None:
        """Approve though nothing is held."""
        self._do("approve", None)

    def backfill(self, first: date, last: date) -> None:
        """Make some days again from what was landed."""
        self._do("backfill", first, last)

    def rebuild(self) -> None:
        """Make everything again."""
        self._do("rebuild")

    def rebuild_accepting_the_loss(self) -> None:
        """Make everything again from what is left."""
        self._do("rebuild", accept=True, accept_loss=True)

    def discard(self, day: date, number: int | None, *, accept: bool = False) -> None:
        """Take a landing back: the last counted one of its day, without a number."""
        self._do("discard", day, number, reason="the campaign says so", accept=accept)

    def undo_discard(self, day: date, number: int | None, *, accept: bool = False) -> None:
        """Put a discarded landing back."""
        self._do("undo_discard", day, number, accept=accept)

    def restore(self, kept: Path) -> None:
        """Put a kept file in the published one's place."""
        self._do("restore", kept)

    def prune(self) -> None:
        """Drop what need not be kept."""
        self._do("prune")

    def diff(self) -> None:
        """Look at what a sync would do."""
        known = next(m for m in ("operations", "upkeep") if find_spec(f"pipelines.{m}") is not None)
        with stamina.set_testing(True, attempts=TRIES, cap=True):
            import_module(f"pipelines.{known}.diff").diff(self.house.rollbook())

    def kept(self) -> list[Path]:
        """The published files before this one."""
        return self.house.rollbook().warehouse.kept()

    def _do(self, call: str, *arguments: Any, **named: Any) -> None:
        getattr(self.house.rollbook(), call)(*arguments, **named)


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
        count = itertools.count(1)
        for name in STEPS:
            setattr(os, name, _mortal(getattr(os, name), count, die_at))
    try:
        work()
    except errors.RollbookError:
        os._exit(REFUSED)
