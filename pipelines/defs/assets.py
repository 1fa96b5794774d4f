"""The assets: each set that is landed, each table's snapshots and history, the published file; and their checks.

One run makes them all: whichever asset an operator picks, no snapshot stays unmerged and no history unpublished. A sync
run fetches one day. A run over other days (a backfill) rebuilds them from their landings and skips each day without
one, because the service keeps no history. The work itself is in `night`, and in `district` for several institutions.

The checks are evaluated after each publish. Those of Rollbook's own work also run before each publish, so readers never
see a broken file. Contradictions in the source only warn: the data are as the source sent them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any

import dagster as dg

from pipelines import settings
from pipelines.compose import compose
from pipelines.defs import night, partitions, runs
from pipelines.defs.partitions import PUBLISHED
from pipelines.errors import CheckError, RollbookError
from pipelines.operations.data_quality import QUALITY_CHECKS, run_quality_checks
from pipelines.settings import SourceSettings
from pipelines.store.checks import RULES
from pipelines.sync import Rollbook
from pipelines.sync.policy import open_holds, overtaken
from pipelines.tables import SETS, TABLES, WALKED, Column
from pipelines.util.cron import due
from pipelines.util.text import count_of, listed


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
        # One history table represents all of them: Dagster 1.13 refuses to launch several days of assets that are made
        # together if one of them can be reached by two paths.
        deps=[["history", "students"]],
        description="warehouse/rollbook.duckdb, the file that analysts open: checked, then swapped in at once.",
        freshness_policy=dg.FreshnessPolicy.time_window(max(n.gap + n.grace for n in nights)) if nights else None,
        kinds={"duckdb"},
        group_name="publish",
    )


def assets(sources: Mapping[str, SourceSettings]) -> dg.AssetsDefinition:
    """Return all assets, which one step makes together."""

    @dg.multi_asset(
        name="sync",
        # Skippable, because a backfill materializes the days that it made, and no other day of the run.
        specs=[spec.replace_attributes(skippable=True) for spec in specs(sources)],
        check_specs=SPECS,
        partitions_def=partitions.days(sources),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def sync(context: dg.AssetExecutionContext, config: night.Options) -> Iterator[Any]:
        """Land, snapshot, merge and publish: a day that is fetched, or the landed days of a backfill."""
        runs.mark_as_mine(context.instance, context.run.run_id)
        days = [date.fromisoformat(key) for key in context.partition_keys]
        try:
            if (registry := settings.registry()) is None:
                yield from _school(context, config, days)
            else:
                from pipelines.defs import district  # a single school needs none of it

                yield from district.work(context, config, days, registry)
        except RollbookError as error:
            raise runs.failed(error) from None
        try:
            runs.delete_old_runs(context.instance)
        except Exception as error:  # noqa: BLE001 - it must not fail a sync; the next night tries again
            context.log.warning("Dagster's old runs could not be deleted (%s)", type(error).__name__)

    return sync


def _school(context: dg.AssetExecutionContext, options: night.Options, days: Sequence[date]) -> night.Events:
    """Run a single school's stages, then check the published file, also after a failure."""
    rollbook = compose(settings.load(fetches=False), progress=night.progress)
    today = {datetime.now(rollbook.settings.zone).date()}
    is_sync = partitions.is_sync(context.run.tags, days, today, approve=options.approve)
    try:
        yield from night.stages(context, options, rollbook, days, is_sync=is_sync)
    except RollbookError as error:
        # Dagster shows a check without a result as failed, so check the file that readers still have.
        broken = error.found if isinstance(error, CheckError) else {}
        with suppress(RollbookError, OSError):
            yield from results({"": look(rollbook, broken)})
        raise
    yield from results({"": look(rollbook, {})})


# What each check found: a sentence, or a number of rows. A check that passed found nothing.
Found = Mapping[dg.AssetCheckKey, str | int]

SPECS = (
    *(
        dg.AssetCheckSpec(
            "proven_complete", asset=["raw", name], description=f"The walk over the {name} was proven complete."
        )
        for name in WALKED
    ),
    *(
        dg.AssetCheckSpec(
            "no_unknown_fields", asset=["raw", name], description=f"The {name} hold no field that is not declared."
        )
        for name in WALKED
    ),
    dg.AssetCheckSpec("nothing_held", asset=PUBLISHED, description="No sync waits for a person's approval."),
    *(dg.AssetCheckSpec(name, asset=PUBLISHED, description=says) for name, says in RULES.items()),
    *(dg.AssetCheckSpec(c.name, asset=["history", c.table], description=c.sentence) for c in QUALITY_CHECKS),
)
_SEVERITY_OF_OWN = dict.fromkeys(RULES, dg.AssetCheckSeverity.ERROR)


def look(rollbook: Rollbook, broken: Mapping[str, Sequence[str]]) -> Found:
    """Look at the published file and the newest landings; `broken` holds what stopped a next file, by rule.

    The published file follows all of Rollbook's own rules, or it would not have been published. Raises
    NothingLandedError before the first publish.
    """
    manifests = rollbook.raw.manifests()
    waiting = [str(m.snapshot_date) for m in open_holds(manifests) if not overtaken(m, manifests)]
    found: dict[dg.AssetCheckKey, str | int] = {
        dg.AssetCheckKey(dg.AssetKey(["history", check.table]), check.name): rows
        for check, rows in run_quality_checks(rollbook.warehouse.published)
    }
    found |= {dg.AssetCheckKey(PUBLISHED, name): "; ".join(broken.get(name, ())) for name in RULES}
    found[dg.AssetCheckKey(PUBLISHED, "nothing_held")] = ", ".join(waiting)
    for newest in [m for m in manifests if m.counts_for_its_day][-1:]:
        for name in WALKED:
            raw = dg.AssetKey(["raw", name])
            unproven = "" if newest.proof(name) is not None else newest.reason or "it was not proven"
            found[dg.AssetCheckKey(raw, "proven_complete")] = unproven
            unknown = (f"{d.field} ({d.type}, {d.count})" for d in newest.drift if d.set == name)
            found[dg.AssetCheckKey(raw, "no_unknown_fields")] = ", ".join(unknown)
    return found


def results(of: Mapping[str, Found]) -> Iterator[dg.AssetCheckResult]:
    """Yield each check's result over these institutions; a single school's name is empty. It passes if all pass."""
    for spec in SPECS:
        found = {name: seen[spec.key] for name, seen in of.items() if spec.key in seen}
        if not found:
            continue
        told = {name: count_of(f, "row") if isinstance(f, int) else f for name, f in found.items() if f}
        metadata: dict[str, str | int] = {"institutions": listed([*found])} if any(found) else {}
        if told:
            metadata["found"] = listed([f"{name} ({says})" if name else says for name, says in told.items()])
        if rows := [f for f in found.values() if isinstance(f, int)]:
            metadata["how many"] = sum(rows)  # the UI plots it
        yield dg.AssetCheckResult(
            passed=not told,
            asset_key=spec.asset_key,
            check_name=spec.name,
            severity=_SEVERITY_OF_OWN.get(spec.name, dg.AssetCheckSeverity.WARN),
            metadata=metadata,
        )
