"""Erasing one student, and refusing to: what an operator does for a data-protection officer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipelines.errors import ArgumentError, HeldError
from pipelines.landing.manifest import Hold
from pipelines.privacy.erasure.certificate import Certificate
from pipelines.privacy.erasure.erasure import Holdings
from pipelines.records import as_id
from pipelines.sync import Rollbook

# Asks whether to go on, given what holds the student.
Asked = Callable[[Holdings], bool]


def find(rollbook: Rollbook, student: int) -> Holdings:
    """Count what holds a student. Nothing is changed, but for what a killed writer left half-done.

    Raises ArgumentError for a number that is no id, and what kept the warehouse from being brought up to date.
    """
    _check_id(student)
    with rollbook.writer():
        rollbook.ready()
        return rollbook.erasure.find(student)


def erase(rollbook: Rollbook, student: int, *, reason: str, confirm: Asked, home: Path | None = None) -> Certificate:
    """Erase a student, and remember to leave them out of all that comes; returns the certificate.

    `home` is Dagster's folder, whose records are cleaned. A student of whom nothing is here is remembered all the same,
    if that is confirmed. Raises ArgumentError for a number that is no id, without a reason or with one that says who it
    is, and for a student under a legal hold; HeldError when it is not confirmed. Nothing is changed then.
    """
    _check_id(student)
    if not reason.strip():
        raise ArgumentError('Say why: add --reason "...", which the certificate shows. Without names')
    with rollbook.writer():
        rollbook.ready()
        erasure = rollbook.erasure
        erasure.progress = rollbook.progress
        holdings = erasure.find(student)
        erasure.check_hold(student)
        if erasure.is_erased(student) and not holdings.anything:
            raise ArgumentError("This student was erased before, and nothing here holds them: there is nothing to do")
        if not confirm(holdings):
            raise HeldError("Held: it was not confirmed. Nothing was changed", Hold(reason="", counts=()))
        erasure.begin(holdings, reason.strip(), home)
        certificate = rollbook.finish_erasure()
        if certificate is None:
            raise AssertionError("an erasure that was begun was not under way")
        return certificate


def hold(rollbook: Rollbook, student: int, *, reason: str) -> None:
    """Refuse to erase a student, until it is lifted. Raises ArgumentError."""
    _check_id(student)
    if not reason.strip():
        raise ArgumentError('Say why: add --reason "...", which is kept with the hold. Without names')
    with rollbook.writer():
        rollbook.erasure.hold(student, reason.strip())


def lift(rollbook: Rollbook, student: int) -> None:
    """Lift the legal hold on a student. Raises ArgumentError where there is none."""
    _check_id(student)
    with rollbook.writer():
        rollbook.erasure.lift(student)


def _check_id(student: int) -> None:
    if as_id(student) is None:
        raise ArgumentError("A student is named by the id at the records service, a whole number from 1 on")
