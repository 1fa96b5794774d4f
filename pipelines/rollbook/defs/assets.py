"""The assets: each set that is landed, each table's snapshots and history, the published file.

One run makes them all: whichever asset an operator picks, no snapshot stays unmerged and no history unpublished. A sync
run fetches one day. A run over other days (a backfill) rebuilds them from their landings and skips each day without
one, because the service keeps no history. The work itself is in `night`, and in `district` for several institutions.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any

import dagster as dg

from rollbook import settings
from rollbook.assembly import assemble
from rollbook.defs import night, partitions, runs
from rollbook.defs.checks import check_specs, look, results
from rollbook.defs.partitions import PUBLISHED
from rollbook.errors import CheckError, RollbookError
from rollbook.settings import SourceSettings
from rollbook.tables import SETS, TABLES, Column, fingerprint
from rollbook.util.cron import due

# Ends each asset's description, which the UI shows beside the button that launches a backfill.
OF_A_RUN = (
    "A run makes all assets, whichever it is launched from. It skips a day without a landing: that day stays missing,"
    " and a backfill over it ends as failed, although its run is a success and made all other days."
)


def _columns(declared: Iterable[Column], key: Sequence[str]) -> dict[str, Any]:
    """Return a table's columns as Dagster's column schema metadata."""
    shown = [
        dg.TableColumn(
            c.name,
            c.type,
            description=c.comment,
            constraints=dg.TableColumnConstraints(
                nullable=not c.required and c.name not in key,
                unique=list(key) == [c.name],
                other=["key"] * (c.name in key) + ["untracked: never makes a version"] * (not c.tracked),
            ),
        )
        for c in declared
    ]
    return {"dagster/column_schema": dg.TableSchema(columns=shown)}


def specs(sources: Mapping[str, SourceSettings]) -> Iterator[dg.AssetSpec]:
    """Yield the assets. The published file is stale after the longest time between two nights, and their grace."""
    for name in SETS:
        says = f"Bodies of {name} as the service sent them, with the manifest that proves them."
        yield dg.AssetSpec(["raw", name], description=says, group_name="land")
    for t in TABLES.values():
        yield dg.AssetSpec(
            ["snapshots", t.name],
            deps=[["raw", t.set]],
            description=f"{t.comment} One complete, typed Parquet snapshot a day.",
            metadata=_columns(t.columns, t.key),
            kinds={"parquet"},
            group_name="snapshot",
        )
        yield dg.AssetSpec(
            ["history", t.name],
            deps=[["snapshots", t.name]],
            description=f"{t.comment} The current row, and one row per version with valid_from and valid_to.",
            metadata=_columns(t.versioned, t.key),
            kinds={"duckdb"},
            group_name="history",
        )
    nights = [due(source.cron) for source in sources.values()]
    yield dg.AssetSpec(
        PUBLISHED,
        deps=[["history", name] for name in TABLES],
        description="warehouse/rollbook.duckdb, the file that analysts open: checked, then swapped in at once.",
        freshness_policy=dg.FreshnessPolicy.time_window(max(n.gap + n.grace for n in nights)) if nights else None,
        kinds={"duckdb"},
        group_name="publish",
    )


def assets(sources: Mapping[str, SourceSettings], *, deletes_old_runs: bool = True) -> dg.AssetsDefinition:
    """Return all assets, which one step makes together."""
    days = partitions.days(sources)

    @dg.multi_asset(
        name="sync",
        specs=[
            spec.replace_attributes(
                description=f"{spec.description} {OF_A_RUN}",
                owners=["team:school-it"],
                code_version=fingerprint() if spec.deps else None,
            )
            for spec in specs(sources)
        ],
        check_specs=[*check_specs(days)],
        partitions_def=days,
        backfill_policy=dg.BackfillPolicy.single_run(),
        # A run makes all assets, whichever it was launched from. Without this, the UI would each time ask to confirm
        # the other 22. It also makes every output optional: a backfill marks only the days that it made.
        can_subset=True,
    )
    def sync(context: dg.AssetExecutionContext, config: night.Options) -> Iterator[Any]:
        """Land, snapshot, merge and publish: a day that is fetched, or the landed days of a backfill."""
        runs.mark_as_mine(context.instance, context.run.run_id)
        # Checks can be executed alone, too, and those of the published file have no days.
        has_days = context.has_partition_key or context.has_partition_key_range
        days = [date.fromisoformat(key) for key in context.partition_keys] if has_days else []
        try:
            if (registry := settings.registry()) is None:
                yield from _school(context, config, days)
            else:
                from rollbook.defs import district  # a single school needs none of it

                yield from district.work(context, config, days, registry)
        except RollbookError as error:
            raise runs.failed(error) from None
        try:
            if deletes_old_runs:
                runs.delete_old_runs(context.instance)
        except Exception as error:  # noqa: BLE001 - it must not fail a sync; the next night tries again
            context.log.warning("Dagster's old runs could not be deleted (%s)", type(error).__name__)

    return sync


def _school(context: dg.AssetExecutionContext, options: night.Options, days: Sequence[date]) -> night.Events:
    """Run a single school's stages, then check the published file, also after a failure."""
    rollbook = assemble(settings.load(fetches=False), progress=night.progress)
    today = {datetime.now(rollbook.settings.zone).date()}
    is_sync = partitions.is_sync(context.run.tags, days, today, approve=bool(options.approve))
    try:
        if context.selected_asset_keys:
            yield from night.run(context, options, rollbook, days, is_sync=is_sync)
    except RollbookError as error:
        # Dagster shows a check without a result as failed, so check the file that readers still have.
        broken = error.findings if isinstance(error, CheckError) else {}
        with suppress(RollbookError, OSError):
            yield from results(context, {"": look(rollbook, days, broken)})
        raise
    yield from results(context, {"": look(rollbook, days)})
