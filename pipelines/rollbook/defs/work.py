"""The work of a run for one institution: sync a day, or rebuild landed days; and the events of what was made."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

import dagster as dg
from pydantic import Field

from rollbook.defs import runs
from rollbook.defs.facts import hold_note, made, unmarked
from rollbook.defs.partitions import BY_HAND, NIGHTLY, SYNC_TAG
from rollbook.defs.school import School
from rollbook.errors import RollbookError
from rollbook.landing.manifest import Details
from rollbook.night import past, sync
from rollbook.night.past import always, within_hold
from rollbook.opened import Rollbook

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
Events = Iterator[Event | dg.MaterializeResult[None]]


class Options(dg.Config):
    """An operator's options for one run, as the launchpad shows them."""

    confirm: bool = Field(
        default=False,
        description="In a backfill: publish even if a table would lose more rows than the hold allows.",
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
    context: dg.AssetExecutionContext,
    options: Options,
    school: School,
    rollbook: Rollbook,
    days: Sequence[date],
    *,
    is_sync: bool,
) -> Events:
    """Sync a day, or rebuild the landed days; then yield what was made of each day.

    Raises RollbookError, after the events of what was made all the same: a held landing, or a published night.
    """
    if is_sync:
        mark_as_sync(context)
    try:
        done = _work(context, options, rollbook, days, is_sync=is_sync)
    except RollbookError as error:
        for day, groups in unmarked(context.instance, school, rollbook, days).items():
            yield from outputs(context, made(school, rollbook, [day], groups))
        if runs.is_held(error) and (held := rollbook.landings.held(days[0])) is not None:
            yield hold_note(school, held)
        raise
    yield from outputs(context, made(school, rollbook, done))


def _work(
    context: dg.AssetExecutionContext, options: Options, rollbook: Rollbook, days: Sequence[date], *, is_sync: bool
) -> list[date]:
    """Sync or backfill; returns the days that were made. Raises RollbookError."""
    if is_sync:
        fresh = options.fresh or context.run.tags.get(SYNC_TAG) == NIGHTLY
        done = sync(rollbook.writer(), days[0], details=options.details, fresh=fresh, full_refresh=options.force)
        if done.manifest.reason:
            context.log.warning(done.manifest.reason)
    else:
        confirm = always if options.confirm else within_hold
        rebuilt = past.backfill_days(rollbook.writer(), days, confirm=confirm, full_refresh=options.force)
        for day, held in rebuilt.held.items():
            context.log.warning("%s: landing %s is held and was skipped", day, ", ".join(map(str, held)))
        for reason in rebuilt.skipped.values():
            context.log.warning(reason)
        return [*rebuilt.rebuilt]
    return list(days)


def outputs(context: dg.AssetExecutionContext, events: Iterable[dg.AssetMaterialization]) -> Events:
    """Yield a run's events: as its outputs where it has one day. The outputs of several days would be one for all."""
    for event in events:
        if context.has_partition_key and event.asset_key in context.selected_asset_keys:
            yield dg.MaterializeResult(asset_key=event.asset_key, metadata=event.metadata)
        else:
            yield event


def mark_as_sync(context: dg.AssetExecutionContext) -> None:
    """Mark the run as a sync, however it was started: a killed sync is reported, and a killed backfill is not."""
    context.instance.add_run_tags(context.run.run_id, {SYNC_TAG: context.run.tags.get(SYNC_TAG, BY_HAND)})
