"""What can go wrong, each with what to do next. Nothing here but exceptions, and what is said of all others.

    RollbookError                   exit 1
    ├── SettingError                exit 2   a setting is missing or malformed
    ├── ArgumentError               exit 2   an argument is missing or malformed
    ├── HeldError                   exit 3   a landslide waits for a person's approval
    ├── ServiceError                         the records service did not do its part
    │   ├── UnreachableError                 no usable answer within the retries
    │   ├── NotTheContractError              an answer came, but not the contract's
    │   ├── RefusedError                     the service said no: status and error_code
    │   │   └── KeyRefusedError              401: the key is missing, wrong or revoked
    │   └── RedirectError                    the service pointed elsewhere; the key stays here
    ├── OtherInstitutionError                the key belongs to another institution
    ├── ContractChangedError                 too many records were refused to trust the rest
    ├── NothingLandedError                   a past day that was never fetched
    ├── BusyError                            another writer holds the warehouse
    ├── BehindError                          what is published is not what was landed, and only a writer may change that
    ├── DamagedError                         a file of the warehouse cannot be read
    ├── MachineError                         disk, permissions, memory or clock of this machine stand in the way
    ├── DeclarationError                     what is at rest does not fit the types that are declared now
    ├── ExpiredError                         a rebuild would lose history that raw/ no longer holds
    ├── UndeliveredError                     an alert did not get through
    └── CheckError                           a check that only Rollbook itself can have broken

A message is one or two sentences: what happened, then what to do. It never holds the key, a body, a name or an
email address (G12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar


class RollbookError(Exception):
    """Anything Rollbook reports on purpose. `exit_code` is what the command ends with."""

    exit_code: ClassVar[int] = 1

    @property
    def message(self) -> str:
        """What happened and what to do next, in words."""
        return str(self)


class SettingError(RollbookError):
    """A setting is missing or malformed. A retry cannot help; setting it does."""

    exit_code = 2


class ArgumentError(RollbookError):
    """An argument is missing or malformed. A retry with the right one helps."""

    exit_code = 2


class HeldError(RollbookError):
    """A sync would change more than a normal night does. A person looks, then approves or waits.

    `report` lists, per table, what would be added, changed and removed (a `landing.Hold`).
    """

    exit_code = 3

    def __init__(self, message: str, report: object) -> None:
        super().__init__(message)
        self.report = report


class ServiceError(RollbookError):
    """The records service did not do its part."""


class UnreachableError(ServiceError):
    """No usable answer came within the retries. A later sync may succeed."""


class NotTheContractError(ServiceError):
    """An answer came, again and again, that is not the contract's JSON. A retry rarely helps."""


class RefusedError(ServiceError):
    """The service refused a request, in the contract's error body or another. A retry does not help.

    `status` is the HTTP status, `error_code` the body's own, if it has the form of one; else it is empty. The
    service's own words go no further.
    """

    def __init__(self, message: str, *, status: int, error_code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code


class KeyRefusedError(RefusedError):
    """The service does not accept the key (401). A retry does not help; a new key does."""


class RedirectError(ServiceError):
    """The service answered with a redirect, which is never followed: the key stays with its host."""


class OtherInstitutionError(RollbookError):
    """The key belongs to another institution than the warehouse. Nothing was fetched."""


class ContractChangedError(RollbookError):
    """More records of a set were refused than a few bad ones explain. Nothing was merged."""


class NothingLandedError(RollbookError):
    """Nothing was landed on the day asked for, and the service keeps no history."""

    def __init__(self, message: str, days: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.days = tuple(days)


class BusyError(RollbookError):
    """Another sync is writing to the warehouse. A retry helps once it is done."""


class BehindError(RollbookError):
    """What is published is not what was landed, and only a writer may change that. A sync helps."""


class DamagedError(RollbookError):
    """A file of the warehouse cannot be read. The message names the command that mends it."""


class MachineError(RollbookError):
    """The machine cannot do its part: a full or read-only disk, no permission, no memory, a clock set back.

    A retry helps once that is replace_lone_surrogates; the message says how.
    """


class DeclarationError(RollbookError):
    """Values at rest do not fit their column's type in pipelines/tables.py. Correcting the declaration helps."""


class ExpiredError(RollbookError):
    """What was asked for would lose history that `raw/` no longer holds. A retry cannot help; nothing was touched."""


class UndeliveredError(RollbookError):
    """An alert did not get through. `again` says whether a later try can help. No sync fails for it."""

    def __init__(self, message: str, *, again: bool) -> None:
        super().__init__(message)
        self.again = again


class CheckError(RollbookError):
    """A check that only Rollbook itself can have broken failed before publishing. Readers keep the last file.

    `found` holds every check by name, with what it found in words: nothing where it holds.
    """

    def __init__(self, message: str, found: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(message)
        self.found = dict(found or {})


def unforeseen(kind: str, look: str) -> str:
    """What is said of an error that nobody foresaw: its kind, and where to `look`.

    Never its own text: that may quote a record, and what is said here is printed, sent to a chat and kept in logs.
    """
    return f"It ended with an unforeseen error ({kind}). {look}"
