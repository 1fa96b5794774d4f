"""The landings: which of a day counts, waits for approval or comes next (`Landings`), and the day that they make.

`Composer` flattens landings, composes their day in the build folder, and moves the day into the lake. `policy` decides
on landings.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from rollbook.errors import ContractChangedError
from rollbook.ingest import Flattened, LandingSession, stage
from rollbook.landing.manifest import Manifest, TableCounts
from rollbook.landing.raw import RawStore
from rollbook.night.policy import Unproven, check_reject_rate, counted, in_part, long_unproven, open_hold
from rollbook.source.fetch import Draft
from rollbook.store.lake import Candidate, DayRecord, Lake, Part, Staged, changed_ids, compare, compose
from rollbook.store.warehouse import Warehouse
from rollbook.tables import SETS, WALKED
from rollbook.util import files


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

    def reusable(self, day: date, now: datetime, minutes: float) -> Manifest | None:
        """The day's last landing, if it may replace another fetch: it counts, is proven, and is only minutes old.

        Contract: "Caching".
        """
        proven = [m for m in self.raw.manifests(day)[-1:] if m.counts_for_its_day and m.proven and not m.parts]
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


# Offset between the row positions of staged parts, so that later parts sort last: no landing has a trillion records.
STEP = 2**40


@dataclass(frozen=True)
class Composed:
    """A day composed in the build folder from the landings, in order."""

    candidate: Candidate
    parts: list[Part]
    landings: tuple[int, ...]
    erasures: int
    approved: tuple[str, ...]

    def into(self, lake: Lake) -> DayRecord:
        """Move the day into a lake."""
        return lake.commit(self.candidate, self.landings, self.parts, self.erasures, self.approved)


# A composed day, and what it changes in the published tables.
Evaluated = tuple[Candidate, tuple[TableCounts, ...]]


class Composer:
    """Composes days in the build folder; `commit` moves a day into the lake."""

    def __init__(self, raw: RawStore, warehouse: Warehouse) -> None:
        self.raw = raw
        self.warehouse = warehouse
        self._aside = warehouse.build / "stage"
        self.session = LandingSession(raw, self._aside)
        self._day_aside = warehouse.build / "day"
        self._copy_aside = self._aside / "copy"
        self._ahead: tuple[list[Part], Future[Evaluated]] | None = None

    @contextmanager
    def working_ahead(self) -> Iterator[None]:
        """Within the block, compose and compare the day of a large landing while its vanished records are searched for.

        The block waits for that work, which writes in the build folder.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="ahead") as thread:
            self.session.ahead = partial(self._begin, thread)
            try:
                yield
            finally:
                self.session.ahead = self._ahead = None

    def _begin(self, thread: ThreadPoolExecutor, manifest: Manifest, flattened: Flattened) -> None:
        if manifest.landing == 1:  # a later landing's day is of several
            parts = self._parts([manifest], {manifest.landing: flattened})
            folder = self._aside / "ahead"
            self._ahead = parts, thread.submit(self._evaluate, manifest.snapshot_date, parts, folder)

    def flatten(self, manifest: Manifest) -> Flattened:
        """Return a landing's staged rows and rejects: from the fetch, or read again from `raw/`."""
        if (staged := self.session.take(manifest)) is not None:
            return staged
        folder = self._aside / f"landing={manifest.landing}"
        parts = [stage(name, self.raw.open(manifest).bodies(name), folder / name) for name in SETS]
        return Flattened(manifest.landing, tuple(parts))

    def evaluate(self, manifests: Sequence[Manifest], flattened: Flattened) -> tuple[Composed, tuple[TableCounts, ...]]:
        """Compose the day of the landings, in order (G7); returns the day, and what the day changes in the published
        tables.

        `flattened` holds the rows of the landing to decide on.
        """
        parts = self._parts(manifests, {flattened.landing: flattened})
        day = manifests[0].snapshot_date
        candidate, counts = self._evaluated_ahead(parts) or self._evaluate(day, parts, self._day_aside)
        return _composed(manifests, parts, candidate), counts

    def _evaluated_ahead(self, parts: list[Part]) -> Evaluated | None:
        """What was composed and compared ahead; None without that, or if a search has changed the parts since."""
        if self._ahead is None:
            return None
        (ahead, work), self._ahead = self._ahead, None
        wait([work])
        return work.result() if ahead == parts else None

    def _evaluate(self, day: date, parts: list[Part], folder: Path) -> Evaluated:
        candidate = self._compose(day, parts, folder)
        published = "published" if self.warehouse.published_file.is_file() else None
        with self.warehouse.reading() as con:
            return candidate, compare(con, candidate, published, self.warehouse.lake.days(sized=False))

    def commit(self, composed: Composed, lake: Lake | None = None) -> DayRecord:
        """Move a day into `lake` (default: the warehouse's)."""
        record = composed.into(lake or self.warehouse.lake)
        self.session.clear()
        return record

    def copy(self, composed: Composed, lake: Lake) -> None:
        """Copy a day into another lake; the day can still be committed."""
        folder = shutil.copytree(composed.candidate.folder, files.empty(self._copy_aside), dirs_exist_ok=True)
        candidate = Candidate(composed.candidate.day, folder, composed.candidate.observed)
        replace(composed, candidate=candidate).into(lake)

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
        staged = stage("students", draft.bodies("students"), self._aside / "draft")
        part = Part("students", (Staged(Path(staged.folder), draft.manifest.landing),))
        candidate = self._compose(draft.manifest.snapshot_date, [part], self._day_aside)
        with self.warehouse.reading() as con:
            return changed_ids(con, candidate, "students", "published")

    def _parts(self, manifests: Sequence[Manifest], flattened: dict[int, Flattened]) -> list[Part]:
        """Return each set's part of these landings' day, flattening the landings that are not flattened yet."""
        rows = {m.landing: flattened.get(m.landing) or self.flatten(m) for m in manifests}
        parts = []
        for name in SETS:
            folders = [(m, Path(part.folder)) for m in manifests for part in rows[m.landing].of(name)]
            staged = tuple(Staged(f, m.landing, STEP * i, m.states(name)) for i, (m, f) in enumerate(folders))
            proofs = {m.landing: proof for m in manifests if (proof := m.proof(name)) is not None}
            parts.append(Part(name, staged, proofs, once=_came_once(name, manifests)))
        return parts


def _composed(manifests: Sequence[Manifest], parts: list[Part], candidate: Candidate) -> Composed:
    """A day with its landings. It reflects the erasures that all of them reflect."""
    numbers = tuple(m.landing for m in manifests)
    return Composed(candidate, parts, numbers, min(m.erasures for m in manifests), in_part(manifests))


def refused_since(manifest: Manifest, now: Flattened) -> str:
    """The reason why a landing has too many refused records, as `check_reject_rate` says; empty if it has them since
    its verdict: an erasure may leave fewer records beside as many refused ones.
    """
    is_known = manifest.verdict is not None and now.rejected() == manifest.rejected
    return "" if is_known else check_reject_rate(now.rejects, now.records, now.values)


def _came_once(set_name: str, manifests: Sequence[Manifest]) -> bool:
    """Whether each record of a walked set came once: one walk counts, no search found a record, no id was repeated."""
    first, *later = manifests
    walk = first.walk(set_name)
    return not (later or first.found(set_name)) and walk is not None and len(walk.counted) == 1 and walk.repeated == 0
