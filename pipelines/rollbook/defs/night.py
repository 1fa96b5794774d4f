"""One institution's stages in a run, each with the materializations of its assets for the days that it made."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

import dagster as dg
from pydantic import Field

from rollbook.defs.launches import RunCoordinator
from rollbook.defs.partitions import BY_HAND, BY_TAG, NIGHTLY, PUBLISHED, SYNC_TAG
from rollbook.errors import ArgumentError, NothingLandedError, RollbookError
from rollbook.landing.manifest import PARTS, Approval, Details, Manifest, TableCounts
from rollbook.night import past
from rollbook.night.past import Backfilled, always, skipped_days, within_hold
from rollbook.night.rollbook import Rollbook
from rollbook.night.stages import land, merge, publish, snapshot
from rollbook.night.writing import fetching
from rollbook.operations import approvals
from rollbook.outputs.report import FILE
from rollbook.source.pagination import Progress
from rollbook.store.lake import DayRecord
from rollbook.tables import SETS, TABLES

# The days that a backfill skipped, and why; shown on the backfill's page, tab Runs.
SKIPPED_TAG = "rollbook/skipped"

# Called for each fetched page. The command line sets it: it runs the job in its own process.
progress: Progress | None = None
# The person who runs the command, which runs the job in its own process; empty in a run that was launched in the UI.
person = ""
NO_LOGIN = "the UI, no login"
Part = StrEnum("Part", {part: part for part in PARTS})  # type: ignore[misc] # names that mypy cannot read

Metadata = Mapping[str, Any]
Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
Events = Iterator[Event]
T = TypeVar("T")


class Options(dg.Config):
    """An operator's options for one run, as the launchpad shows them."""

    approve: list[str] = Field(
        default=[],
        description="Merge what this day's sync held, without fetching again: the digest that the held run shows. Look "
        "at its table of counts first. Another landing, or one that would change something else, is refused.",
    )
    confirm: bool = Field(
        default=False,
        description="In a backfill: publish even if a table would lose more rows than the hold allows.",
    )
    only: list[Part] = Field(
        default=[],
        description="With approve: merge only these parts of what was held, and keep the rest held. Of "
        f"{', '.join(PARTS)}: who is no longer listed, and what the listed records state.",
    )
    reason: str = Field(
        default="", description="With approve: why; kept with the landing, and shown by `rollbook why`. No names."
    )
    details: Details = Field(
        default=Details.none,
        description="Fetch /v1/student/<id> too, one request per student: for none, for those who changed, for all.",
    )
    fresh: bool = Field(
        default=False,
        description="Fetch even if this day was synced within ROLLBOOK_CACHE_MINUTES. Otherwise only the key is "
        "checked, and what was fetched then is used. The nightly run always fetches.",
    )
    force: bool = Field(
        default=False,
        description="Compute all tables and the whole history again from the daily snapshots (a full refresh), instead "
        "of merging only what changed. Repairs what a failed check found in the published file. Takes longer; the "
        "result is the same if nothing was wrong.",
    )


def stages(
    context: dg.AssetExecutionContext, options: Options, rollbook: Rollbook, days: Sequence[date], *, is_sync: bool
) -> Events:
    """Land, snapshot, merge and publish: one day that is fetched or approved, or the landed days of a backfill.

    Raises RollbookError; events that were yielded before the error stay valid. The history, and the snapshots of a
    backfill, are made once they are published.
    """
    started = time.monotonic()
    with fetching(rollbook) as blocked:
        if is_sync:
            mark_as_sync(context)
        landed, approvals = _landed(context, options, rollbook, days, is_sync=is_sync, blocked=blocked)
        decides, at_last = is_sync or bool(approvals), list[Event]()
        if not decides:
            yield from _skipped(context, past.backfilled(rollbook, days, {}), len(days))
        raw = [made(context, each, ["raw", name], _landing(m, name)) for each, m in landed.items() for name in SETS]
        staged = None
        if decides:
            work = partial(_snapshots, rollbook, landed, approvals)
            decided = yield from _meanwhile(work, raw)
            composed = {manifest.snapshot_date: record for manifest, record in decided}
            for reason in (manifest.reason for manifest, _ in decided if manifest.reason):
                context.log.warning(reason)
        else:
            done, staged = yield from _meanwhile(partial(past.resnapshot, rollbook, days), raw)
            composed = done.rebuilt
            for each, held in done.held.items():
                context.log.warning("%s: landing %s is held and was skipped", each, ", ".join(map(str, held)))
        snapshots = [
            made(
                context,
                each,
                ["snapshots", name],
                {"dagster/partition_row_count": r.rows.get(name, 0), "landings": ", ".join(map(str, r.landings))},
            )
            for each, r in composed.items()
            for name in TABLES
        ]
        if staged is None:
            merged = yield from _meanwhile(partial(merge, rollbook, full_refresh=options.force), snapshots)
            publish(rollbook, merged)
            changed = merged.counts
        else:
            confirm = always if options.confirm else within_hold
            changed = past.publish_staged(rollbook, staged, confirm=confirm, full_refresh=options.force)
            at_last += snapshots
    yield from at_last
    counts = {c.table: _history(c) for c in changed}
    for each in composed:
        yield from (made(context, each, ["history", name], counts.get(name, {})) for name in TABLES)
    shared: Metadata = {
        "path": dg.MetadataValue.path(rollbook.warehouse.published),
        "bytes": rollbook.warehouse.published.stat().st_size,
        "morning page": dg.MetadataValue.url(f"/{FILE}"),
        "seconds": round(time.monotonic() - started, 3),
    }
    for each in composed:
        yield made(context, each, PUBLISHED.path, shared)
    rollbook.check_listeners()


