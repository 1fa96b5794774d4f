"""The work of a run for one institution: sync a day, or rebuild landed days; and the events that record it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import dagster as dg
from pydantic import Field

from rollbook.defs import events, runs
from rollbook.defs.events import Event
from rollbook.defs.partitions import BY_HAND, NIGHTLY, SYNC_TAG
from rollbook.defs.resources import School
from rollbook.errors import RollbookError
from rollbook.landing.manifest import Details
from rollbook.night import past, sync
from rollbook.night.past import always, within_hold
from rollbook.night.writing import Writer


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


@dataclass(frozen=True)
class Outcome:
    """What a run records, and the error that ends it, with metadata that the UI shows with it."""

    events: Sequence[Event] = ()
    error: RollbookError | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


def do(
    context: dg.AssetExecutionContext,
    options: Options,
    school: School,
    writer: Writer,
    days: Sequence[date],
    *,
    is_sync: bool,
) -> Outcome:
    """Sync a day, or rebuild the landed days; returns what was made of each day.

    A night that failed may have made something, too: a landing that is held, or a file that was published before.
    """
    try:
        done = _sync(context, options, writer, days[0]) if is_sync else _backfill(context, options, writer, days)
    except RollbookError as error:
        unmarked = events.unmarked(context.instance, school, events.marks(writer.place, days))
        held = writer.place.landings.held(days[0]) if runs.is_held(error) else None
        notes = [events.hold_note(school, held)] if held is not None else []
        return Outcome([*events.made(school, writer.place, unmarked), *notes], error)
    return Outcome([*events.made(school, writer.place, dict.fromkeys(done, events.GROUPS))])


def _sync(context: dg.AssetExecutionContext, options: Options, writer: Writer, day: date) -> Sequence[date]:
    """Fetch a day and publish it; returns the day. Raises RollbookError."""
    mark_as_sync(context)
    fresh = options.fresh or context.run.tags.get(SYNC_TAG) == NIGHTLY
    done = sync(writer, day, details=options.details, fresh=fresh, full_refresh=options.force)
    if done.manifest.reason:
        context.log.warning(done.manifest.reason)
    context.log.info(runs.removal(done.counts))
    return [day]


def _backfill(
    context: dg.AssetExecutionContext, options: Options, writer: Writer, days: Sequence[date]
) -> Sequence[date]:
    """Rebuild landed days; returns those that were rebuilt. Raises RollbookError."""
    confirm = always if options.confirm else within_hold
    done = past.backfill_days(writer, days, confirm=confirm, full_refresh=options.force)
    for day, held in done.held.items():
        context.log.warning("%s: landing %s is held and was skipped", day, ", ".join(map(str, held)))
    for reason in done.skipped.values():
        context.log.warning(reason)
    return [*done.rebuilt]


def results(
    context: dg.AssetExecutionContext, recorded: Iterable[Event]
) -> Iterator[Event | dg.MaterializeResult[None] | dg.AssetCheckResult]:
    """Yield what a run records: of what it was to make, as results, else Dagster says that the outputs are missing.

    With several partitions, materializations are events, because a result applies to all partitions.
    """
    for event in recorded:
        if isinstance(event, dg.AssetCheckEvaluation) and event.asset_check_key in context.selected_asset_check_keys:
            yield dg.AssetCheckResult(
                asset_key=event.asset_key,
                check_name=event.check_name,
                passed=event.passed,
                severity=event.severity,
                metadata=event.metadata,
            )
        elif (
            isinstance(event, dg.AssetMaterialization)
            and context.has_partition_key
            and event.asset_key in context.selected_asset_keys
        ):
            yield dg.MaterializeResult(asset_key=event.asset_key, metadata=event.metadata, tags=event.tags)
        else:
            yield event


def mark_as_sync(context: dg.AssetExecutionContext) -> None:
    """Mark the run as a sync, however it was started: a killed sync is reported, and a killed backfill is not."""
    context.instance.add_run_tags(context.run.run_id, {SYNC_TAG: context.run.tags.get(SYNC_TAG, BY_HAND)})
