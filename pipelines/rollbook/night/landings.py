"""The landings: which of a day counts, waits for approval or comes next (`Landings`), and the day that they make.

`Composer` flattens landings, composes their day in the build folder, and moves the day into the lake. `policy` decides
on landings.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pyarrow.parquet as pq

from rollbook.errors import ContractChangedError, DamagedError
from rollbook.ingest import Flattened, Ingested, stage, stage_again
from rollbook.landing.manifest import Manifest, TableCounts, Verdict
from rollbook.landing.own import Own, digests_of
from rollbook.landing.raw import RawStore
from rollbook.night.policy import Unproven, check_reject_rate, counted, long_unproven, open_hold
from rollbook.source.fetch import Draft
from rollbook.source.pagination import Names
from rollbook.store.lake import Before, Candidate, DayRecord, Lake, Part, Staged, changed_ids, compare, compose
from rollbook.store.staging import staged_file
from rollbook.store.warehouse import Warehouse
from rollbook.tables import OF_STUDENTS, SETS, TABLES, WALKED, of_set
from rollbook.util import files

log = logging.getLogger(__name__)


class Landings:
    """Queries over the manifests in `raw/`. They raise DamagedError for a manifest that cannot be read, except
    `newest` and `school_id`: a damaged manifest does not prevent a fetch.
    """

    def __init__(self, raw: RawStore) -> None:
        self.raw = raw

    def counted(self, day: date) -> list[Manifest]:
        """The landings that make up a day's state, in order (G7)."""
        return counted(self.raw.manifests(day))

    def counted_days(self) -> dict[date, list[Manifest]]:
        """The counted landings of each day that has any."""
        by_day = groupby(self.raw.manifests(), attrgetter("snapshot_date"))
        return {day: landings for day, of_day in by_day if (landings := counted(of_day))}

    def held(self, day: date) -> Manifest | None:
        """The day's landing that waits for approval; None if a later landing of that day was synced (G3)."""
        return open_hold(self.raw.manifests(day))

    def undecided(self) -> list[Manifest]:
        """The landings without a verdict, in order: a killed sync's, or a sync's that had nothing to compare with."""
        return [m for m in self.raw.manifests() if m.verdict is None]

    def newest(self) -> Manifest | None:
        """The newest day's last landing that counts and can be read; None if there is none."""
        readable = (counted(self.raw.readable(day)) for day in reversed(self.raw.days()))
        return next((landings[-1] for landings in readable if landings), None)

    def long_unproven(self) -> list[Unproven]:
        """The sets that the last nights left unproven, if for long (`policy.long_unproven`)."""
        nights = (counted(self.raw.readable(day)) for day in reversed(self.raw.days()))
        return long_unproven(landings for landings in nights if landings)

    def hidden(self) -> dict[str, dict[int, date]]:
        """The records of each walked set that its last proven landing found by search alone, each since when (G2)."""
        hidden: dict[str, dict[int, date]] = {}
        for landings in (counted(self.raw.readable(day)) for day in reversed(self.raw.days())):
            for name in WALKED:
                if name not in hidden and (proven := [m for m in landings if m.proof(name) is not None]):
                    hidden[name] = proven[-1].hidden(name)
            if len(hidden) == len(WALKED):
                break
        return hidden

    def reusable(self, day: date, now: datetime, minutes: float, lists: Own | None) -> Manifest | None:
        """The day's last landing, if it may replace another fetch: it counts, is proven, is only minutes old, and has
        the school's own `lists` as they are now.

        Contract: "Caching".
        """
        own = digests_of(lists, self.raw.erasure_register.matcher())
        proven = [m for m in self.raw.manifests(day)[-1:] if m.counts_for_its_day and m.proven and m.own == own]
        return next((m for m in proven if timedelta(0) <= now - m.finished_at < timedelta(minutes=minutes)), None)

    def details_since(self, day: date, moment: datetime) -> frozenset[int]:
        """The students whose details a day's counted landings fetched after `moment`."""
        bodies = (b for m in self.counted(day) if m.finished_at > moment for b in self.raw.open(m).pages())
        return frozenset(b.sought for b in bodies if b.kind == "detail" and b.sought and b.received_at > moment)

    def discarded_days(self) -> frozenset[date]:
        """The days without a counted landing because theirs were discarded."""
        return frozenset(d for d in self.raw.discarded_days() if not self.counted(d))

    def expired_days(self) -> frozenset[date]:
        """The days that only the history still holds: their raw bodies and snapshots were deleted."""
        return expired - set(self.raw.days()) if (expired := self.raw.expired()) else expired


