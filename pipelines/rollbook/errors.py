"""All errors that Rollbook raises, and the message for unexpected ones.

    RollbookError                   exit 1
    ├── SettingError                exit 2   a setting is missing or malformed
    ├── ArgumentError               exit 2   an argument is missing or malformed
    ├── HeldError                   exit 3   a mass change waits for a person's approval
    │   └── NotConfirmedError                an operator did not confirm a change, so nothing was changed
    ├── ServiceError                         the records service failed
    │   ├── UnreachableError                 no usable answer within the retries
    │   ├── NotTheContractError              an answer came, but not the contract's
    │   ├── RefusedError                     the service refused a request: status
    │   │   └── KeyRefusedError              401: the key is missing, wrong or revoked
    │   └── RedirectError                    the service pointed elsewhere; the key stays here
    ├── OtherInstitutionError                the key belongs to another institution
    ├── ContractChangedError                 too many records were refused to trust the rest
    ├── NothingLandedError                   nothing was landed on a past day
    ├── BusyError                            another writer holds the warehouse
    ├── BehindError                          the published file does not match the landings; only a writer may update it
    ├── DamagedError                         a file of the warehouse cannot be read
    ├── OtherVersionError           exit 2   a file was written by another version of Rollbook
    ├── MachineError                         a problem with this machine's disk, permissions, memory or clock
    ├── DeclarationError                     a declaration is wrong, or stored values do not fit its type
    ├── ExpiredError                         a rebuild would lose history that raw/ no longer holds
    ├── LostError                            what was landed here once is missing
    ├── UndeliveredError                     an alert could not be delivered
    ├── MirrorError                          the copy in the object store could not be written or read
    ├── EngineError                          the engine that computes over many institutions failed
    └── CheckError                           a check failed because of a fault in Rollbook itself

A message is one or two sentences: what happened, then what to do. It never holds the key, a body, a name or an
email address (G12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar


class RollbookError(Exception):
    """Base class of every error that Rollbook raises on purpose. `exit_code` is the command's exit code."""

    exit_code: ClassVar[int] = 1

    @property
    def message(self) -> str:
        """Says what happened and what to do next."""
        return str(self)


class SettingError(RollbookError):
    """A setting is missing or malformed. A retry does not help; correcting the setting does."""

    exit_code = 2


class ArgumentError(RollbookError):
    """An argument is missing or malformed. Correcting the argument helps."""

    exit_code = 2


class HeldError(RollbookError):
    """A sync would change more than a normal night does. A person reviews it, then approves or waits.

    `report` lists, per table, what would be added, changed and removed (a `landing.Hold`).
    """

    exit_code = 3

    def __init__(self, message: str, report: object) -> None:
        super().__init__(message)
        self.report = report


class NotConfirmedError(HeldError):
    """An operator asked for a change and did not confirm it. Nothing was changed, and readers need not know."""


class ServiceError(RollbookError):
    """The records service failed."""


class UnreachableError(ServiceError):
    """No usable answer came within the retries. A later sync may succeed."""


class NotTheContractError(ServiceError):
    """No answer had the form of the contract's JSON. A retry rarely helps."""


class RefusedError(ServiceError):
    """The service refused a request, with or without the contract's error body. A retry does not help.

    `status` is the HTTP status, or the body's. The service's own code and message are dropped: they may name a pupil.
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class KeyRefusedError(RefusedError):
    """The service does not accept the key (401). A retry does not help; a new key does."""


class RedirectError(ServiceError):
    """The service answered with a redirect. It is never followed: the key goes only to the configured host."""


class OtherInstitutionError(RollbookError):
    """The key belongs to another institution than the warehouse. Nothing was fetched."""


class ContractChangedError(RollbookError):
    """More records of a set were refused than a few bad ones can explain. Nothing was merged."""


class NothingLandedError(RollbookError):
    """Nothing was landed on the requested days, and the service keeps no history."""


class BusyError(RollbookError):
    """Another sync is writing to the warehouse. A retry helps once it is done."""


class BehindError(RollbookError):
    """The published file does not match the landings, and only a writer may update it. A sync helps."""


class DamagedError(RollbookError):
    """A file of the warehouse cannot be read. The message names the command that repairs it."""


class OtherVersionError(RollbookError):
    """A file of the warehouse was written by another version of Rollbook. Nothing was changed.

    A retry does not help; that version does.
    """

    exit_code = 2


class MachineError(RollbookError):
    """A problem with this machine: a full or read-only disk, no permission, no memory, a clock set back.

    A retry helps once that is fixed; the message says how.
    """


class DeclarationError(RollbookError):
    """Stored values do not fit their column's type in rollbook/tables.py. Correcting the declaration helps."""


class ExpiredError(RollbookError):
    """The command would lose history that `raw/` no longer holds. A retry does not help; nothing was changed."""


class LostError(RollbookError):
    """Landings are missing, and were neither expired nor discarded. A retry does not help.

    Restore them, or give them up with `--accept-loss`.
    """


class UndeliveredError(RollbookError):
    """An alert could not be delivered. `retryable` says whether a retry can help. It never fails a sync."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class MirrorError(RollbookError):
    """The copy in the object store could not be written or read, or is another warehouse's. Nothing here is lost."""


class EngineError(RollbookError):
    """The engine that computes over many institutions cannot be reached, or failed (`ROLLBOOK_DISTRICT_ENGINE`)."""


class CheckError(RollbookError):
    """A check failed before publishing, because of a fault in Rollbook itself. Readers keep the last file.

    `findings` maps every check's name to its findings; a check that passed has none.
    """

    def __init__(self, message: str, findings: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(message)
        self.findings = dict(findings or {})


def unexpected_error(kind: str, look: str) -> str:
    """Return the message for an unexpected error: its `kind` (the class), then `look`, which says where to find more.

    It leaves out the error's own text, which may quote a record: messages are printed, logged and sent to chats.
    """
    return f"It ended with an unexpected error ({kind}). {look}"
