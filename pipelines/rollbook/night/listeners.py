"""Listeners of a night: the morning page, the pseudonymous file, the off-site copy, an erasure's holders.

A listener that fails never fails a night: the log says so, and the next night makes up for the failure. What could make
a night wrong does not listen. `assembly` says who listens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TypeVar

from rollbook.errors import RollbookError
from rollbook.landing.erased import Matcher, Pending
from rollbook.store.database import machine_errors

log = logging.getLogger(__name__)


@dataclass
class ErasureUnderWay:
    """An erasure that the landings, the lake and the published files have seen; listeners remove what else there is.

    Listeners add what they removed to `counts` (see `rights.erasure.LABELS`, and `PersonalData`).
    """

    number: int
    pending: Pending
    erased: Matcher
    counts: dict[str, int]


class Listener:
    """Every method does nothing unless overridden. All but `sync_ended` are called under the writer lock."""

    # The listener's name in the log.
    name = "a listener"

    def began(self, at: datetime) -> None:
        """A writer has begun, and the warehouse is up to date: repair what an earlier night left unfinished."""

    def before_publish(self, next_file: Path, at: datetime) -> None:
        """The next file has passed the checks, and readers do not have the file yet."""

    def on_published(self, at: datetime) -> None:
        """Readers have a new file."""

    def failed(self, error: RollbookError, at: datetime) -> None:
        """A stage failed; readers keep the published file."""

    def erased(self, erased: ErasureUnderWay) -> None:
        """Remove an erased student. It may be called again after a kill; an error leaves the erasure under way."""

    def ended(self, at: datetime) -> None:
        """A writer is done, or has failed."""

    def sync_ended(self, day: date, error: Exception | None) -> None:
        """A sync of the day, or an approval, has ended, well or with an error. The lock is free again."""

    def landings(self, day: date) -> list[int]:  # noqa: ARG002 - see the class
        """The numbers of the day's landings that the listener knows of, even of lost landings."""
        return []

    def remark(self) -> str:
        """A sentence for the foot of the morning page; empty if there is nothing to say."""
        return ""

    def check(self) -> None:
        """Raise LostError if something was found to be lost here, after all was written."""


L = TypeVar("L", bound=Listener)


@dataclass(frozen=True)
class Listeners:
    """The listeners of a warehouse, in the order in which they learn of something. `root` is the warehouse's folder;
    without `reports`, they do not learn how a sync ends.
    """

    root: Path
    each: tuple[Listener, ...] = ()
    reports: bool = True

    def __iter__(self) -> Iterator[Listener]:
        """Yield them in that order."""
        return iter(self.each)

    def tell(self, what: Callable[[Listener], None]) -> None:
        """Tell all of them something; a failure is a warning in the log."""
        for listener in self.each:
            try:
                with machine_errors(self.root):
                    what(listener)
            except Exception as error:  # noqa: BLE001 - the night is worth more than any listener
                # Other messages may hold values.
                why = error.message if isinstance(error, RollbookError) else type(error).__name__
                log.warning(
                    "%s could not be brought up to date: %s. It stays as it was, and the next night tries again; see"
                    " `rollbook status`",
                    listener.name,
                    why,
                )

    def landings(self, day: date) -> list[int]:
        """The numbers of the day's landings that any of them knows of."""
        numbers = list[int]()
        self.tell(lambda listener: numbers.extend(listener.landings(day)))
        return numbers

    def check(self) -> None:
        """Raise LostError if a listener found that something is lost here."""
        for listener in self.each:
            listener.check()

    def unreported(self) -> Listeners:
        """The same, none of which learns how a sync ends: who runs many of them reports that."""
        return Listeners(self.root, self.each, reports=False)

    def find(self, kind: type[L]) -> L | None:
        """The listener of a class; None if there is none."""
        return next((each for each in self.each if isinstance(each, kind)), None)