class Uncounted:
    """The records that landings state which do not count, but may one day: held ones, and discarded ones of this
    institution (G2). `aside` is a folder in the build folder.
    """

    def __init__(self, raw: RawStore, school_id: int | None, aside: Path) -> None:
        self.raw = raw
        self._school_id = school_id
        self._aside = aside

    def vanished(self, set_name: str, received: Set[int]) -> Mapping[int, Names]:
        """The records of a set that were not received, by id, each with the names of the newest such landing. Erased
        students are left out, and landings that cannot be read.
        """
        of, erased = SETS[set_name], self.raw.erasure_register.matcher()
        names = (*of.names, *of.last_names)
        stated: dict[int, Names] = {}
        for manifest in self._landings():
            try:
                part = stage(set_name, self.raw.open(manifest).bodies(set_name), self._aside / f"uncounted-{set_name}")
            except DamagedError as error:
                log.warning("%s", error.message)
                continue
            table = staged_file(Path(part.folder), of_set(set_name)[0].name)
            for row in pq.read_table(table, columns=[of.key, *names]).to_pylist():
                if row[of.key] not in received and not (set_name in OF_STUDENTS and row[of.key] in erased):
                    given = tuple((name, row[name]) for name in names if row[name])
                    stated.setdefault(row[of.key], given)
        return stated

    def _landings(self) -> list[Manifest]:
        """Those landings, the newest first."""
        held = [m for day in self.raw.days() for m in self.raw.readable(day) if m.verdict is Verdict.HELD]
        with suppress(DamagedError):
            discarded = [m for m, _ in self.raw.discarded() if m.verdict is not None and m.verdict != Verdict.FAILED]
            held += [m for m in discarded if m.school_id == self._school_id]
        return sorted(held, key=lambda m: (m.snapshot_date, m.landing), reverse=True)


# Offset between the row positions of staged parts, so that later parts sort last: no landing has a trillion records.
STEP = 2**40


@dataclass(frozen=True)
class Composed:
    """A day composed in the build folder from the landings, in order."""

    candidate: Candidate
    parts: list[Part]
    landings: tuple[int, ...]
    erasures: int

    def into(self, lake: Lake) -> DayRecord:
        """Move the day into a lake."""
        return lake.commit(self.candidate, self.landings, self.parts, self.erasures)


@dataclass(frozen=True)
class Compared:
    """A composed day, and what it changes in the published tables."""

    composed: Composed
    counts: tuple[TableCounts, ...]


