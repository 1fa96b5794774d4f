"""One institution's warehouse, and the stages of a night as plain calls. Operators' work: `approvals` and `past`."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from filelock import Timeout

from rollbook.errors import (
    BusyError,
    CheckError,
    ContractChangedError,
    DamagedError,
    HeldError,
    OtherVersionError,
    RollbookError,
)
from rollbook.flatten import rows
from rollbook.landing.manifest import Approval, Details, Manifest, TableCounts, Verdict
from rollbook.landing.raw import RawStore
from rollbook.source.fetch import Draft, fetch, utc_now, why_refused
from rollbook.source.pagination import Progress
from rollbook.store import checks, ops
from rollbook.store.database import machine_errors, reuse_instances, transaction
from rollbook.store.history.engine import History
from rollbook.store.lake import DayRecord, Lake, StagedLake
from rollbook.store.warehouse import Warehouse
from rollbook.sync import policy
from rollbook.sync.erasures import Erasures
from rollbook.sync.ingest import Flattened
from rollbook.sync.landings import Composed, Composer, Landings, refused_since
from rollbook.sync.listeners import ErasureUnderWay, Listener
from rollbook.sync.recovery import Recovery
from rollbook.util import files
from rollbook.util.text import listed
from rollbook.views import catalog, editable

if TYPE_CHECKING:  # a night is given its settings and does not read any
    from rollbook.settings import Settings

log = logging.getLogger(__name__)

L = TypeVar("L", bound=Listener)

# How long a second writer waits for the lock.
WAIT_SECONDS = 900.0


@dataclass(frozen=True)
class NightsBefore:
    """The earlier nights, as far as a fetch needs them: the newest landing that counts, the institution that the
    warehouse is bound to, and the records of each set that only searches found, each since when.
    """

    newest: Manifest | None
    bound_to: int | None
    hidden: dict[str, dict[int, date]]


@dataclass(frozen=True)
class Evaluation:
    """The effect of a landing, before anything is recorded: the day, composed in the build folder, and the decision."""

    flattened: Flattened
    composed: Composed
    decision: policy.Decision


@dataclass(frozen=True)
class Synced:
    """The result of one sync: the landing with its verdict, and the changes in each current table."""

    manifest: Manifest
    day: DayRecord
    counts: tuple[TableCounts, ...]


@dataclass(frozen=True)
class Merged:
    """The next file, brought up to the lake: the changes per current table, and what `publish` need not check again.

    `since` is the first day that the merge changed (None: everything), `unchanged` the tables that no change touched.
    """

    counts: tuple[TableCounts, ...]
    since: date | None = None
    unchanged: frozenset[str] = frozenset()


class Rollbook:
    """One institution's warehouse and its nights. Everything that writes needs `writer()` or `fetching()`.

    A Rollbook holds places and settings only: each stage of a night returns a value, which the next stage is given.
    """

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
        self.progress: Progress = progress or (lambda *_: None)
        self.warehouse = warehouse or Warehouse(
            settings.warehouse_path, settings.file_mode, shared_mode=settings.shared_mode, fleet=settings.fleet_path
        )
        self.raw = raw or RawStore(settings.warehouse_path / "raw")
        self.lake = self.warehouse.lake
        self.landings = Landings(self.raw)
        self.composer = Composer(self.raw, self.warehouse)
        self.recovery = Recovery(self.landings, self.warehouse, self.composer)
        self.erasures = Erasures(self.raw, self.warehouse, self.clock, self.progress)
        self.listeners: tuple[Listener, ...] = ()

    def sync(self, day: date | None = None, *, details: Details = Details.none, fresh: bool = False) -> Synced:
        """Fetch, decide, merge, publish: the nightly job. `fresh` fetches even if the day was fetched minutes ago.
        Raises RollbookError; readers then keep the last published file.
        """
        with self.fetching() as blocked:
            done = self.finish(self.land(day, details=details, fresh=fresh, blocked=blocked))
        self.check_listeners()
        return done

    def finish(self, manifest: Manifest) -> Synced:
        """Decide on a landing, merge and publish it: the rest of a night. Raises what the three stages raise."""
        manifest, record = self.snapshot(manifest)
        merged = self.merge()
        self.publish(merged)
        return Synced(manifest, record, merged.counts)

    @contextmanager
    def writer(self, *, recover: bool = True) -> Iterator[None]:
        """Hold the writer lock (G14), over a warehouse that is first brought to the state that all counted landings
        imply (G4). Raises BusyError if another writer holds the lock for too long, and recovery's error.
        """
        with self.fetching(recover=recover) as blocked:
            if blocked is not None:
                raise blocked
            yield

    @contextmanager
    def fetching(self, *, recover: bool = True) -> Iterator[RollbookError | None]:
        """As `writer`, for a night that fetches: yields recovery's error, with which `land` still keeps the landing.

        The listeners learn of a failure, since not all readers see the log or the UI. A fault of this machine is a
        MachineError, and damaged files are recovered.
        """
        with machine_errors(self.warehouse.root):
            self.warehouse.prepare()
            with writer_lock(self.warehouse.build, self.clock()), reuse_instances(self.warehouse.scratch):
                try:
                    blocked = self._began(recover=recover)
                    with self._reported():
                        yield blocked
                except Exception:  # an interrupt should not wait for a copy
                    self.tell(lambda listener: listener.ended(self.clock()))
                    raise
                else:
                    self.tell(lambda listener: listener.ended(self.clock()))

    def _swept(self) -> None:
        self.recovery.sweep()
        self.erasures.clean()

    def _began(self, *, recover: bool) -> RollbookError | None:
        """Recover, and tell the listeners that a writer has begun. Returns the error that stopped recovery."""
        if not recover:
            self._swept()
            return None
        blocked = None
        try:
            with self._repaired():
                self.recover()
        except OtherVersionError:  # a landing of this version would not help the other
            raise
        except RollbookError as error:
            log.warning("The warehouse could not be brought up to date: %s", error.message)
            blocked = error
        self.tell(lambda listener: listener.began(self.clock()))
        return blocked

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Tell the listeners of a failure in the block."""
        try:
            with self._repaired():
                yield
        except RollbookError as error:
            failure = error  # Python unbinds `error` at the end of the handler
            self.tell(lambda listener: listener.failed(failure, self.clock()))
            raise

    @contextmanager
    def _repaired(self) -> Iterator[None]:
        """Make a fault of this machine in the block a MachineError, and recover damaged files. Raises DamagedError."""
        try:
            with machine_errors(self.warehouse.root):
                yield
        except DamagedError as error:
            done = self.recovery.recover_damaged()
            if done is None:
                raise
            raise DamagedError(done) from error

    def tell(self, what: Callable[[Listener], None]) -> None:
        """Tell all listeners something; a failure is a warning in the log."""
        for listener in self.listeners:
            try:
                with machine_errors(self.warehouse.root):
                    what(listener)
            except Exception as error:  # noqa: BLE001 - the night is worth more than any listener
                # Other messages may hold values.
                why = error.message if isinstance(error, RollbookError) else type(error).__name__
                log.warning(
                    "%s could not be brought up to date: %s. It stays as it was, and the next night tries again; see"
                    " `rollbook status`",
                    listener.name,
                    why,
                )

    def check_listeners(self) -> None:
        """Raise LostError if a listener found that something is lost here. It ends a night, which is published."""
        for listener in self.listeners:
            listener.check()

    def today(self) -> date:
        """The date in ROLLBOOK_TIMEZONE."""
        return self.clock().astimezone(self.settings.zone).date()

    def recover(self) -> None:
        """Bring the warehouse to the state that all counted landings imply, before any decision (G4).

        Missing or outdated days of the lake are recomposed; the published file is merged from the newest sound one that
        Rollbook wrote, or made from the lake if there is none. Erased students are removed first from whatever still
        holds them, and an erasure that was under way is finished. Raises ExpiredError, and LostError.
        """
        self._swept()
        self.recovery.check_raw()
        self.recovery.recover_lake()
        if self.recovery.is_behind():
            base = self.recovery.base()
            try:
                self.publish(self.merge_into(base))
            except CheckError:
                if base is None or self.landings.expired_days():
                    raise
                # The file's content is wrong: start from the lake alone.
                self.publish(self.merge_into(None, full_refresh=True))
        self.finish_erasure()
        self.decide(self.landings.undecided())

    def finish_erasure(self) -> None:
        """Finish an erasure that is under way: let the listeners remove the student from what else there is. The
        published files are clean already.
        """
        self.erasures.finish()
        if (pending := self.raw.erasure_register.read().pending) is not None:
            self.tell(lambda listener: listener.began(self.clock()))
            under_way = ErasureUnderWay(
                number=self.raw.erasure_register.count,
                pending=pending,
                gone=self.raw.erasure_register.matcher(),
                counts=dict(pending.found),
            )
            for listener in self.listeners:  # an error leaves the erasure under way, for the next writer to finish
                listener.erased(under_way)
            self.erasures.close()
            self.tell(lambda listener: listener.published(self.clock()))

    def land(
        self,
        day: date | None = None,
        *,
        details: Details = Details.none,
        fresh: bool = False,
        blocked: RollbookError | None = None,
        before: NightsBefore | None = None,
    ) -> Manifest:
        """Fetch everything once and land it; or check the key and return a proven landing from minutes ago, unless
        `fresh`.

        Raises the client's errors, OtherInstitutionError, NothingLandedError, SettingError without an address or a key,
        and ArgumentError for a day that is not a partition. With recovery's error as `blocked`, the landing is kept for
        the next writer to decide on, and that error is raised. The walk is compared with the nights `before` (default:
        this warehouse's).
        """
        day = self.partition(day or self.today())
        landed = (m for later in self.raw.days() if later > day for m in self.raw.readable(later))
        policy.check_order(day, landed, self.clock())
        minutes = 0 if fresh or blocked or details != "none" else self.settings.cache_minutes
        reusable = self.landings.reusable(day, self.clock(), minutes) if minutes else None
        manifest = self._fetch(day, details, reusable, blocked, before or self.nights_before())
        if blocked is not None:
            raise blocked
        return manifest

    def _fetch(
        self,
        day: date,
        details: Details,
        reusable: Manifest | None,
        blocked: RollbookError | None,
        before: NightsBefore,
    ) -> Manifest:
        self.settings.check_source()
        self.settings.warn_of_misspelt()
        rows.load()  # now, not between the first answer and the publish
        newest = before.newest
        walks = newest.walks if newest else ()
        numbers = [number for on, number in self.recovery.recorded() if on == day]
        self.tell(lambda listener: numbers.extend(listener.landings(day)))
        self.raw.erasure_register.check(newest.erasures if newest else 0)
        return fetch(
            self.settings,
            partial(
                self.composer.session.begin,
                expected=max((walk.total_count for walk in walks), default=0),
                recorded=max(numbers, default=0),
            ),
            self.warehouse if blocked is None else None,
            day=day,
            bound_to=before.bound_to,
            newest=newest,
            hidden=before.hidden,
            deferred=blocked.message if blocked else "",
            reusable=reusable,
            choose_details=None
            if details == "none" or blocked is not None
            else partial(self._students_to_detail, details),
            clock=self.clock,
            progress=self.progress,
        )

    def nights_before(self) -> NightsBefore:
        """The earlier nights of this warehouse."""
        return NightsBefore(self.newest(), self.bound_to(), self.landings.hidden())

    def _students_to_detail(self, details: Details, draft: Draft) -> list[int]:
        """Return the students whose details to fetch: all or the changed, without the just fetched and the erased."""
        students = sorted(draft.ids["students"]) if details == "all" else self.composer.changed_students(draft)
        since = self.clock() - timedelta(minutes=self.settings.cache_minutes)
        fetched = self.landings.details_since(draft.manifest.snapshot_date, since)
        gone = self.raw.erasure_register.matcher()
        return [student for student in students if student not in fetched and student not in gone]

    def snapshot(self, manifest: Manifest, approval: Approval | None = None) -> tuple[Manifest, DayRecord]:
        """Flatten a landing, compose its day, decide on it once, and move the day into the lake if it counts.

        Raises ContractChangedError (verdict failed) and HeldError (verdict held); both leave the lake alone.
        """
        if (
            manifest.counts_for_its_day and approval is None
        ):  # the verdict was given, and `recover` has made the snapshot
            return manifest, self.lake.days()[manifest.snapshot_date]
        flattened = self.composer.flatten(manifest)
        record = partial(
            self.raw.record_verdict,
            rejected=flattened.rejected(),
            drift=flattened.drift,
            oddities=flattened.oddities,
            at=self.clock(),
        )
        self.raw.keep_rejects(manifest, flattened.rejects)
        try:
            evaluation = self.evaluate(manifest, flattened, approval)
        except ContractChangedError as error:
            if manifest.verdict is None:
                record(manifest, Verdict.FAILED, error.message)
            raise
        decision = evaluation.decision
        if decision.verdict is Verdict.HELD:
            if manifest.verdict is None:
                manifest = record(manifest, Verdict.HELD, decision.reason, counts=decision.counts)
            raise HeldError(
                f"Held: {decision.reason}. Readers keep what was published. If it is right, run"
                f" `{self.settings.command(f'sync --date {manifest.snapshot_date} --approve')}` (in the UI:"
                f' `approve: ["{manifest.hold_digest}"]` in the launchpad); else ask the service\'s representative',
                decision.hold,
            )
        if begun := policy.restarted(decision.counts):
            log.info("Most totals fall in %s, as at the start of a term: that holds nothing", listed(begun))
        approved = approval.applied_to(manifest) if approval else manifest
        if approved.parts:
            self.raw.record_approval(approved)
        else:
            approved = record(
                manifest, decision.verdict, decision.reason, counts=decision.counts, approvals=approved.approvals
            )
        return approved, self.composer.commit(evaluation.composed)

    def evaluate(self, manifest: Manifest, flattened: Flattened, approval: Approval | None = None) -> Evaluation:
        """Compose a flattened landing's day and decide on it; writes only in `build/`. Raises ContractChangedError."""
        if refused := refused_since(manifest, flattened):
            raise ContractChangedError(
                f"{refused}. The service no longer says what its contract says: ask its representative what changed;"
                " nothing was merged"
            )
        day = manifest.snapshot_date
        others = [m for m in self.landings.counted(day) if m.landing != manifest.landing]
        counting = approval.applied_to(manifest) if approval else manifest
        composed, counts = self.composer.evaluate(sorted([*others, counting], key=lambda m: m.landing), flattened)
        if day < max(self.lake.days(sized=False), default=day):
            counts = self._counts_once_merged(composed)
        decision = policy.decide(manifest, counts, self.settings, approve=approval is not None)
        return Evaluation(flattened, composed, decision)

    def merge(self, *, full_refresh: bool = False, lake: Lake | None = None) -> Merged:
        """Bring the next file up to the `lake` (default: the warehouse's): current tables, history, changes, the record
        of the syncs.

        `full_refresh` folds the whole lake into an empty file; raises ExpiredError if days would be lost.
        """
        if full_refresh:
            self.recovery.refuse_to_lose()
        base = None if full_refresh else self.recovery.published()
        return self.merge_into(base, lake=lake, full_refresh=full_refresh)

    def merge_into(
        self,
        base: Path | None,
        *,
        lake: Lake | None = None,
        without: Set[date] | None = None,
        full_refresh: bool = False,
    ) -> Merged:
        """Bring a copy of the file `base`, or an empty file, up to the `lake` (default: the warehouse's), without
        some days (default: the discarded ones).
        """
        without = self.landings.discarded_days() if without is None else without
        since, unchanged = None, frozenset[str]()
        with self.warehouse.writing(base, b"" if base else catalog.prepared()) as (con, changed):
            redeclared = bool(changed - {"ops"})
            history = History(con, lake or self.lake)
            forgotten = without & history.merged_days().keys()
            counts = history.forget(forgotten)
            if full_refresh or (redeclared and not history.has_expired_days):
                counts = history.rebuild()
            elif redeclared:
                self.recovery.refuse_retracked(base)
                # Expired days cannot be rebuilt from the lake; the days still there are merged again for new columns.
                counts = [*history.refold(), *history.catch_up(history.records)] or counts
            else:
                behind = history.behind()
                counts = history.catch_up(behind) or counts
                if behind and base and not forgotten:
                    since, unchanged = min(behind), history.unchanged
            ops.record(con, self.raw, full_refresh=full_refresh or bool(changed))
        return Merged(tuple(counts), since, unchanged)

    def publish(self, merged: Merged) -> None:
        """Check the next file and swap the file in; then expire the days that ROLLBOOK_KEEP_DAYS does not keep.

        Raises CheckError, and SettingError for a malformed thresholds.csv or terms.csv. The published file then stays
        in place.
        """
        keep = self.settings.keep_days
        shown_from = self.recovery.kept_from(keep) if keep else None
        self._prepare(merged, shown_from)
        now = self.clock()
        self.tell(lambda listener: listener.before_publish(self.warehouse.next, now))
        self.warehouse.swap()
        if shown_from is not None:
            self.warehouse.expire_rejects(shown_from)
        self.tell(lambda listener: listener.published(now))
        self.recovery.expire(self.recovery.expirable(keep))

    def _prepare(self, merged: Merged, shown_from: date | None) -> None:
        """Fill the next file with the institution's own CSV files and the views, and check it.

        The views show the lake from the day `shown_from` on (None: the whole lake).
        """
        root, mode, days = self.warehouse.root, self.warehouse.mode, self.lake.days()
        editable.ensure(root, mode)
        with self.warehouse.finishing() as con:
            with transaction(con):  # a few hundred comments would else be written one by one
                thresholds = editable.read_thresholds(root / editable.THRESHOLDS)
                editable.fill(con, thresholds, editable.read_terms(root / editable.TERMS))
                if shown_from is not None:
                    ops.expire_rejects(con, shown_from)
                shown = [r for d, r in days.items() if shown_from is None or d >= shown_from]
                catalog.create(con, self.lake, shown, ops.stamp(con, self.clock()))
            found = checks.examine(con, self.lake, days, merged.since, merged.unchanged)
            if broken := [sentence for sentences in found.values() for sentence in sentences]:
                raise CheckError(f"{'; '.join(broken)}. Nothing was published; run `rollbook rebuild`", found)

    def _counts_once_merged(self, composed: Composed) -> tuple[TableCounts, ...]:
        """The changes that a day before the newest day makes for readers: only a merge shows what later days leave.

        Requires the writer lock, or a private build folder. The lake stays unchanged.
        """
        staged = StagedLake(self.lake, self.warehouse.staged_lake)
        self.composer.copy(composed, staged)
        self.merge_into(self.recovery.published(), lake=staged, without=frozenset())
        counts = self.recovery.lost()
        self.warehouse.drop_next()
        return counts

    def decide(self, undecided: Iterable[Manifest]) -> None:
        """Decide on landings whose sync could not, in their order; each is published before the next is compared.

        A landing of another institution never counts: the sync could not tell whose warehouse this is (G11).
        """
        for manifest in undecided:
            school = manifest.school_id
            if school is not None and (refused := why_refused(self.settings, school, self.bound_to())):
                self.raw.record_verdict(manifest, Verdict.FAILED, refused, at=self.clock())
                continue
            try:
                self.snapshot(manifest)
            except (HeldError, ContractChangedError) as error:
                log.warning("%s", error.message)
            else:
                self.publish(self.merge())

    def partition(self, day: date) -> date:
        """Return the day. Raises ArgumentError if it cannot be synced (`policy.partition`)."""
        return policy.partition(day, self.first_day(), self.today(), self.settings.timezone)

    def first_day(self) -> date:
        """The first day that can be synced: as set, else the first landed day, or yesterday before any landing: the
        first sync may have begun before midnight.
        """
        landed, today = self.raw.all_days(), self.today()
        return self.settings.first_date or min((*landed, today if landed else today - timedelta(days=1)))

    def newest(self) -> Manifest | None:
        """The newest landing that counts; None before the first."""
        return self.landings.newest()

    def bound_to(self) -> int | None:
        """The warehouse's institution, from the first counted landing (G11); None before that landing."""
        school_id = self.raw.school_id()
        return self.warehouse.bound_to() if school_id is None else school_id

    def listener(self, kind: type[L]) -> L:
        """The listener of a class."""
        return next(each for each in self.listeners if isinstance(each, kind))

    def clear(self) -> None:
        """Remove everything landed and derived. For made-up institutions: a real one's raw/ has no other copy."""
        for made in (self.raw.root, self.lake.root, self.warehouse.versions.folder, self.warehouse.build / "stage"):
            shutil.rmtree(made, ignore_errors=True)
        for file in (self.warehouse.published, self.warehouse.next):
            file.unlink(missing_ok=True)
        self.warehouse.pseudonymous.clear()
        self.warehouse.prepare()


@contextmanager
def writer_lock(build: Path, now: datetime) -> Iterator[None]:
    """Hold the writer lock. Raises BusyError if another writer holds it for more than WAIT_SECONDS.

    The lock is the operating system's; a killed writer leaves none behind.
    """
    path = build / "writer.lock"
    lock = files.Lock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        log.warning("Waiting for another writer to finish (%s)", files.holder(path))
        try:
            lock.acquire(timeout=WAIT_SECONDS)
        except Timeout:
            raise BusyError(
                f"Another sync is still writing ({files.holder(path)}). Try again when it is done"
            ) from None
    try:
        files.note_holder(path, f"process {os.getpid()} since {now:%Y-%m-%d %H:%M:%S} UTC")
        yield
    finally:
        lock.release()
