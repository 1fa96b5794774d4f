"""The assets: the two landed sets, each table, the published file; and the step that makes all of them.

One run makes them all, whichever asset an operator picks, so that no snapshot stays unmerged and no history
unpublished. A sync fetches one day. A run over other days (a backfill) rebuilds them from their landings, because the
service keeps no history. The work itself is in `night`, and in `district` for several institutions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime

import dagster as dg
from pydantic import Field

from rollbook.assembly import assemble
from rollbook.defs import checks, partitions, runs
from rollbook.defs.facts import FILE, RAW, TABLE, hold_note, made, unmarked
from rollbook.defs.partitions import BY_HAND, NIGHTLY, SYNC_TAG
from rollbook.defs.school import School
from rollbook.errors import CheckError, RollbookError
from rollbook.landing.manifest import Details
from rollbook.landing.raw import newest_landed
from rollbook.night import past, sync
from rollbook.night.past import always, within_hold
from rollbook.night.rollbook import Rollbook
from rollbook.settings import SourceSettings
from rollbook.tables import TABLES, WALKED, fingerprint
from rollbook.tables import Table as Declared
from rollbook.util.cron import due

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


def specs(school: School, sources: Mapping[str, SourceSettings]) -> Iterator[dg.AssetSpec]:
    """Yield the assets. The published file is stale after the longest time between two nights, and their grace."""
    for name in WALKED:
        says = f"Bodies of {name} as the service sent them, with the manifest that proves them."
        yield dg.AssetSpec(school.key(RAW, name), description=says, group_name=school.named("land"))
    for t in TABLES.values():
        yield dg.AssetSpec(
            school.key(TABLE, t.name),
            deps=[school.key(RAW, name) for name in WALKED if name == t.set],
            description=f"{t.comment} One typed snapshot a day, the current row, and one row per version.",
            metadata={"dagster/column_schema": _columns(t)},
            kinds={"parquet", "duckdb"},
            code_version=fingerprint(),
            group_name=school.named("tables"),
        )
    nights = [due(source.cron) for source in sources.values()]
    yield dg.AssetSpec(
        school.key(*FILE),
        deps=[school.key(TABLE, name) for name in TABLES],
        description="warehouse/rollbook.duckdb, the file that analysts open: checked, then swapped in at once.",
        freshness_policy=dg.FreshnessPolicy.time_window(max(n.gap + n.grace for n in nights)) if nights else None,
        kinds={"duckdb"},
        code_version=fingerprint(),
        group_name=school.named("publish"),
    )


def _columns(t: Declared) -> dg.TableSchema:
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                c.name,
                c.type,
                description=c.comment,
                constraints=dg.TableColumnConstraints(
                    nullable=not c.required and c.name not in t.key,
                    unique=list(t.key) == [c.name],
                    other=["key"] * (c.name in t.key) + ["untracked: never makes a version"] * (not c.tracked),
                ),
            )
            for c in t.columns
        ]
    )


def assets(school: School, sources: Mapping[str, SourceSettings]) -> dg.AssetsDefinition:
    """Return all assets, which one step makes together."""

    @dg.multi_asset(
        name=school.named("sync"),
        specs=[spec.replace_attributes(owners=["team:school-it"]) for spec in specs(school, sources)],
        check_specs=[*checks.check_specs(school)],
        partitions_def=partitions.days(school, sources),
        backfill_policy=dg.BackfillPolicy.single_run(),
        # A run makes all assets, whichever it was launched from. Without this, the UI would each time ask to confirm
        # the others. It also makes every output optional: a held night marks what was landed, and no more.
        can_subset=True,
        required_resource_keys={school.named("rollbook")},
    )
    def sync_all(context: dg.AssetExecutionContext, config: Options) -> Events:
        """Land, snapshot, merge and publish: a day that is fetched, or the landed days of a backfill."""
        runs.mark_as_mine(context.instance, context.run.run_id)
        # Checks can be executed alone, too, and they have no days.
        has_days = context.has_partition_key or context.has_partition_key_range
        days = [date.fromisoformat(key) for key in context.partition_keys] if has_days else []
        try:
            if (registry := school.registry()) is None:
                yield from _school(context, config, school, days)
            else:
                from rollbook.defs import district  # a single school needs none of it

                yield from district.work(context, config, school, days, registry)
        except RollbookError as error:
            runs.end(context, error)
        try:
            if not school.given:  # else the instance belongs to others, too
                runs.delete_old_runs(context.instance, newest_landed(*school.warehouses()))
        except Exception as error:  # noqa: BLE001 - it must not fail a sync; the next night tries again
            context.log.warning("Dagster's old runs could not be deleted (%s)", type(error).__name__)

    return sync_all


def _school(context: dg.AssetExecutionContext, options: Options, school: School, days: Sequence[date]) -> Events:
    """Do a single school's work, then check the published file, also after a failure."""
    rollbook = assemble(school.settings(getattr(context.resources, school.named("rollbook")).folder))
    today = {datetime.now(rollbook.settings.zone).date()}
    is_sync = partitions.is_sync(context.run.tags, days, today)
    failure: RollbookError | None = None
    try:
        if context.selected_asset_keys:
            yield from run(context, options, school, rollbook, days, is_sync=is_sync)
    except RollbookError as error:
        failure = error
    broken = failure.findings if isinstance(failure, CheckError) else {}
    # Dagster shows a check without a result as failed, so check the file that readers still have.
    with suppress(RollbookError, OSError):
        yield from checks.results(school, {"": checks.look(rollbook, broken)})
    if failure is not None:
        raise failure


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
        done = sync(rollbook, days[0], details=options.details, fresh=fresh, full_refresh=options.force)
        if done.manifest.reason:
            context.log.warning(done.manifest.reason)
    else:
        confirm = always if options.confirm else within_hold
        rebuilt = past.backfill_days(rollbook, days, confirm=confirm, full_refresh=options.force)
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
