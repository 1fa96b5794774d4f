"""Decorators for the stages of a sync: a failed stage raises a RollbookError, and the morning page says why."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from pipelines import machine
from pipelines.errors import (
    CheckError,
    ContractChangedError,
    DamagedError,
    DeclarationError,
    ExpiredError,
    HeldError,
    LostError,
    MachineError,
    OtherInstitutionError,
    ServiceError,
    SettingError,
)
from pipelines.sync import messages

if TYPE_CHECKING:
    from pipelines.sync.rollbook import Rollbook

P = ParamSpec("P")
T = TypeVar("T")
Stage = Callable[Concatenate["Rollbook", P], T]

# The errors that the morning page reports.
TROUBLE = (
    ServiceError,
    HeldError,
    ContractChangedError,
    OtherInstitutionError,
    CheckError,
    SettingError,
    MachineError,
    DamagedError,
    DeclarationError,
    ExpiredError,
    LostError,
)


def stage(work: Stage[P, T]) -> Stage[P, T]:
    """Make a stage raise MachineError for faults of this machine, and recover damaged files."""

    @wraps(work)
    def translated(self: Rollbook, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with machine.translate_errors(self.raw.root.parent):
                return work(self, *args, **kwargs)
        except DamagedError as error:
            done = self.recovery.recover_damaged() if self.is_writer else None
            if done is None:
                raise
            raise DamagedError(done) from error

    return translated


def reported_stage(work: Stage[P, T]) -> Stage[P, T]:
    """As `stage`; the morning page also reports the failure, since its readers see neither the log nor the UI."""
    inner = stage(work)

    @wraps(work)
    def reported(self: Rollbook, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return inner(self, *args, **kwargs)
        except TROUBLE as error:
            if self.is_writer:
                self.publisher.write_report(messages.on_page(error))
            raise

    return reported
