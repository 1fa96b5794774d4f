"""The assets: the two landed sets, each table, the published file; and the step that makes all of them.

One run makes them all, whichever asset an operator picks, so that no snapshot stays unmerged and no history
unpublished. A sync fetches one day. A run over other days (a backfill) rebuilds them from their landings, because the
service keeps no history.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import dagster as dg

from rollbook.defs import checks, partitions, runs
from rollbook.defs.events import FILE, RAW, TABLE, Event
from rollbook.defs.resources import RESOURCE, School
from rollbook.defs.work import Options, Outcome, do, results
from rollbook.errors import CheckError, RollbookError
from rollbook.landing.raw import newest_landed
from rollbook.store.published import REPORT
from rollbook.tables import TABLES, WALKED, fingerprint
from rollbook.tables import Table as Declared
from rollbook.util.cron import due

# What a run does for a school, or for a district, on its days. May raise RollbookError.
Work = Callable[[dg.AssetExecutionContext, Options, Sequence[date]], Outcome]


def specs(school: School) -> Iterator[dg.AssetSpec]:
    """Yield the assets. The published file is stale after the longest time between two nights, and their grace."""
    for name in WALKED:
        says = f"Bodies of {name} as the service sent them, with the manifest that proves them."
        yield dg.AssetSpec(school.key(RAW, name), description=says, kinds={"json"}, group_name=school.named("land"))
    for t in school.declared().tables.values():
        yield dg.AssetSpec(
            school.key(TABLE, t.name),
            deps=[school.key(RAW, name) for name in WALKED if name == t.set],
            description=f"{t.comment} One typed snapshot a day, the current row, and one row per version.",
            metadata={"dagster/column_schema": _columns(t)},
            kinds={"parquet", "duckdb"},
            code_version=fingerprint(),
            group_name=school.named("tables"),
        )
    nights = [due(source.cron) for source in school.sources().values()]
    yield dg.AssetSpec(
        school.key(*FILE),
        deps=[school.key(TABLE, name) for name in TABLES],
        description="warehouse/rollbook.duckdb, the file that analysts open: checked, then swapped in at once."
        " Its events show every night, also those of the command `rollbook sync`, which have no run.",
        metadata={"morning page": _morning_page(school)},
        freshness_policy=dg.FreshnessPolicy.time_window(max(n.gap + n.grace for n in nights)) if nights else None,
        kinds={"duckdb"},
        code_version=fingerprint(),
        group_name=school.named("publish"),
    )


def _morning_page(school: School) -> dg.MetadataValue[str | None]:
    """Where the page is: only `rollbook serve` offers it in the UI."""
    if school.given:
        return dg.MetadataValue.path(Path(school.folder()) / REPORT)
    return dg.MetadataValue.url(f"/{REPORT}")


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


def assets(school: School, work: Work) -> dg.AssetsDefinition:
    """Return all assets, which one step makes together. Raises SettingError."""

    @dg.multi_asset(
        name=school.named("sync"),
        specs=[spec.replace_attributes(owners=["team:school-it"]) for spec in specs(school)],
        check_specs=[*checks.check_specs(school)],
        partitions_def=partitions.days(school),
        backfill_policy=dg.BackfillPolicy.single_run(),
        # A run makes all assets, whichever it was launched from. Without this, the UI would each time ask to confirm
        # the others. It also makes every output optional: a held night marks what was landed, and no more.
        can_subset=True,
        required_resource_keys={school.named(RESOURCE)},
    )
    def sync_all(
        context: dg.AssetExecutionContext, config: Options
    ) -> Iterator[Event | dg.MaterializeResult[None] | dg.AssetCheckResult]:
        """Land, snapshot, merge and publish: a day that is fetched, or the landed days of a backfill."""
        runs.mark_as_mine(context.instance, context.run.run_id)
        # Checks can be executed alone, too, and they have no days.
        has_days = context.has_partition_key or context.has_partition_key_range
        days = [date.fromisoformat(key) for key in context.partition_keys] if has_days else []
        try:
            outcome = work(context, config, days)
        except RollbookError as error:
            outcome = Outcome(error=error)
        yield from results(context, outcome.events)
        if outcome.error is not None:
            runs.end(context, outcome.error, outcome.metadata)
        try:
            if not school.given:  # else the instance belongs to others, too
                runs.delete_old_runs(context.instance, newest_landed(*school.warehouses()))
        except Exception as error:  # noqa: BLE001 - it must not fail a sync; the next night tries again
            context.log.warning("Dagster's old runs could not be deleted (%s)", type(error).__name__)

    return sync_all


def work(school: School, context: dg.AssetExecutionContext, options: Options, days: Sequence[date]) -> Outcome:
    """Do a single school's work, then check the published file, also after a failure. Raises SettingError."""
    rollbook, outcome = school.opened(context.resources), Outcome()
    if context.selected_asset_keys:  # else only the checks are executed
        is_sync = partitions.is_sync(context.run.tags, days, {datetime.now(rollbook.settings.zone).date()})
        outcome = do(context, options, school, rollbook.writer(), days, is_sync=is_sync)
    broken = outcome.error.findings if isinstance(outcome.error, CheckError) else {}
    # Dagster shows a check without a result as failed, so check the file that readers still have.
    try:
        looked = checks.results(school, {"": checks.look(rollbook.place, rollbook.settings, rollbook.clock(), broken)})
        outcome = replace(outcome, events=[*outcome.events, *looked])
    except Exception as error:  # noqa: BLE001 - what was made is recorded in any case
        if not isinstance(error, (RollbookError, OSError)):
            context.log.warning("The file could not be checked (%s)", type(error).__name__)
    return outcome
