"""What a sync would do now: everything is fetched and compared, and nothing of it stays.

Bodies and rows go to a folder of their own within the warehouse's `build/`, as private as the rest of it, that is
removed at the end. That of a killed process is removed by the next writer.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipelines import files, machine
from pipelines.errors import BehindError, ContractChangedError
from pipelines.landing.manifest import Manifest, TableCounts
from pipelines.landing.raw import RawStore
from pipelines.store.warehouse import Warehouse
from pipelines.sync import Rollbook


@dataclass(frozen=True)
class Diff:
    """What would come of a sync: `outcome` as `ops.syncs` has it, why in words, and the counts per table."""

    manifest: Manifest
    outcome: str
    reason: str
    counts: tuple[TableCounts, ...] = ()
    rejected: dict[str, int] | None = None


def diff(rollbook: Rollbook) -> Diff:
    """Walk, compare with what is published, change nothing of it. Waits for no writer, and keeps none waiting.

    Raises what fetching raises: a service that cannot be asked leaves nothing to compare. Raises BehindError when what
    is published is not what was landed, since a sync would compare with something else then.
    """
    day = rollbook.partition(rollbook.today())
    if not rollbook.recovery.is_current():
        raise BehindError(
            "What is published is not what was landed: a sync is under way or was cut short, or the file was lost or"
            " changed. The next `rollbook sync` brings it up to date before it judges anything; what it would do can be"
            " shown after that"
        )
    with suppress(OSError):  # a warehouse that this account may only read can be compared with, too
        files.folder(rollbook.warehouse.build)
    with machine.translate_errors(rollbook.warehouse.root), files.aside(rollbook.warehouse.build) as made:
        aside = _Aside(rollbook, made)
        # Landings of one day add up: what was landed today already has its part in what the next one does.
        landed = rollbook.raw.root / f"snapshot_date={day}"
        if landed.is_dir():
            unfinished = shutil.ignore_patterns(f".*{files.PARTIAL}")  # a sync's that is under way
            shutil.copytree(landed, aside.raw.root / landed.name, ignore=unfinished)
        manifest = aside.land(day)
        try:
            evaluation = aside.evaluate(manifest)
        except ContractChangedError as error:
            return Diff(manifest, "failed", error.message)
    decision, rejected = evaluation.decision, evaluation.flattened.rejected()
    return Diff(manifest, decision.verdict.outcome, decision.reason, decision.counts, rejected)


class _Aside(Rollbook):
    """The same warehouse to read, and another place to write to."""

    def __init__(self, of: Rollbook, made: Path) -> None:
        super().__init__(
            of.settings,
            clock=of.clock,
            progress=of.progress,
            warehouse=Warehouse(of.warehouse.root, of.warehouse.mode, made / "build"),
            raw=RawStore(made / "raw"),
        )
        self.of = of

    def bound_to(self) -> int | None:
        """Whose the warehouse is: its own raw folder tells, not this one's."""
        return self.of.bound_to()

    def newest(self) -> Manifest | None:
        """What was fetched last, likewise."""
        return self.of.newest()
