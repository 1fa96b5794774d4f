"""One institution's warehouse, and the stages of a night as plain calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from pipelines import flatten, landing, machine
from pipelines.errors import (
    ArgumentError,
    CheckError,
    ContractChangedError,
    DamagedError,
    HeldError,
    MachineError,
    NothingLandedError,
    OtherInstitutionError,
    ServiceError,
    SettingError,
)
from pipelines.landing import Manifest, TableCounts, Verdict
from pipelines.settings import Details, Settings
from pipelines.source.fetch import Draft, fetch, utc_now
from pipelines.source.pages import Progress
from pipelines.source.raw import RawStore
from pipelines.store import ops
from pipelines.store.history import History
from pipelines.store.lake import DayRecord
from pipelines.store.report import Report
from pipelines.store.warehouse import Warehouse
from pipelines.sync import words
from pipelines.sync.days import Composer, Flattened, believe
from pipelines.sync.lock import alone
from pipelines.sync.repair import Repair
from pipelines.sync.results import Backfilled, Synced, Weighed
from pipelines.sync.retention import Retention

P = ParamSpec("P")
T = TypeVar("T")


def in_words(work: Callable[Concatenate[Rollbook, P], T]) -> Callable[Concatenate[Rollbook, P], T]:
    """Have a stage raise RollbookErrors for what the machine refuses, and put a damaged published file right."""

    @wraps(work)
    def worded(self: Rollbook, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with machine.in_words(self.raw.root.parent):
                return work(self, *args, **kwargs)
        except DamagedError as error:
            done = self.repair.put_right() if self._is_writer else None
            if done is None:
                raise
            raise DamagedError(done) from error

    return worded


# What a reader of the morning page should hear of, in the morning.
TROUBLE = (
    ServiceError,
    HeldError,
    ContractChangedError,
    OtherInstitutionError,
    CheckError,
    SettingError,
    MachineError,
    DamagedError,
)


def telling(work: Callable[Concatenate[Rollbook, P], T]) -> Callable[Concatenate[Rollbook, P], T]:
    """Let the morning page say what went wrong in a stage: its readers see neither the log nor the UI."""

    @wraps(work)
    def told(self: Rollbook, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(self, *args, **kwargs)
        except TROUBLE as error:
            if self._is_writer:
                self.warehouse.tell(error.message, at=self.clock(), names=self.settings.report_names)
            raise

    return told


class Rollbook:
    """One institution's warehouse, and all that is done to it. Everything that writes happens under `writer()`."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Callable[[], datetime] = utc_now,
        progress: Progress | None = None,
        warehouse: Warehouse | None = None,
        raw: RawStore | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.progress = progress
        self.warehouse = warehouse or Warehouse(settings.warehouse_path, settings.file_mode)
        self.raw = raw or RawStore(settings.warehouse_path / "raw")
        self.lake = self.warehouse.lake
        self.composer = Composer(settings, self.raw, self.warehouse)
        self.retention = Retention(self.raw, self.warehouse)
        self.repair = Repair(self.raw, self.warehouse, self.composer)
        self._is_writer = False

    # -- the whole -------------------------------------------------------------------------------------------------

    def sync(self, day: date | None = None, *, approve: bool = False, details: Details = "none") -> Synced:
        """Fetch, judge, merge, publish: the nightly job. With `approve`, merge what that day holds, without fetching.

        Raises RollbookError; whatever is raised, readers keep the last published file.
        """
        with self.writer():
            manifest = self.land(day, approve=approve, details=details)
            manifest, record = self.snapshot(manifest, approve=approve)
            counts = self.merge()
            self.publish()
            return Synced(manifest, record, tuple(counts))

    def backfill(self, first: date, last: date) -> Backfilled:
        """Flatten the landed days of a range again from raw, put history right, publish once (promise 8).

        Raises NothingLandedError when not a single day of the range has a landing that counts.
        """
        days = self.in_order(first, last)
        with self.writer():
            done = self.resnapshot(days)
            if not done.rebuilt:
                raise NothingLandedError(". ".join(done.skipped.values()), list(done.skipped))
            done.counts = tuple(self.merge())
            self.publish()
            return done

    def rebuild(self) -> Backfilled:
        """Make everything anew from `raw/` alone: the lake, the history by its definition, the record of the work.

        A day that the lake holds and `raw/` does not is gone afterwards. Raises NothingLandedError, and leaves all as
        it was, when `raw/` holds no landing that counts; and ThinnedError when days were let go of that the history
        stands on.
        """
        with self.writer():
            self.retention.refuse_to_lose()
            done = self.resnapshot(self.raw.days())
            if not done.rebuilt:
                raise NothingLandedError(
                    f"{self.raw.root} holds no landing that counts, so there is nothing to rebuild from: restore it"
                    " from a backup. Everything else was left as it is"
                )
            self.lake.drop(d for d in self.lake.days() if d not in done.rebuilt)
            done.counts = tuple(self.merge(anew=True))
            self.publish()
            return done

    def restore(self, kept: Path) -> None:
        """Put an earlier published file back; the next sync brings it up to the lake by itself. Raises DamagedError."""
        with self.writer():
            self.warehouse.restore(kept)
            self.warehouse.tell(at=self.clock(), names=self.settings.report_names)

    @contextmanager
    def writer(self) -> Iterator[None]:
        """Be the one writer (promise 14): wait for another for a while, then raise BusyError.

        What a killed writer left half-done is put right first.
        """
        with machine.in_words(self.warehouse.root):
            self.warehouse.prepare()
            with alone(self.warehouse.build, self.clock()):
                self._is_writer = True
                try:
                    self.heal()
                    yield
                finally:
                    self._is_writer = False

    # -- the stages ------------------------------------------------------------------------------------------------

    def today(self) -> date:
        """The date in ROLLBOOK_TIMEZONE."""
        return self.clock().astimezone(self.settings.zone).date()

    @telling
    @in_words
    def land(self, day: date | None = None, *, approve: bool = False, details: Details = "none") -> Manifest:
        """Fetch everything once and land it; with `approve`, the day's held landing, if it has one, instead.

        Raises the client's errors, OtherInstitutionError, NothingLandedError, and ArgumentError for a day that is no
        partition.
        """
        day = self.partition(day or self.today())
        if approve and (held := self.held(day)) is not None:
            return held
        flatten.load()  # now, and not between the first answer and the published file
        return fetch(
            self.settings,
            self.raw,
            self.warehouse,
            day=day,
            bound_to=self.bound_to(),
            newest=self.newest(),
            choose_details=None if details == "none" else partial(self._chosen, details),
            clock=self.clock,
            progress=self.progress,
        )

    @telling
    @in_words
    def snapshot(self, manifest: Manifest, *, approve: bool = False) -> tuple[Manifest, DayRecord]:
        """Flatten a landing, compose its day, judge it once, and move the day into the lake if it counts.

        Raises ContractChangedError (verdict failed) and HeldError (verdict held); both leave the lake as it was.
        """
        if manifest.counts_for_its_day:  # judged before, and `heal` saw to its snapshot
            return manifest, self.lake.days()[manifest.snapshot_date]
        flattened = self.composer.flatten(manifest)
        judged = partial(self.raw.judge, rejected=flattened.rejected(), drift=flattened.drift, at=self.clock())
        self.raw.refuse(manifest, flattened.rejects)
        try:
            weighed = self._weigh(manifest, flattened)
        except ContractChangedError as error:
            if manifest.verdict is None:
                judged(manifest, Verdict.FAILED, error.message)
            raise
        hold = weighed.hold
        if hold.reason and not approve:
            if manifest.verdict is None:
                judged(manifest, Verdict.HELD, hold.reason, counts=hold.counts)
            raise HeldError(words.held(manifest, hold), hold)
        verdict = Verdict.SYNCED if manifest.proven else Verdict.UNPROVEN
        verdict = Verdict.APPROVED if hold.reason else verdict
        manifest = judged(manifest, verdict, words.unproven(manifest), counts=hold.counts)
        return manifest, self.composer.commit(weighed.composed)

    @in_words
    def weigh(self, manifest: Manifest) -> Weighed:
        """What a landing would do, with nothing decided and nothing written but in `build/`.

        Raises ContractChangedError.
        """
        return self._weigh(manifest, self.composer.flatten(manifest))

    def _weigh(self, manifest: Manifest, flattened: Flattened) -> Weighed:
        believe(flattened)
        earlier = [m for m in self.counted(manifest.snapshot_date) if m.landing != manifest.landing]
        return Weighed(flattened, *self.composer.weigh([*earlier, manifest], flattened))

    @in_words
    def merge(self, *, anew: bool = False) -> list[TableCounts]:
        """Bring the next file up to the lake: current tables, history, changes, the record of the work.

        `anew` folds the whole lake by the definition, into an empty file; that raises ThinnedError when days
        would be lost.
        """
        if anew:
            self.retention.refuse_to_lose()
        with self.warehouse.writing(anew=anew) as (con, redeclared):
            history = History(con, self.lake)
            if anew or (redeclared and not history.thinned):
                counts = history.rebuild()
            else:
                # Days are gone that a rebuild would need: what is still there is merged again for what is new in it.
                days = history.records if redeclared else history.behind()
                counts = [*(history.refold() if redeclared else ()), *history.catch_up(days)]
            ops.record(con, self.raw, again=anew or redeclared)
        return counts

    @telling
    @in_words
    def publish(self) -> Report | None:
        """Check the next file and swap it in; then let go of what ROLLBOOK_KEEP_DAYS does not ask for any more.

        Returns the morning page, if one could be made. Raises CheckError, or SettingError for a malformed
        thresholds.csv, with the last published file left in place.
        """
        if not self.warehouse.next.exists():  # run by itself: there may be days that no merge has seen
            self.merge()
        keep = self.settings.keep_days
        page = self.warehouse.publish(
            shown_from=self.retention.kept_from(keep, self.today()) if keep else None,
            at=self.clock(),
            names=self.settings.report_names,
        )
        self.retention.thin(self.thinnable(keep))
        return page

    @in_words
    def resnapshot(self, days: Iterable[date]) -> Backfilled:
        """Flatten days again from what was landed and counts; verdicts stay as they are (promise 8)."""
        done, thinned = Backfilled(), self.raw.thinned()
        for day in days:
            counted = done.look(day, self.raw.manifests(day), thinned)
            if counted:
                done.rebuilt[day] = self.composer.again(counted)
        return done

    def thinnable(self, keep_days: int | None) -> list[date]:
        """The days whose raw bodies and snapshots may go if so many days are to be kept; none, without a number."""
        return self.retention.thinnable(keep_days, self.today()) if keep_days else []

    def prune(self) -> list[date]:
        """Let go of what ROLLBOOK_KEEP_DAYS does not ask for now, without a sync; returns the days.

        The views of the published file let go of them first, so that none of them reads a file that is gone.
        """
        with self.writer():
            days = self.thinnable(self.settings.keep_days)
            if days:
                self.publish()
            return days

    @in_words
    def heal(self) -> list[date]:
        """Recompose the days whose snapshot is not what was landed and counts; returns them."""
        return self.repair.heal()

    # -- what is known ---------------------------------------------------------------------------------------------

    def partition(self, day: date) -> date:
        """The day, if it is one that can be synced. Raises ArgumentError naming what would make it one."""
        if day < self.settings.first_date:
            raise ArgumentError(
                f"{day} is before the first day of this warehouse: set ROLLBOOK_FIRST_DATE (now"
                f" {self.settings.first_date}) to an earlier date"
            )
        if day > self.today():
            raise ArgumentError(
                f"{day} has not begun: it is {self.today()} in {self.settings.timezone}; days run from"
                f" ROLLBOOK_FIRST_DATE ({self.settings.first_date}) to today"
            )
        return day

    def in_order(self, first: date, last: date) -> list[date]:
        """The days of a range. Raises ArgumentError when it ends before it begins."""
        if last < first:
            raise ArgumentError(f"The range ends before it begins: write rollbook backfill {last} {first}")
        return [first + timedelta(days=n) for n in range((last - first).days + 1)]

    def landed(self, first: date, last: date) -> Backfilled:
        """What a backfill of these days finds: the days that count, with their snapshots, and why others do not."""
        done, there = Backfilled(), self.lake.days()
        for day in self.in_order(first, last):
            manifests = self.raw.manifests(day)
            done.look(day, manifests, self.raw.thinned())
            if day not in done.skipped and day in there:
                done.rebuilt[day] = there[day]
        return done

    def held(self, day: date) -> Manifest | None:
        """The day's held landing that waits for approval, unless a later one was synced."""
        return landing.held(self.raw.manifests(day))

    def counted(self, day: date) -> list[Manifest]:
        """The landings that add up to what a day states, in order."""
        return landing.counted(self.raw.manifests(day))

    def pending(self, day: date, *, approve: bool = False) -> Manifest:
        """The day's landing that waits for its verdict; with `approve` the held one; else the last that counts.

        This is how a stage that runs by itself finds its work. Raises NothingLandedError when there is none.
        """
        manifests = self.raw.manifests(day)
        if approve and (held := self.held(day)) is not None:
            return held
        waiting = [m for m in manifests if m.verdict is None or m.counts_for_its_day]
        if not waiting:
            raise NothingLandedError(words.nothing(day, manifests, self.raw.thinned()), [day])
        return waiting[-1]

    def newest(self) -> Manifest | None:
        """The last landing that counts of the newest day that has one."""
        return next((counted[-1] for d in reversed(self.raw.days()) if (counted := self.counted(d))), None)

    def bound_to(self) -> int | None:
        """The institution that the warehouse belongs to, from its first counted landing on (promise 11)."""
        for day in self.raw.days():
            for manifest in self.counted(day):
                if manifest.school_id is not None:
                    return manifest.school_id
        return self.warehouse.bound_to()

    def _chosen(self, details: Details, draft: Draft) -> list[int]:
        """The students whose details are fetched: all that were shown, or those whose rows changed."""
        return sorted(draft.ids["students"]) if details == "all" else self.composer.changed_students(draft)
