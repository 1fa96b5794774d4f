"""From landings to their day in the lake: flattened, composed, judged, moved in. What a verdict means is not here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pipelines import files
from pipelines.errors import ContractChangedError
from pipelines.flatten import flatten
from pipelines.landing import Drift, Hold, Landed, Manifest, Reject, Verdict
from pipelines.settings import Settings
from pipelines.source.fetch import Draft
from pipelines.source.raw import RawStore
from pipelines.store import judge
from pipelines.store.lake import Candidate, DayRecord, Lake, Part, Staging, compose
from pipelines.store.warehouse import Warehouse
from pipelines.sync import words
from pipelines.tables import SETS, WALKED

# So many refused records of a set are bad records, whatever their share: one bad class of four costs one record. More
# than these, and more than this share of the set, are no longer bad records: the contract has changed.
NEVER_TOO_MANY = 5
REJECTED_MOST = 0.20


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

    def __init__(self, settings: Settings, raw: RawStore, warehouse: Warehouse) -> None:
        self.settings = settings
        self.raw = raw
        self.warehouse = warehouse
        self._aside = warehouse.build / "stage"
        self._day_aside = warehouse.build / "day"

    def flatten(self, manifest: Manifest) -> Flattened:
        """One landing's rows and rejects, aside."""
        folder = self._aside / f"landing={manifest.landing}"
        return self._flatten(folder, manifest.landing, partial(self.raw.bodies, manifest), SETS)

    def weigh(self, manifests: Sequence[Manifest], flattened: Flattened) -> tuple[Composed, Hold]:
        """The day that these landings add up to, in their order (promise 7), and what it would do to what is published.

        The last of them is the one that is judged, and is flattened already. The reason of what it would do is empty
        when that is a normal night's work.
        """
        judged = manifests[-1]
        parts = self._parts(manifests, {judged.landing: flattened})
        published = "published.main" if self.warehouse.published.is_file() else None
        with self.warehouse.reading() as con:
            candidate = compose(con, judged.snapshot_date, parts, self._day_aside)
            counts = judge.compare(con, candidate, published)
        hold = judge.landslide(
            counts,
            removed_percent=self.settings.hold_removed_percent,
            changed_percent=self.settings.hold_changed_percent,
            unasked=judged.unasked,
        )
        # Held once, it stays held until it is approved; by then the settings, or what is published, may be others.
        held_for = judged.reason if judged.verdict is Verdict.HELD else ""
        return Composed(candidate, parts, _numbers(manifests)), hold or Hold(reason=held_for, counts=counts)

    def commit(self, composed: Composed, lake: Lake | None = None) -> DayRecord:
        """Move a day into the lake, or into another one."""
        record = (lake or self.warehouse.lake).commit(composed.candidate, composed.landings, composed.parts)
        files.empty(self._aside)
        return record

    def recompose(self, counted: Sequence[Manifest], lake: Lake | None = None) -> DayRecord:
        """Make a day from the landings that count for it, none of them judged again (G8); in the lake, or another one.

        Raises ContractChangedError when too many records of a landing are refused by now: they were not when it was
        judged, so a declaration has changed.
        """
        flattened = {m.landing: self.flatten(m) for m in counted}
        for m in counted:
            if refused := mass_refusal(flattened[m.landing]):
                raise ContractChangedError(words.refused_by_now(m, refused))
        for m in counted:
            self.raw.refuse(m, flattened[m.landing].rejects)
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
            return judge.changed_ids(con, candidate, "students", "published.main")

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


def check_reject_rate(flattened: Flattened) -> None:
    """Refuse a landing of which too many records were refused. Raises ContractChangedError."""
    if refused := mass_refusal(flattened):
        raise ContractChangedError(
            f"{refused}. The service no longer says what its contract says: ask its representative what changed;"
            " nothing was merged"
        )


def mass_refusal(flattened: Flattened) -> str:
    """How many records of a set were refused and why, if these are more than a few bad ones; else empty.

    Only walked sets are looked at: a school's name or a student's detail that is refused costs no more than itself.
    """
    rejected = flattened.rejected()
    for name in WALKED:
        count, records = rejected.get(name, 0), flattened.records[name]
        if too_many_rejected(count, records):
            reason = next(r.reason for r in flattened.rejects if r.set == name)
            return f"{count} of {records} {name} were refused, the first because {reason}"
    return ""


def too_many_rejected(rejected: int, records: int) -> bool:
    """Whether so many refused records of a set mean that the contract has changed.

    Where there are several and not one can be read, that is no matter of numbers: no good record speaks against it. A
    single one may well be bad by itself.
    """
    if 1 < records == rejected:
        return True
    return rejected > NEVER_TOO_MANY and rejected > REJECTED_MOST * records
