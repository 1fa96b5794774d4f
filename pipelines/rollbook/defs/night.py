"""One institution's night in a run, with the materializations of the assets for the days that it made."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum
from typing import Any

import dagster as dg
from pydantic import Field

from rollbook.defs.launches import RunCoordinator
from rollbook.defs.partitions import BY_HAND, BY_TAG, NIGHTLY, PUBLISHED, SYNC_TAG
from rollbook.errors import (
    ArgumentError,
    CheckError,
    ContractChangedError,
    HeldError,
    LostError,
    NothingLandedError,
    RollbookError,
)
from rollbook.landing.manifest import PARTS, Details, Manifest, TableCounts
from rollbook.night import past, sync
from rollbook.night.past import Backfilled, always, skipped_days, within_hold
from rollbook.night.rollbook import Rollbook
from rollbook.operations import approvals
from rollbook.outputs.report import FILE
from rollbook.source.pagination import Progress
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


def run(
    context: dg.AssetExecutionContext, options: Options, rollbook: Rollbook, days: Sequence[date], *, is_sync: bool
) -> Events:
    """Sync a day, approve what is held, or rebuild the landed days; then yield what was made on each day.

    Raises RollbookError, after the events of what was made all the same: a held landing, or a published night.
    """
    started, before = time.monotonic(), rollbook.warehouse.versions.newest()
    if is_sync:
        mark_as_sync(context)
    elif not options.approve:
        yield from _skipped(context, past.backfilled(rollbook, days, {}), len(days))
    counts: Sequence[TableCounts] = ()
    failure: RollbookError | None = None
    try:
        counts = _work(context, options, rollbook, days, is_sync=is_sync)
    except RollbookError as error:
        failure = error
    is_late = isinstance(failure, LostError) and rollbook.warehouse.versions.newest() != before
    if failure is None or is_late:  # a listener may find a loss once readers have the night
        yield from _published(context, rollbook, days, counts, time.monotonic() - started)
    elif isinstance(failure, CheckError):  # landed and composed, but not published
        yield from _composed(context, rollbook, _counted(rollbook, days))
    elif isinstance(failure, (HeldError, ContractChangedError)) and is_sync:
        yield from _raw(context, {days[0]: rollbook.raw.manifests(days[0])[-1]})
    if failure is not None:
        raise failure


def _work(
    context: dg.AssetExecutionContext, options: Options, rollbook: Rollbook, days: Sequence[date], *, is_sync: bool
) -> Sequence[TableCounts]:
    """Approve, sync or backfill; returns the changes per current table. Raises RollbookError."""
    if options.only and not options.approve:
        raise ArgumentError("only says what of a held sync is approved: add approve (--approve)")
    if options.approve:
        return approvals.approve(
            rollbook,
            options.approve,
            days=days,
            only=options.only,
            reason=options.reason,
            by=person or _asked_by(context),
            full_refresh=options.force,
        ).counts
    if is_sync:
        fresh = options.fresh or context.run.tags.get(SYNC_TAG) == NIGHTLY
        return sync(rollbook, days[0], details=options.details, fresh=fresh, full_refresh=options.force).counts
    confirm = always if options.confirm else within_hold
    done = past.backfill_days(rollbook, days, confirm=confirm, full_refresh=options.force)
    for day, held in done.held.items():
        context.log.warning("%s: landing %s is held and was skipped", day, ", ".join(map(str, held)))
    return done.counts


def _published(
    context: dg.AssetExecutionContext,
    rollbook: Rollbook,
    days: Sequence[date],
    counts: Sequence[TableCounts],
    seconds: float,
) -> Events:
    """Each asset of each day that counts, once readers have them."""
    landed = _counted(rollbook, days)
    for reason in (manifest.reason for manifest in landed.values() if manifest.reason):
        context.log.warning(reason)
    yield from _composed(context, rollbook, landed)
    changed = {c.table: _history(c) for c in counts}
    shared: Metadata = {
        "path": dg.MetadataValue.path(rollbook.warehouse.published_file),
        "bytes": rollbook.warehouse.published_file.stat().st_size,
        "morning page": dg.MetadataValue.url(f"/{FILE}"),
        "seconds": round(seconds, 3),
    }
    for day in landed:
        for name in TABLES:
            yield made(context, day, ["history", name], changed.get(name, {}))
        yield made(context, day, PUBLISHED.path, shared)


def _counted(rollbook: Rollbook, days: Sequence[date]) -> dict[date, Manifest]:
    """The last counted landing of each day that has one."""
    return {day: counted[-1] for day in days if (counted := rollbook.landings.counted(day))}


def _composed(context: dg.AssetExecutionContext, rollbook: Rollbook, landed: Mapping[date, Manifest]) -> Events:
    """Each landed set and each table's snapshot of each day."""
    yield from _raw(context, landed)
    records = rollbook.lake.days()
    for day, record in ((day, records[day]) for day in landed):
        landings = ", ".join(map(str, record.landings))
        for name in TABLES:
            metadata = {"dagster/partition_row_count": record.rows.get(name, 0), "landings": landings}
            yield made(context, day, ["snapshots", name], metadata)


def _raw(context: dg.AssetExecutionContext, landed: Mapping[date, Manifest]) -> Events:
    """Each landed set of each day."""
    for day, manifest in landed.items():
        for name in SETS:
            yield made(context, day, ["raw", name], _landing(manifest, name))


def _asked_by(context: dg.AssetExecutionContext) -> str:
    """The account that launched a run in the UI, if known: our own queue says so; a launch itself may say anything."""
    is_known = isinstance(context.instance.run_coordinator, RunCoordinator)
    return (context.run.tags.get(BY_TAG) if is_known else "") or NO_LOGIN


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