def _landed(
    context: dg.AssetExecutionContext,
    options: Options,
    rollbook: Rollbook,
    days: Sequence[date],
    *,
    is_sync: bool,
    blocked: RollbookError | None,
) -> tuple[dict[date, Manifest], dict[date, Approval]]:
    """The landings that a run is about, by day: approved, fetched now, or landed before; and the approvals."""
    fetches = is_sync and not options.approve
    if blocked is not None and not fetches:
        raise blocked
    if options.only and not options.approve:
        raise ArgumentError("only says what of a held sync is approved: add approve (--approve)")
    if options.approve:
        held = {m.snapshot_date: m for m in approvals.held_as_shown(rollbook, options.approve, days)}
        by = person or _asked_by(context)
        return held, {day: approvals.approval(rollbook, m, options.only, options.reason, by) for day, m in held.items()}
    if fetches:
        fresh = options.fresh or context.run.tags.get(SYNC_TAG) == NIGHTLY
        return {days[0]: land(rollbook, days[0], details=options.details, fresh=fresh, blocked=blocked)}, {}
    return {day: counted[-1] for day in days if (counted := rollbook.landings.counted(day))}, {}


def _asked_by(context: dg.AssetExecutionContext) -> str:
    """The account that launched a run in the UI, if known: our own queue says so; a launch itself may say anything."""
    is_known = isinstance(context.instance.run_coordinator, RunCoordinator)
    return (context.run.tags.get(BY_TAG) if is_known else "") or NO_LOGIN


def _snapshots(
    rollbook: Rollbook, landed: Mapping[date, Manifest], approvals: Mapping[date, Approval]
) -> list[tuple[Manifest, DayRecord]]:
    """Decide on each landing, in the order of their days."""
    return [snapshot(rollbook, manifest, approvals.get(day)) for day, manifest in landed.items()]


def _meanwhile(work: Callable[[], T], events: Iterable[Event]) -> Generator[Event, None, T]:
    """Yield events while the next stage works: Dagster records one in 15 ms, for which no reader should wait."""
    with ThreadPoolExecutor(max_workers=1) as second:
        working = second.submit(work)
        yield from events
        return working.result()


def mark_as_sync(context: dg.AssetExecutionContext) -> None:
    """Mark the run as a sync, however it was started: the sensors report runs by this tag."""
    context.instance.add_run_tags(context.run.run_id, {SYNC_TAG: context.run.tags.get(SYNC_TAG, BY_HAND)})


def made(
    context: dg.AssetExecutionContext, day: date, key: Sequence[str], metadata: Metadata
) -> dg.AssetMaterialization:
    """Say that a day of an asset was made, by which declarations: after a change, the UI marks the days made before.

    The tags are those that Dagster itself gives what a step returns, which a run over several days cannot use: it would
    mark all its days. No day is outdated by what it was made from, since a run makes all assets.
    """
    spec = context.assets_def.get_asset_spec(dg.AssetKey(key))
    tags = {"dagster/code_version": spec.code_version} if spec.code_version else {}
    for above in (dep.asset_key.to_user_string() for dep in spec.deps):
        tags |= {f"dagster/input_data_version/{above}": "landed", f"dagster/input_event_pointer/{above}": "NULL"}
    return dg.AssetMaterialization(key, partition=str(day), metadata=metadata, tags=tags)


def _skipped(context: dg.AssetExecutionContext, done: Backfilled, number: int) -> Events:
    """Say which days of a backfill are skipped, and why: in its run's log and tags, and on each asset.

    Dagster has no status for a skipped day. On an asset's page such a day stays "missing"; the UI's backfill page
    counts it, and the whole backfill, as failed. The run succeeds, since it published all there was: a failed run
    would leave the day red on every asset's page. A partitions definition without these days would not help: it is
    fixed when the code is loaded, while days are landed, held and discarded at any time, and today has no landing
    before tonight.
    """
    if done.skipped or SKIPPED_TAG in context.run.tags:  # a re-executed run starts with the tags of the first run
        context.instance.add_run_tags(context.run.run_id, {SKIPPED_TAG: skipped_days(done.why, number)})
    for day, reason in done.skipped.items():
        context.log.warning(reason)
        for spec in context.assets_def.specs:
            yield dg.AssetObservation(spec.key, partition=str(day), metadata={"skipped": reason})
    if len(done.skipped) == number:
        raise NothingLandedError("; ".join(done.skipped.values()), list(done.skipped))


def _landing(manifest: Manifest, name: str) -> Metadata:
    metadata: dict[str, Any] = {
        "landing": manifest.landing,
        "requests": manifest.requests,
        "retries": manifest.retries,
        "bytes": manifest.bytes_received,
        "seconds": (manifest.finished_at - manifest.started_at).total_seconds(),
    }
    if (walk := manifest.walk(name)) is not None:
        metadata |= {
            "dagster/partition_row_count": walk.records,
            "walks": walk.walks,
            "repeated": walk.repeated,
            "proven": manifest.proof(name) is not None,
            "verified absent": sum(a.set == name and a.answer == "removed" for a in manifest.absences),
            "found_by_search": len(manifest.found(name)),
        }
    return metadata


def _history(c: TableCounts) -> Metadata:
    rows = c.before + c.added - c.removed
    return {"dagster/row_count": rows, "added": c.added, "changed": c.changed, "removed": c.removed}
