"""Erases a student, or puts one under a legal hold, for a data-protection officer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipelines.errors import ArgumentError, HeldError
from pipelines.landing.manifest import Hold
from pipelines.privacy.erasure import Certificate, Erasure, Holdings
from pipelines.records import as_id
from pipelines.sync import Rollbook

# Asks whether to go on, given what holds the student.
ConfirmErasure = Callable[[Holdings], bool]


def find(rollbook: Rollbook, student: int) -> Holdings:
    """Count what holds a student. Changes nothing, except that it recovers what a killed writer left.

    Raises ArgumentError for an invalid id, and what recovery raises.
    """
    _check(student)
    with rollbook.writer():
        rollbook.ready()
        return rollbook.listener(Erasure).find(student)


def erase(
    rollbook: Rollbook, student: int, *, reason: str, confirm: ConfirmErasure, home: Path | None = None
) -> Certificate:
    """Erase a student, and leave them out of all later landings; returns the certificate.

    `home` is Dagster's folder, whose records are cleaned. An unknown student is kept out as well, if that is confirmed.
    Raises ArgumentError for an invalid id, a reason that is missing or identifies the student, and a student under a
    legal hold; HeldError when it is not confirmed. Nothing is changed then.
    """
    _check(student, reason)
    with rollbook.writer():
        rollbook.ready()
        erasure = rollbook.listener(Erasure)
        rollbook.erasures.progress = rollbook.progress
        holdings = erasure.find(student)
        erasure.check_hold(student)
        if student in erasure.memory.matcher() and not holdings.anything:
            raise ArgumentError("This student was erased before, and nothing holds them now: there is nothing to do")
        if not confirm(holdings):
            raise HeldError("Held: it was not confirmed. Nothing was changed", Hold(reason="", counts=()))
        erasure.begin(holdings, reason.strip(), home)
        rollbook.recover()  # as the next writer would after a kill at this point
        if erasure.certificate is None:
            raise AssertionError("an erasure that was begun is not finished")
        return erasure.certificate


def hold(rollbook: Rollbook, student: int, *, reason: str) -> None:
    """Put a student under a legal hold, until it is lifted. Raises ArgumentError."""
    _check(student, reason)
    with rollbook.writer():
        rollbook.listener(Erasure).hold(student, reason.strip())


def lift(rollbook: Rollbook, student: int) -> None:
    """Lift the legal hold on a student. Raises ArgumentError if there is none."""
    _check(student)
    with rollbook.writer():
        rollbook.listener(Erasure).lift(student)


def _check(student: int, reason: str = "given") -> None:
    if as_id(student) is None:
        raise ArgumentError("Give the student's id at the records service, a whole number from 1")
    if not reason.strip():
        raise ArgumentError('Say why: add --reason "...", which is kept. Without names')