class Composer:
    """Composes days in the build folder; `commit` moves a day into the lake."""

    def __init__(self, raw: RawStore, warehouse: Warehouse) -> None:
        self.raw = raw
        self.warehouse = warehouse
        self.aside = warehouse.build / "stage"
        self._day_aside = warehouse.build / "day"
        self._copy_aside = self.aside / "copy"

    def compared_ahead(self, walked: Callable[[], Ingested]) -> Compared | None:
        """The day that the walks brought, if the searches that are still under way find nothing; None for a day of
        several landings.
        """
        ingested = walked()
        manifest, rows = ingested.manifest, ingested.flattened
        if rows is None or manifest.landing > 1:
            return None
        return self._compared([manifest], self._parts([manifest], {manifest.landing: rows}), self.aside / "ahead")

    def flatten(self, manifest: Manifest) -> Flattened:
        """Return a landing's rows and rejects, read again from `raw/`."""
        return stage_again(self.raw.open(manifest), self.aside / f"landing={manifest.landing}")

    def evaluate(self, manifests: Sequence[Manifest], flattened: Flattened, ahead: Compared | None) -> Compared:
        """Compose the day of the landings, in order (G7), and compare the day with the published tables.

        `flattened` holds the rows of the landing to decide on. The day composed `ahead` stands unless a search has
        changed its parts since.
        """
        parts = self._parts(manifests, {flattened.landing: flattened})
        if ahead is None or ahead.composed.parts != parts:
            return self._compared(manifests, parts, self._day_aside)
        return replace(ahead, composed=_composed(manifests, parts, ahead.composed.candidate))

    def _compared(self, manifests: Sequence[Manifest], parts: list[Part], folder: Path) -> Compared:
        candidate = self._compose(manifests[0].snapshot_date, parts, folder)
        return Compared(_composed(manifests, parts, candidate), self._compare(candidate))

    def _compare(self, candidate: Candidate, before: Before | None = None) -> tuple[TableCounts, ...]:
        published = "published" if self.warehouse.published_file.is_file() else None
        with self.warehouse.reading() as con:
            return compare(
                con, candidate, published, self.warehouse.lake.days(sized=False), self.warehouse.declared, before
            )

    def changes_of_day(self, composed: Composed, seen: Sequence[Manifest]) -> tuple[TableCounts, ...]:
        """What a day changes in the state before it, as far as the landings `seen` of the day do not."""
        day, candidate = composed.candidate.day, None
        if seen:
            candidate = self._compose(day, self._parts(seen, {}), self.aside / "seen")
        return self._compare(composed.candidate, Before(day, candidate))

    def commit(self, composed: Composed, lake: Lake | None = None) -> DayRecord:
        """Move a day into `lake` (default: the warehouse's)."""
        record = composed.into(lake or self.warehouse.lake)
        files.empty(self.aside)
        return record

    def copy(self, composed: Composed, lake: Lake) -> DayRecord:
        """Copy a day into another lake; the day can still be committed."""
        folder = shutil.copytree(composed.candidate.folder, files.empty(self._copy_aside), dirs_exist_ok=True)
        candidate = Candidate(composed.candidate.day, folder, composed.candidate.observed)
        return replace(composed, candidate=candidate).into(lake)

    def recompose(self, counted: Sequence[Manifest], lake: Lake | None = None) -> DayRecord:
        """Compose a day again from its counted landings, without a new verdict (G8), and commit it to `lake`.

        Raises ContractChangedError if too many records of a landing are refused now, which were not refused at its
        verdict: a declaration has changed.
        """
        flattened = {m.landing: self.flatten(m) for m in counted}
        for m in counted:
            if refused := refused_since(m, flattened[m.landing]):
                raise ContractChangedError(
                    f"{m.snapshot_date}, landing {m.landing}: {refused}. It was accepted when it was fetched, so a"
                    " declaration in pipelines/rollbook/tables.py no longer fits it: correct the declaration, then run"
                    " this again. Nothing was changed"
                )
        for m in counted:
            self.raw.keep_rejects(m, flattened[m.landing].rejects)
        parts = self._parts(counted, flattened)
        candidate = self._compose(counted[0].snapshot_date, parts, self._day_aside)
        return self.commit(_composed(counted, parts, candidate), lake)

    def _compose(self, day: date, parts: list[Part], folder: Path) -> Candidate:
        with self.warehouse.computing() as con:
            return compose(con, day, parts, folder)

    def changed_students(self, draft: Draft) -> list[int]:
        """Return the students of an unfinished landing whose rows differ from the published ones (or all, if none)."""
        if not self.warehouse.published_file.is_file():
            return sorted(draft.ids["students"])
        staged = stage("students", draft.bodies("students"), self.aside / "draft")
        part = Part("students", (Staged(Path(staged.folder), draft.manifest.landing),))
        candidate = self._compose(draft.manifest.snapshot_date, [part], self._day_aside)
        with self.warehouse.reading() as con:
            return changed_ids(con, candidate, "students", "published", self.warehouse.declared)

    def _parts(self, manifests: Sequence[Manifest], flattened: dict[int, Flattened]) -> list[Part]:
        """Return each set's part of these landings' day, flattening the landings that are not flattened yet."""
        rows = {m.landing: flattened.get(m.landing) or self.flatten(m) for m in manifests}
        parts = []
        for name in SETS:
            folders = [(m, Path(part.folder)) for m in manifests for part in rows[m.landing].of(name)]
            staged = tuple(Staged(f, m.landing, STEP * i) for i, (m, f) in enumerate(folders))
            parts.append(
                Part(
                    name,
                    staged,
                    absent={m.landing: absent for m in manifests if (absent := m.absent(name))},
                    proven=any(m.proof(name) is not None for m in manifests),
                    ids_are_unique=_came_once(name, manifests),
                    has_refused=any(r.column for m in manifests for p in rows[m.landing].of(name) for r in p.rejects),
                )
            )
        return parts


def _composed(manifests: Sequence[Manifest], parts: list[Part], candidate: Candidate) -> Composed:
    """A day with its landings. Its erasure count is the lowest of theirs."""
    numbers = tuple(m.landing for m in manifests)
    return Composed(candidate, parts, numbers, min(m.erasures for m in manifests))


def refused_since(manifest: Manifest, now: Flattened) -> str:
    """The reason why a landing has too many refused records, as `check_reject_rate` says; empty if it has them since
    its verdict: an erasure may leave fewer records beside as many refused ones.
    """
    if manifest.verdict is not None and now.rejected() == manifest.rejected:
        return ""
    # What came several times, in as many walks or in one, counts once.
    once = {w.set: w.distinct / w.received for w in manifest.walks if w.received}
    values = {name: round(n * once.get(TABLES[name.partition(".")[0]].set, 1)) for name, n in now.values.items()}
    return check_reject_rate(now.rejects, Counter(manifest.received), values)


def _came_once(set_name: str, manifests: Sequence[Manifest]) -> bool:
    """Whether each record of a walked set came once: one walk counts, no search found a record, no id was repeated."""
    first, *later = manifests
    walk = first.walk(set_name)
    return not (later or first.found(set_name)) and walk is not None and len(walk.counted) == 1 and walk.repeated == 0
