"""The stages of a night. The signature of each lists what it reads; its result is what the next one is given."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from rollbook.errors import CheckError, ContractChangedError, HeldError, RollbookError
from rollbook.flatten import rows
from rollbook.ingest import Flattened, Ingested, StagingWriter, started_early
from rollbook.landing.manifest import Approval, Details, Manifest, TableCounts, Verdict
from rollbook.landing.own import Own
from rollbook.night import policy
from rollbook.night.landings import Compared, Composed, Uncounted, refused_since
from rollbook.night.listeners import Listeners
from rollbook.night.place import Clock, Place, Rules, quiet
from rollbook.source.fetch import Draft, FetchPlan, fetch, utc_now
from rollbook.source.pagination import Progress
from rollbook.store import checks, ops
from rollbook.store.database import transaction
from rollbook.store.history.engine import History
from rollbook.store.lake import DayRecord, Lake, StagedLake
from rollbook.util import files
from rollbook.util.text import listed
from rollbook.views import additions, catalog, editable

if TYPE_CHECKING:  # a night is given its settings and does not read any
    from rollbook.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LandingPlan:
    """What to land: the `fetch`, or the landing that is used again, and the school's `own` lists; `recorded` is the
    highest number that a landing of the day had. `merging`: the day is merged ahead, too.
    """

    day: date
    fetch: FetchPlan
    own: Own | None = None
    reusable: Manifest | None = None
    recorded: int = 0
    merging: bool = True


@dataclass(frozen=True)
class Merged:
    """The next file, brought up to the lake: the changes per current table, and what `publish` need not check again.

    `since` is the first day that the merge changed (None: everything), `unchanged` the tables that no change touched.
    Against the file `base`, only the `touched` tables may differ; None if no table can be compared with that file.
    `found` has what features found there ahead, by feature.
    """

    counts: tuple[TableCounts, ...]
    since: date | None = None
    unchanged: frozenset[str] = frozenset()
    base: Path | None = None
    touched: frozenset[str] = frozenset()
    found: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Ahead:
    """What was made while the service was still asked: the landing's day, composed and compared; what features
    `found` in the published file; and the next file, `merged` with the day of this `digest`. What a search disproves is
    made again.
    """

    compared: Compared
    found: Mapping[str, object] = field(default_factory=dict)
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


def plan(
    place: Place,
    day: date | None,
    rules: Rules,
    now: datetime,
    *,
    blocked: RollbookError | None = None,
    known: Iterable[int] = (),
    reuse: bool = True,
    build: Path | None = None,
) -> LandingPlan:
    """Plan the landing of a day (default: today). With recovery's error as `blocked`, nothing is compared. `known` are
    the numbers of the day's landings that a copy elsewhere knows. A proven landing from minutes ago may be planned to
    be used again (`reuse`). `build` is the folder to work in (default: the warehouse's).

    Raises ArgumentError for a day that is not a partition, and DamagedError where the erasures are older than the
    landings.
    """
    day, newest, bound_to = place.partition(day, rules, now), place.newest(), place.bound_to()
    later = (m for later in place.raw.days() if later > day for m in place.raw.readable(later))
    policy.check_order(day, later, now)
    place.raw.erasure_register.check(newest.erasures if newest else 0)
    minutes, own = rules.cache_minutes if reuse and blocked is None else 0, place.own()
    return LandingPlan(
        day,
        FetchPlan(
            day=day,
            bound_to=bound_to,
            newest=newest,
            hidden=place.landings.hidden(),
            uncounted=Uncounted(place.raw, bound_to, (build or place.warehouse.build) / "stage"),
            deferred=blocked.message if blocked else "",
        ),
        own,
        place.landings.reusable(day, now, minutes, own) if minutes else None,
        max((*known, *(number for on, number in place.recovery.recorded() if on == day)), default=0),
        merging=blocked is None and build is None,
    )


def land(
    place: Place,
    planned: LandingPlan,
    settings: Settings,
    *,
    details: Details = Details.none,
    clock: Clock = utc_now,
    progress: Progress = quiet,
) -> Landed:
    """Fetch everything once and land it; or check the key and return the landing that is used again. The day of a
    large landing is composed, compared and merged while its vanished records are searched for.

    Raises the client's errors, OtherInstitutionError, NothingLandedError, and SettingError without an address or a key.
    """
    settings.check_source()
    settings.warn_of_misspelt()
    newest = planned.fetch.newest
    records = max((walk.total_count for walk in (newest.walks if newest else ())), default=0)
    # The block waits for the threads, which write in the build folder.
    with started_early(records) as process, _joined(ThreadPoolExecutor(2, thread_name_prefix="ahead")) as threads:
        ahead, searched = list[Future[Ahead | None]](), Event()

        def walks_over(walked: Callable[[], Ingested]) -> None:
            ahead.append(threads.submit(_ahead, place, walked, searched if planned.merging else None))

        if place.recovery.published_file() is None:  # the empty file that `merge` fills
            threads.submit(catalog.prepared, place.warehouse.declared)  # an error comes again in `merge`
        rows.load()  # now, not between the first answer and the publish
        compares = not planned.fetch.deferred
        chosen = partial(_students_to_detail, place, details, clock() - timedelta(minutes=settings.cache_minutes))
        try:
            ingested = fetch(
                settings,
                partial(
                    StagingWriter,
                    place.raw,
                    place.composer.aside,
                    recorded=planned.recorded,
                    own=planned.own,
                    process=process,
                    walks_over=walks_over,
                ),
                planned.fetch,
                place.warehouse if compares else None,
                reusable=None if planned.reusable is None else Ingested(planned.reusable),
                choose_details=chosen if compares and details != "none" else None,
                clock=clock,
                progress=progress,
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


def _ahead(place: Place, walked: Callable[[], Ingested], searched: Event | None) -> Ahead | None:
    """Compose and compare the day that the walks brought; go on with the merge until the service is `searched` (None:
    do not merge). None for a day of several landings, and where anything fails: a lasting error comes again later.
    """
    try:
        # While the other process still flattens what came last.
        found = _found(place) if searched is not None else {}
        compared = place.composer.compared_ahead(walked)
        if compared is None:
            return None
        days = place.lake.days(sized=False)
        if searched is None or searched.is_set() or compared.composed.candidate.day < max(days, default=date.min):
            return Ahead(compared, found)  # the day is decided by a merge, or the merge is due
        record, merged = merge_beside(place, compared.composed, place.landings.discarded_days())
        return Ahead(compared, found, record.digest, merged)
    except Exception as error:  # noqa: BLE001 - only time is lost
        log.info("The day was not made ahead (%s)", type(error).__name__)
        with suppress(OSError):
            place.warehouse.drop_next()
        return None


def _found(place: Place) -> dict[str, object]:
    with place.warehouse.reading() as con:
        return additions.look(con, place.additions) if place.warehouse.published_file.is_file() else {}


def _students_to_detail(place: Place, details: Details, since: datetime, draft: Draft) -> list[int]:
    """Return the students whose details to fetch: all or the changed, without the erased and those fetched since."""
    students = sorted(draft.ids["students"]) if details == "all" else place.composer.changed_students(draft)
    fetched = place.landings.details_since(draft.manifest.snapshot_date, since)
    erased = place.raw.erasure_register.matcher()
    return [student for student in students if student not in fetched and student not in erased]


def snapshot(
    place: Place, landed: Landed, rules: Rules, now: datetime, approval: Approval | None = None
) -> tuple[Manifest, DayRecord]:
    """Flatten a landing, compose its day, decide on it once, and move the day into the lake if it counts.

    Raises ContractChangedError (verdict failed) and HeldError (verdict held); both leave the lake alone.
    """
    manifest = landed.manifest
    if manifest.counts_for_its_day and approval is None:  # the verdict was given, and `recover` has made the snapshot
        return manifest, place.lake.days()[manifest.snapshot_date]
    flattened = landed.flattened or place.composer.flatten(manifest)
    record = partial(
        place.raw.record_verdict,
        rejected=flattened.rejected(),
        drift=flattened.drift,
        oddities=flattened.oddities,
        at=now,
    )
    place.raw.keep_rejects(manifest, flattened.rejects)
    try:
        evaluation = evaluate(place, replace(landed, flattened=flattened), rules, approval)
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
            f" `{rules.command(f'sync --date {manifest.snapshot_date} --approve')}` (in the UI: the job"
            f' `approve_held` with `held: ["{manifest.hold_digest}"]`); else ask the service\'s representative',
            decision.hold,
        )
    if begun := policy.restarted(decision.counts):
        log.info("Most totals begin again in %s, as at the start of a term: that holds nothing", listed(begun))
    manifest = record(manifest, decision.verdict, decision.reason, counts=decision.counts, approval=approval)
    return manifest, place.composer.commit(evaluation.composed)


def evaluate(place: Place, landed: Landed, limits: policy.HoldLimits, approval: Approval | None = None) -> Evaluation:
    """Compose a landing's day and decide on it; writes only in `build/`. Raises ContractChangedError."""
    manifest, flattened = landed.manifest, landed.flattened or place.composer.flatten(landed.manifest)
    if refused := refused_since(manifest, flattened):
        raise ContractChangedError(
            f"{refused}. The service no longer says what its contract says: ask its representative what changed;"
            " nothing was merged"
        )
    day = manifest.snapshot_date
    others = [m for m in place.landings.counted(day) if m.landing != manifest.landing]
    counting = approval.applied_to(manifest) if approval else manifest
    manifests = sorted([*others, counting], key=lambda m: m.landing)
    compared = place.composer.evaluate(manifests, flattened, landed.ahead.compared if landed.ahead else None)
    composed, counts = compared.composed, compared.counts
    since_before = None
    if day < max(place.lake.days(sized=False), default=day):
        counts = _counts_once_merged(place, composed)
    elif others and min(place.warehouse.merged_days(), default=day) < day:
        since_before = place.composer.changes_of_day(composed, policy.seen(manifest, others))
    decision = policy.decide(manifest, counts, limits, since_before=since_before, approve=approval is not None)
    return Evaluation(flattened, composed, decision)


def _counts_once_merged(place: Place, composed: Composed) -> tuple[TableCounts, ...]:
    """The changes that a day before the newest day makes for readers: only a merge shows what later days leave.

    Requires the writer lock, or a private build folder. The lake stays unchanged.
    """
    merge_beside(place, composed)
    counts = place.recovery.rows_lost()
    place.warehouse.drop_next()
    return counts


def merge_beside(place: Place, composed: Composed, without: Set[date] = frozenset()) -> tuple[DayRecord, Merged]:
    """Bring the next file up to the lake with a composed day, and without some days; the lake stays unchanged."""
    staged = StagedLake(place.lake, place.warehouse.staged_lake)
    record = place.composer.copy(composed, staged)
    merged = merge_into(place, place.recovery.published_file(), lake=staged, without=without)
    files.empty(staged.root)
    return record, merged


def merge(
    place: Place,
    *,
    full_refresh: bool = False,
    lake: Lake | None = None,
    ahead: Ahead | None = None,
    digest: str = "",
    stays_open: bool = False,
) -> Merged:
    """Bring the next file up to the `lake` (default: the warehouse's): current tables, history, changes. The file
    `stays_open` for `publish`.

    `full_refresh` folds the whole lake into an empty file; raises ExpiredError if days would be lost. A file that was
    merged `ahead` stands if the day then had this `digest`.
    """
    if full_refresh:
        place.recovery.refuse_to_lose()
    base = None if full_refresh else place.recovery.published_file()
    merged = ahead.merged if ahead and ahead.digest == digest and not full_refresh else None
    merged = merged or merge_into(place, base, lake=lake, full_refresh=full_refresh, stays_open=stays_open)
    return replace(merged, found=ahead.found if ahead else {})


def merge_into(
    place: Place,
    base: Path | None,
    *,
    lake: Lake | None = None,
    without: Set[date] | None = None,
    full_refresh: bool = False,
    stays_open: bool = False,
) -> Merged:
    """Bring a copy of the file `base`, or an empty file, up to the `lake` (default: the warehouse's), without
    some days (default: the discarded ones): current tables, history, changes. The file `stays_open` for `publish`.
    """
    without = place.landings.discarded_days() if without is None else without
    since, unchanged = None, frozenset[str]()
    empty = b"" if base else catalog.prepared(place.warehouse.declared)
    with place.warehouse.writing(base, empty, stays_open=stays_open) as (con, changed):
        redeclared = bool(changed - {"ops"})
        history = History(con, lake or place.lake)
        forgotten = without & history.merged_days().keys()
        counts = history.forget(forgotten)
        if full_refresh or (redeclared and not history.has_expired_days):
            counts = history.rebuild()
        elif redeclared:
            place.recovery.refuse_retracked(base)
            # Expired days cannot be rebuilt from the lake; the days still there are merged again for new columns.
            counts = [*history.refold(), *history.catch_up(history.records)] or counts
        else:
            behind = history.behind()
            counts = history.catch_up(behind) or counts
            if behind and base and not forgotten:
                since, unchanged = min(behind), history.unchanged
    return Merged(tuple(counts), since, unchanged, None if changed else base, history.touched)


def publish(place: Place, merged: Merged, rules: Rules, listeners: Listeners, now: datetime) -> None:
    """Check the next file and swap the file in; then expire the days that ROLLBOOK_KEEP_DAYS does not keep.

    Raises CheckError, and SettingError for a malformed thresholds.csv or terms.csv. The published file then stays
    in place.
    """
    keep = rules.keep_days
    shown_from = place.recovery.kept_from(keep) if keep else None
    _prepare(place, merged, shown_from, now)
    listeners.tell(lambda listener: listener.before_publish(place.warehouse.next, now))
    place.warehouse.swap()
    if shown_from is not None:
        place.warehouse.expire_rejects(shown_from)
    listeners.tell(lambda listener: listener.on_published(now))
    place.recovery.expire(place.recovery.expirable(keep))


def _prepare(place: Place, merged: Merged, shown_from: date | None, now: datetime) -> None:
    """Fill the next file with the record of the syncs, the institution's own CSV files and the views, and check it.

    The views show the lake from the day `shown_from` on (None: the whole lake).
    """
    root, mode, days = place.warehouse.root, place.warehouse.mode, place.lake.days()
    editable.ensure(root, mode)
    with place.warehouse.finishing(published=merged.base) as con:
        ops.record(con, place.raw, full_refresh=merged.base is None)
        with transaction(con):  # a few hundred comments would else be written one by one
            thresholds = editable.read_thresholds(root / editable.THRESHOLDS)
            editable.fill(con, thresholds, editable.read_terms(root / editable.TERMS))
            if shown_from is not None:
                ops.expire_rejects(con, shown_from)
            shown = [r for d, r in days.items() if shown_from is None or d >= shown_from]
            version = ops.stamp(con, now)
            catalog.create(con, place.lake, shown, version)
        how = merged.base, merged.since, merged.touched, merged.found, place.raw
        additions.fill(con, place.additions, additions.NextFile(version, place.lake.declared, *how))
        # DuckDB bound the views when they were made (`catalog`), for this file or for one that it is a copy of.
        bound = {checks.READABLE}
        findings = checks.examine(con, place.lake, days, merged.since, merged.unchanged, skip=bound)
        if broken := [sentence for sentences in findings.values() for sentence in sentences]:
            raise CheckError(f"{'; '.join(broken)}. Nothing was published; run `rollbook rebuild`", findings)
