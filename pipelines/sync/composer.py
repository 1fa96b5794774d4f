"""From landings to their day in the lake: flatten, compose, evaluate, move in. Verdicts are decided in `policy`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pipelines import files
from pipelines.errors import ContractChangedError
from pipelines.flatten import flatten
from pipelines.landing.manifest import Drift, Landed, Manifest, Reject, TableCounts
from pipelines.landing.raw import RawStore
from pipelines.source.fetch import Draft
from pipelines.store import compare
from pipelines.store.lake import Candidate, DayRecord, Lake, Part, compose
from pipelines.store.staging import Staging
from pipelines.store.warehouse import Warehouse
from pipelines.sync import messages
from pipelines.sync.policy import check_reject_rate
from pipelines.tables import SETS


@dataclass(frozen=True)
class Flattened:
    """One landing, flattened aside: its rows, and what was refused or unknown."""

    staging: Staging
    rejects: list[Reject]
    drift: list[Drift]
    records: dict[str, int]

    def rejected(self) -> dict[str, int]:
        """The number of refused records per set that has any."""
        return {s: n for s in SETS if (n := sum(r.set == s for r in self.rejects))}


@dataclass(frozen=True)
class Composed:
    """A day put together aside from the landings that add up to it, in their order."""

    candidate: Candidate
    parts: list[Part]
    landings: tuple[int, ...]


class Composer:
    """Makes days of the lake. Everything happens in the writer's own folder until `commit` moves a day in."""

    def __init__(self, raw: RawStore, warehouse: Warehouse) -> None:
        self.raw = raw
        self.warehouse = warehouse
        self._aside = warehouse.build / "stage"
        self._day_aside = warehouse.build / "day"

    def flatten(self, manifest: Manifest) -> Flattened:
        """One landing's rows and rejects, aside."""
        folder = self._aside / f"landing={manifest.landing}"
        return self._flatten(folder, manifest.landing, partial(self.raw.bodies, manifest), SETS)

    def evaluate(self, manifests: Sequence[Manifest], flattened: Flattened) -> tuple[Composed, tuple[TableCounts, ...]]:
        """The day that these landings add up to, in their order (G7), and what it would do to the published tables.

        The last landing is the one that is decided on. It is flattened already.
        """
        latest = manifests[-1]
        parts = self._parts(manifests, {latest.landing: flattened})
        published = "published.main" if self.warehouse.published.is_file() else None
        with self.warehouse.reading() as con:
            candidate = compose(con, latest.snapshot_date, parts, self._day_aside)
            counts = compare.compare(con, candidate, published)
        return Composed(candidate, parts, _numbers(manifests)), counts

    def commit(self, composed: Composed, lake: Lake | None = None) -> DayRecord:
        """Move a day into the lake, or into another one."""
        record = (lake or self.warehouse.lake).commit(composed.candidate, composed.landings, composed.parts)
        files.empty(self._aside)
        return record

    def recompose(self, counted: Sequence[Manifest], lake: Lake | None = None) -> DayRecord:
        """Make a day from the landings that count for it, without a new verdict (G8); in the lake, or in another one.

        Raises ContractChangedError when too many records of a landing are refused now. They were accepted when it got
        its verdict, so a declaration has changed.
        """
        flattened = {m.landing: self.flatten(m) for m in counted}
        for m in counted:
            if refused := check_reject_rate(flattened[m.landing].rejects, flattened[m.landing].records):
                raise ContractChangedError(messages.refused_by_now(m, refused))
        for m in counted:
            self.raw.keep_rejects(m, flattened[m.landing].rejects)
        parts = self._parts(counted, flattened)
        with self.warehouse.computing() as con:
            candidate = compose(con, counted[-1].snapshot_date, parts, self._day_aside)
        return self.commit(Composed(candidate, parts, _numbers(counted)), lake)

    def changed_students(self, draft: Draft) -> list[int]:
        """The students of a landing under way whose rows are not the published ones; all, when nothing is published."""
        if not self.warehouse.published.is_file():
            return sorted(draft.ids["students"])
        staged = self._flatten(self._aside / "draft", draft.manifest.landing, draft.bodies, ["students"])
        part = Part("students", (staged.staging,), None)
        with self.warehouse.reading() as con:
            candidate = compose(con, draft.manifest.snapshot_date, [part], self._day_aside)
            return compare.changed_ids(con, candidate, "students", "published.main")

    def _flatten(
        self, folder: Path, landing: int, bodies: Callable[[str], Iterator[Landed]], sets: Iterable[str]
    ) -> Flattened:
        files.folder(folder.parent)
        with Staging(folder, landing) as staging:
            flattened = Flattened(staging, [], [], {})
            for name in sets:
                records = 0
                for batch in flatten(name, bodies(name)):
                    staging.add(batch.tables)
                    flattened.rejects.extend(batch.rejects)
                    flattened.drift.extend(batch.drift)
                    records += batch.records
                flattened.records[name] = records
        return flattened

    def _parts(self, manifests: Sequence[Manifest], flattened: dict[int, Flattened]) -> list[Part]:
        """What each set contributes to the day of these landings; those not flattened yet are flattened for it."""
        parts = []
        for name, declared in SETS.items():
            proven = [i for i, m in enumerate(manifests) if declared.walked and m.proof(name) is not None]
            base = proven[-1] if proven else 0
            staged = []
            for m in manifests[base:]:
                if m.landing not in flattened:
                    flattened[m.landing] = self.flatten(m)
                staged.append(flattened[m.landing].staging)
            parts.append(Part(name, tuple(staged), manifests[base].proof(name) if proven else None))
        return parts


def _numbers(manifests: Iterable[Manifest]) -> tuple[int, ...]:
    return tuple(m.landing for m in manifests)
