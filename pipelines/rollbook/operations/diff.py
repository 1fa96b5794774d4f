"""A dry run of a sync: fetches and compares everything, and keeps nothing.

Bodies and rows go to a private temporary folder in the warehouse's `build/`, which is removed at the end. If the
process is killed, the next writer removes it.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from rollbook.errors import BehindError, ContractChangedError
from rollbook.landing.manifest import Manifest, TableCounts
from rollbook.landing.raw import RawStore
from rollbook.store.database import machine_errors
from rollbook.store.warehouse import Warehouse
from rollbook.sync.whole import WholeRollbook
from rollbook.util import files


@dataclass(frozen=True)
class Diff:
    """The result that a sync would have: `outcome` as in `ops.syncs`, the reason, and the counts per table."""

    manifest: Manifest
    outcome: str
    reason: str
    counts: tuple[TableCounts, ...] = ()
    rejected: dict[str, int] | None = None


def diff(rollbook: WholeRollbook) -> Diff:
    """Walk both sets and compare them with what is published; change nothing. Takes no writer lock.

    Raises what fetching raises. Raises BehindError when the published file does not match what was landed, because a
    sync would recover first and then compare with something else.
    """
    day = rollbook.partition(rollbook.today())
    if not rollbook.recovery.is_current():
        raise BehindError(
            "The published file does not match the landings: a sync is running or was interrupted, or the file was lost"
            " or changed. The next `rollbook sync` recovers it first; run this again after that"
        )
    with suppress(OSError):  # an account that may only read the warehouse can compare, too
        files.folder(rollbook.warehouse.build)
    with machine_errors(rollbook.warehouse.root), files.aside(rollbook.warehouse.build) as folder:
        trial = _TrialRollbook(rollbook, folder)
        # A day is composed of all its landings, so a sync would include those of earlier today.
        landed = rollbook.raw.root / f"snapshot_date={day}"
        if landed.is_dir():
            unfinished = shutil.ignore_patterns(f".*{files.PARTIAL}")  # of a sync that is running
            shutil.copytree(landed, trial.raw.root / landed.name, ignore=unfinished)
        manifest = trial.land(day)
        try:
            evaluation = trial.evaluate(manifest)
        except ContractChangedError as error:
            return Diff(manifest, "failed", error.message)
    decision, rejected = evaluation.decision, evaluation.flattened.rejected()
    return Diff(manifest, decision.verdict.outcome, decision.reason, decision.counts, rejected)


class _TrialRollbook(WholeRollbook):
    """Reads the given warehouse, and writes to another folder."""

    def __init__(self, original: WholeRollbook, folder: Path) -> None:
        super().__init__(
            original.settings,
            clock=original.clock,
            progress=original.progress,
            warehouse=Warehouse(original.warehouse.root, original.warehouse.mode, folder / "build"),
            raw=RawStore(folder / "raw", original.raw.erasure_register),
        )
        self.original = original

    def bound_to(self) -> int | None:
        """The original's institution: the trial raw/ does not know it."""
        return self.original.bound_to()

    def hidden(self) -> dict[str, dict[int, date]]:
        """The original's hidden records, for the same reason."""
        return self.original.hidden()

    def newest(self) -> Manifest | None:
        """The original's newest landing, for the same reason."""
        return self.original.newest()
