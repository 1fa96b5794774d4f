"""From landings to their day in the lake: flatten, compose, evaluate, move in. Verdicts are decided in `policy`."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipelines import files
from pipelines.errors import ContractChangedError
from pipelines.ingest import Flattened, Intake, stage
from pipelines.landing.manifest import Manifest, TableCounts
from pipelines.landing.raw import RawStore
from pipelines.source.fetch import Draft
from pipelines.store import compare
from pipelines.store.lake import Candidate, DayRecord, Lake, Part, Staged, compose
from pipelines.store.warehouse import Warehouse
from pipelines.sync.policy import check_reject_rate
from pipelines.tables import SETS

# Offset between the row positions of staged parts, so that later parts sort last: no landing has a trillion records.
STEP = 2**40


@dataclass(frozen=True)
class Composed:
    """A day composed in the build folder from its landings, in their order."""

    candidate: Candidate
    parts: list[Part]
    landings: tuple[int, ...]
    erasures: int

    def into(self, lake: Lake) -> DayRecord:
        """Move the day into a lake."""
        return lake.commit(self.candidate, self.landings, self.parts, self.erasures)


class Composer:
    """Composes days in the build folder; `commit` moves a day into the lake."""

    def __init__(self, raw: RawStore, warehouse: Warehouse) -> None:
        self.raw = raw
        self.warehouse = warehouse
        self._aside = warehouse.build / "stage"
        self.intake = Intake(raw, self._aside)
        self._day_aside = warehouse.build / "day"
        self._copy_aside = self._aside / "copy"

    def flatten(self, manifest: Manifest) -> Flattened:
        """Return one landing's staged rows and rejects: from its fetch, or read again from `raw/`."""
        if (staged := self.intake.take(manifest)) is not None:
            return staged
        folder = self._aside / f"landing={manifest.landing}"
        parts = [stage(name, self.raw.open(manifest).bodies(name), folder / name) for name in SETS]
        return Flattened(manifest.landing, tuple(parts))

    def evaluate(self, manifests: Sequence[Manifest], flattened: Flattened) -> tuple[Composed, tuple[TableCounts, ...]]:
        """Compose the day of these landings, in their order (G7); returns it and its changes to the published tables.

        `flattened` holds the rows of the landing to decide on.
        """
        parts = self._parts(manifests, {flattened.landing: flattened})
        published = "published" if self.warehouse.published.is_file() else None
        with self.warehouse.reading() as con:
            candidate = compose(con, manifests[0].snapshot_date, parts, self._day_aside)
            counts = compare.compare(con, candidate, published)
        return Composed(candidate, parts, _numbers(manifests), _erasures(manifests)), counts

    def commit(self, composed: Composed, lake: Lake | None = None) -> DayRecord:
        """Move a day into `lake` (default: the warehouse's)."""
        record = composed.into(lake or self.warehouse.lake)
        self.intake.clear()
        return record

    def copy(self, composed: Composed, lake: Lake) -> None:
        """Copy a day into another lake; it can still be committed."""
        folder = shutil.copytree(composed.candidate.folder, files.empty(self._copy_aside), dirs_exist_ok=True)
        replace(composed, candidate=Candidate(composed.candidate.day, folder)).into(lake)

    def recompose(self, counted: Sequence[Manifest], lake: Lake | None = None) -> DayRecord:
        """Compose a day again from its counted landings, without a new verdict (G8), and commit it to `lake`.

        Raises ContractChangedError if too many records of a landing are refused now. They were accepted at its verdict,
        so a declaration has changed.
        """
        flattened = {m.landing: self.flatten(m) for m in counted}
        for m in counted:
            if refused := check_reject_rate(flattened[m.landing].rejects, flattened[m.landing].records):
                raise ContractChangedError(
                    f"{m.snapshot_date}, landing {m.landing}: {refused}. It was accepted when it was fetched, so a"
                    " declaration in pipelines/tables.py no longer fits it: correct the declaration, then run this"
                    " again. Nothing was changed"
                )
        for m in counted:
            self.raw.keep_rejects(m, flattened[m.landing].rejects)
        parts = self._parts(counted, flattened)
        with self.warehouse.computing() as con:
            candidate = compose(con, counted[-1].snapshot_date, parts, self._day_aside)
        return self.commit(Composed(candidate, parts, _numbers(counted), _erasures(counted)), lake)

    def changed_students(self, draft: Draft) -> list[int]:
        """Return the students of an unfinished landing whose rows differ from the published ones (or all, if none)."""
        if not self.warehouse.published.is_file():
            return sorted(draft.ids["students"])
        staged = stage("students", draft.bodies("students"), self._aside / "draft")
        part = Part("students", (Staged(Path(staged.folder), draft.manifest.landing),))
        with self.warehouse.reading() as con:
            candidate = compose(con, draft.manifest.snapshot_date, [part], self._day_aside)
            return compare.changed_ids(con, candidate, "students", "published")

    def _parts(self, manifests: Sequence[Manifest], flattened: dict[int, Flattened]) -> list[Part]:
        """Return each set's part of these landings' day, flattening the landings that are not flattened yet."""
        rows = {m.landing: flattened.get(m.landing) or self.flatten(m) for m in manifests}
        parts = []
        for name in SETS:
            folders = [(m.landing, Path(part.folder)) for m in manifests for part in rows[m.landing].of(name)]
            staged = tuple(Staged(folder, landing, STEP * i) for i, (landing, folder) in enumerate(folders))
            proofs = {m.landing: proof for m in manifests if (proof := m.proof(name)) is not None}
            parts.append(Part(name, staged, proofs, once=_came_once(name, manifests)))
        return parts


def _came_once(set_name: str, manifests: Sequence[Manifest]) -> bool:
    """Whether each record of a walked set came once: one walk counts, no search found a record, no id was repeated."""
    first, *later = manifests
    walk = first.walk(set_name)
    return not (later or first.found(set_name)) and walk is not None and len(walk.counted) == 1 and walk.repeated == 0


def _numbers(manifests: Iterable[Manifest]) -> tuple[int, ...]:
    return tuple(m.landing for m in manifests)


def _erasures(manifests: Iterable[Manifest]) -> int:
    """Return how many erasures a day made of these landings reflects."""
    return min(m.erasures for m in manifests)
