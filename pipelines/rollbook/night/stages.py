"""The stages of a night, each a function of a place and of what the stage before it made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from threading import Event

import pyarrow as pa

from rollbook.errors import CheckError, ContractChangedError, HeldError, RollbookError
from rollbook.flatten import rows
from rollbook.ingest import Flattened, Ingested, StagingWriter, started_early
from rollbook.landing.manifest import Approval, Details, Manifest, TableCounts, Verdict
from rollbook.night import policy
from rollbook.night.landings import Compared, Composed, Uncounted, refused_since
from rollbook.night.rollbook import Rollbook
from rollbook.source.fetch import Draft, fetch
from rollbook.store import checks, feed, ops
from rollbook.store.database import transaction
from rollbook.store.history.engine import History
from rollbook.store.lake import DayRecord, Lake, StagedLake
from rollbook.util import files
from rollbook.util.text import listed
from rollbook.views import catalog, editable

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NightsBefore:
    """The earlier nights, as far as a fetch needs them: the newest landing that counts, the institution that the
    warehouse is bound to, the records of each set that only searches found, each since when, and the records that only
    held or discarded landings state.
    """

    newest: Manifest | None
    bound_to: int | None
    hidden: dict[str, dict[int, date]]
    uncounted: Uncounted


@dataclass(frozen=True)
class Merged:
    """The next file, brought up to the lake: the changes per current table, and what `publish` need not check again.

    `since` is the first day that the merge changed (None: everything), `unchanged` the tables that no change touched.
    Against the file `base`, only the `touched` tables may differ; None if no table can be compared with that file.
    `watched` has who was to watch there, if that was found ahead.
    """

    counts: tuple[TableCounts, ...]
    since: date | None = None
    unchanged: frozenset[str] = frozenset()
    base: Path | None = None
    touched: frozenset[str] = frozenset()
    watched: pa.Table | None = None


@dataclass(frozen=True)
class Ahead:
    """What was made while the service was still asked: the landing's day, composed and compared; who was to watch
    in the published file; and the next file, `merged` with the day of this `digest`. What a search disproves is made
    again.
    """

    compared: Compared
    watched: pa.Table | None = None
    digest: str = ""
    merged: Merged | None = None


@dataclass(frozen=True)
class Landed:
    """What a fetch landed: the manifest, with the rows if they were staged, and what was made `ahead`. What is missing
    is made from `raw/`.
    """

    manifest: Manifest
    flattened: Flattened | None = None
    ahead: Ahead | None = None


@dataclass(frozen=True)
class Evaluation:
    """The effect of a landing, before anything is recorded: the day, composed in the build folder, and the decision."""

    flattened: Flattened
    composed: Composed
    decision: policy.Decision


def land(
    rollbook: Rollbook,
    day: date | None = None,
    *,
    details: Details = Details.none,
    fresh: bool = False,
    blocked: RollbookError | None = None,
    before: NightsBefore | None = None,
) -> Landed:
    """Fetch everything once and land it; or check the key and return a proven landing from minutes ago, unless
    `fresh`. The day of a large landing is composed and compared while its vanished records are searched for.

    Raises the client's errors, OtherInstitutionError, NothingLandedError, SettingError without an address or a key,
    and ArgumentError for a day that is not a partition. With recovery's error as `blocked`, the landing is kept for
    the next writer to decide on, and that error is raised. The walk is compared with the nights `before` (default:
    this warehouse's, into which the day is then also merged ahead).
    """
    day = rollbook.partition(day or rollbook.today())
    later = (m for later in rollbook.raw.days() if later > day for m in rollbook.raw.readable(later))
    policy.check_order(day, later, rollbook.clock())
    minutes = 0 if fresh or blocked or details != "none" else rollbook.settings.cache_minutes
    reusable = rollbook.landings.reusable(day, rollbook.clock(), minutes) if minutes else None
    merging = before is None and blocked is None
    landed = _fetch(rollbook, day, details, reusable, blocked, before or nights_before(rollbook), merging=merging)
    if blocked is not None:
        raise blocked
    return landed


def _fetch(
    rollbook: Rollbook,
    day: date,
    details: Details,
    reusable: Manifest | None,
    blocked: RollbookError | None,
    before: NightsBefore,
    *,
    merging: bool,
) -> Landed:
    rollbook.settings.check_source()
    rollbook.settings.warn_of_misspelt()
    newest = before.newest
    numbers = [number for on, number in rollbook.recovery.recorded() if on == day]
    rollbook.tell(lambda listener: numbers.extend(listener.landings(day)))
    rollbook.raw.erasure_register.check(newest.erasures if newest else 0)
    records = max((walk.total_count for walk in (newest.walks if newest else ())), default=0)
    # The block waits for the threads, which write in the build folder.
    with started_early(records) as process, _joined(ThreadPoolExecutor(2, thread_name_prefix="ahead")) as threads:
        ahead, searched = list[Future[Ahead | None]](), Event()

        def walks_over(walked: Callable[[], Ingested]) -> None:
            ahead.append(threads.submit(_ahead, rollbook, walked, searched if merging else None))

        if rollbook.recovery.published_file() is None:  # the empty file that `merge` fills
            threads.submit(catalog.prepared)  # an error comes again in `merge`
        rows.load()  # now, not between the first answer and the publish
        try:
            ingested = fetch(
                rollbook.settings,
                partial(
                    StagingWriter,
                    rollbook.raw,
                    rollbook.composer.aside,
                    recorded=max(numbers, default=0),
                    process=process,
                    walks_over=walks_over,
                ),
                rollbook.warehouse if blocked is None else None,
                day=day,
                bound_to=before.bound_to,
                newest=newest,
                hidden=before.hidden,
                uncounted=before.uncounted,
                deferred=blocked.message if blocked else "",
                reusable=None if reusable is None else Ingested(reusable),
                choose_details=None
                if details == "none" or blocked is not None
                else partial(_students_to_detail, rollbook, details),
                clock=rollbook.clock,
                progress=rollbook.progress,
            )
        finally:
            searched.set()
        return Landed(ingested.manifest, ingested.flattened, ahead[0].result() if ahead else None)


@contextmanager
def _joined(threads: ThreadPoolExecutor) -> Iterator[ThreadPoolExecutor]:
    """Wait for the threads at the end, however often somebody presses Ctrl-C: the lock must not be let go before."""
    try:
        yield threads
    finally:
        stopped = None
        while True:
            try:
                threads.shutdown()
                break
            except KeyboardInterrupt as error:
                stopped = error
        if stopped is not None:
            raise stopped


def _ahead(rollbook: Rollbook, walked: Callable[[], Ingested], searched: Event | None) -> Ahead | None:
    """Compose and compare the day that the walks brought; go on with the merge until the service is `searched` (None:
    do not merge). None for a day of several landings, and where anything fails: a lasting error comes again later.
    """
    try:
        # While the other process still flattens what came last.
        watched = _watched(rollbook) if searched is not None else None
        compared = rollbook.composer.compared_ahead(walked)
        if compared is None:
            return None
        days = rollbook.lake.days(sized=False)
        if searched is None or searched.is_set() or compared.composed.candidate.day < max(days, default=date.min):
            return Ahead(compared, watched)  # the day is decided by a merge, or the merge is due
        record, merged = merge_beside(rollbook, compared.composed, rollbook.landings.discarded_days())
        return Ahead(compared, watched, record.digest, merged)
    except Exception as error:  # noqa: BLE001 - only time is lost
        log.info("The day was not made ahead (%s)", type(error).__name__)
        with suppress(OSError):
            rollbook.warehouse.drop_next()
        return None


def _watched(rollbook: Rollbook) -> pa.Table | None:
    with rollbook.warehouse.reading() as con:
        return feed.watched(con, "published.") if rollbook.warehouse.published_file.is_file() else None


def nights_before(rollbook: Rollbook, build: Path | None = None) -> NightsBefore:
    """The earlier nights of this warehouse. `build` is the folder to work in (default: the warehouse's)."""
    bound_to = rollbook.bound_to()
    uncounted = Uncounted(rollbook.raw, bound_to, (build or rollbook.warehouse.build) / "stage")
    return NightsBefore(rollbook.newest(), bound_to, rollbook.landings.hidden(), uncounted)


def _students_to_detail(rollbook: Rollbook, details: Details, draft: Draft) -> list[int]:
    """Return the students whose details to fetch: all or the changed, without the just fetched and the erased."""
    students = sorted(draft.ids["students"]) if details == "all" else rollbook.composer.changed_students(draft)
    since = rollbook.clock() - timedelta(minutes=rollbook.settings.cache_minutes)
    fetched = rollbook.landings.details_since(draft.manifest.snapshot_date, since)
    erased = rollbook.raw.erasure_register.matcher()
    return [student for student in students if student not in fetched and student not in erased]


def snapshot(rollbook: Rollbook, landed: Landed, approval: Approval | None = None) -> tuple[Manifest, DayRecord]:
    """Flatten a landing, compose its day, decide on it once, and move the day into the lake if it counts.

    Raises ContractChangedError (verdict failed) and HeldError (verdict held); both leave the lake alone.
    """
    manifest = landed.manifest
    if manifest.counts_for_its_day and approval is None:  # the verdict was given, and `recover` has made the snapshot
        return manifest, rollbook.lake.days()[manifest.snapshot_date]
    flattened = landed.flattened or rollbook.composer.flatten(manifest)
    record = partial(
        rollbook.raw.record_verdict,
        rejected=flattened.rejected(),
        drift=flattened.drift,
        oddities=flattened.oddities,
        at=rollbook.clock(),
    )
    rollbook.raw.keep_rejects(manifest, flattened.rejects)
    try:
        evaluation = evaluate(rollbook, replace(landed, flattened=flattened), approval)
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
            f" `{rollbook.settings.command(f'sync --date {manifest.snapshot_date} --approve')}` (in the UI: the job"
            f' `approve_held` with `held: ["{manifest.hold_digest}"]`); else ask the service\'s representative',
            decision.hold,
        )
    if begun := policy.restarted(decision.counts):
        log.info("Most totals begin again in %s, as at the start of a term: that holds nothing", listed(begun))
    manifest = record(manifest, decision.verdict, decision.reason, counts=decision.counts, approval=approval)
    return manifest, rollbook.composer.commit(evaluation.composed)


def evaluate(rollbook: Rollbook, landed: Landed, approval: Approval | None = None) -> Evaluation:
    """Compose a landing's day and decide on it; writes only in `build/`. Raises ContractChangedError."""
    manifest, flattened = landed.manifest, landed.flattened or rollbook.composer.flatten(landed.manifest)
    if refused := refused_since(manifest, flattened):
        raise ContractChangedError(
            f"{refused}. The service no longer says what its contract says: ask its representative what changed;"
            " nothing was merged"
        )
    day = manifest.snapshot_date
    others = [m for m in rollbook.landings.counted(day) if m.landing != manifest.landing]
    counting = approval.applied_to(manifest) if approval else manifest
    manifests = sorted([*others, counting], key=lambda m: m.landing)
    compared = rollbook.composer.evaluate(manifests, flattened, landed.ahead.compared if landed.ahead else None)
    composed, counts = compared.composed, compared.counts
    since_before = None
    if day < max(rollbook.lake.days(sized=False), default=day):
        counts = _counts_once_merged(rollbook, composed)
    elif others and min(rollbook.warehouse.merged_days(), default=day) < day:
        since_before = rollbook.composer.changes_of_day(composed, policy.seen(manifest, others))
    decision = policy.decide(
        manifest, counts, rollbook.settings, since_before=since_before, approve=approval is not None
    )
    return Evaluation(flattened, composed, decision)


def _counts_once_merged(rollbook: Rollbook, composed: Composed) -> tuple[TableCounts, ...]:
    """The changes that a day before the newest day makes for readers: only a merge shows what later days leave.

    Requires the writer lock, or a private build folder. The lake stays unchanged.
    """
    merge_beside(rollbook, composed)
    counts = rollbook.recovery.rows_lost()
    rollbook.warehouse.drop_next()
    return counts


def merge_beside(rollbook: Rollbook, composed: Composed, without: Set[date] = frozenset()) -> tuple[DayRecord, Merged]:
    """Bring the next file up to the lake with a composed day, and without some days; the lake stays unchanged."""
    staged = StagedLake(rollbook.lake, rollbook.warehouse.staged_lake)
    record = rollbook.composer.copy(composed, staged)
    merged = merge_into(rollbook, rollbook.recovery.published_file(), lake=staged, without=without)
    files.empty(staged.root)
    return record, merged


def merge(
    rollbook: Rollbook,
    *,
    full_refresh: bool = False,
    lake: Lake | None = None,
    ahead: Ahead | None = None,
    digest: str = "",
) -> Merged:
    """Bring the next file up to the `lake` (default: the warehouse's): current tables, history, changes.

    `full_refresh` folds the whole lake into an empty file; raises ExpiredError if days would be lost. A file that was
    merged `ahead` stands if the day then had this `digest`.
    """
    if full_refresh:
        rollbook.recovery.refuse_to_lose()
    base = None if full_refresh else rollbook.recovery.published_file()
    merged = ahead.merged if ahead and ahead.digest == digest and not full_refresh else None
    merged = merged or merge_into(rollbook, base, lake=lake, full_refresh=full_refresh)
    return replace(merged, watched=ahead.watched if ahead else None)


def merge_into(
    rollbook: Rollbook,
    base: Path | None,
    *,
    lake: Lake | None = None,
    without: Set[date] | None = None,
    full_refresh: bool = False,
) -> Merged:
    """Bring a copy of the file `base`, or an empty file, up to the `lake` (default: the warehouse's), without
    some days (default: the discarded ones): current tables, history, changes.
    """
    without = rollbook.landings.discarded_days() if without is None else without
    since, unchanged = None, frozenset[str]()
    with rollbook.warehouse.writing(base, b"" if base else catalog.prepared()) as (con, changed):
        redeclared = bool(changed - {"ops"})
        history = History(con, lake or rollbook.lake)
        forgotten = without & history.merged_days().keys()
        counts = history.forget(forgotten)
        if full_refresh or (redeclared and not history.has_expired_days):
            counts = history.rebuild()
        elif redeclared:
            rollbook.recovery.refuse_retracked(base)
            # Expired days cannot be rebuilt from the lake; the days still there are merged again for new columns.
            counts = [*history.refold(), *history.catch_up(history.records)] or counts
        else:
            behind = history.behind()
            counts = history.catch_up(behind) or counts
            if behind and base and not forgotten:
                since, unchanged = min(behind), history.unchanged
    return Merged(tuple(counts), since, unchanged, None if changed else base, history.touched)


def publish(rollbook: Rollbook, merged: Merged) -> None:
    """Check the next file and swap the file in; then expire the days that ROLLBOOK_KEEP_DAYS does not keep.

    Raises CheckError, and SettingError for a malformed thresholds.csv or terms.csv. The published file then stays
    in place.
    """
    keep = rollbook.settings.keep_days
    shown_from = rollbook.recovery.kept_from(keep) if keep else None
    _prepare(rollbook, merged, shown_from)
    now = rollbook.clock()
    rollbook.tell(lambda listener: listener.before_publish(rollbook.warehouse.next, now))
    rollbook.warehouse.swap()
    if shown_from is not None:
        rollbook.warehouse.expire_rejects(shown_from)
    rollbook.tell(lambda listener: listener.on_published(now))
    rollbook.recovery.expire(rollbook.recovery.expirable(keep))


def _prepare(rollbook: Rollbook, merged: Merged, shown_from: date | None) -> None:
    """Fill the next file with the record of the syncs, the institution's own CSV files and the views, and check it.

    The views show the lake from the day `shown_from` on (None: the whole lake).
    """
    root, mode, days = rollbook.warehouse.root, rollbook.warehouse.mode, rollbook.lake.days()
    editable.ensure(root, mode)
    with rollbook.warehouse.finishing() as con:
        ops.record(con, rollbook.raw, full_refresh=merged.base is None)
        with transaction(con):  # a few hundred comments would else be written one by one
            thresholds = editable.read_thresholds(root / editable.THRESHOLDS)
            editable.fill(con, thresholds, editable.read_terms(root / editable.TERMS))
            if shown_from is not None:
                ops.expire_rejects(con, shown_from)
            shown = [r for d, r in days.items() if shown_from is None or d >= shown_from]
            catalog.create(con, rollbook.lake, shown, ops.stamp(con, rollbook.clock()))
            if merged.base is None:
                feed.begin(con)
        if merged.base is not None:
            feed.record(con, merged.base, merged.since, sorted(merged.touched), merged.watched)
        # DuckDB bound the views when they were made (`catalog`), for this file or for one that it is a copy of.
        bound = {checks.READABLE}
        findings = checks.examine(con, rollbook.lake, days, merged.since, merged.unchanged, skip=bound)
        if broken := [sentence for sentences in findings.values() for sentence in sentences]:
            raise CheckError(f"{'; '.join(broken)}. Nothing was published; run `rollbook rebuild`", findings)
