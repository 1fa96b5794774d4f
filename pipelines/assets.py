"""The graph: land -> snapshot -> history -> publish, one step per stage, one asset per table.

Each stage calls `sync.Rollbook`; this module only logs what was made, per asset and day. A sync run fetches one day. A
run over other days (a backfill) rebuilds them from their landings and skips each day without one, because the service
keeps no history.

The stages are the steps of one graph that backs all assets: all steps run whichever asset an operator picks, so no
snapshot stays unmerged and no history unpublished. The edges carry no data. Each step logs materializations per day
instead of returning results, which would mark every day of a backfill as made, even days without a landing.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from types import ModuleType
from typing import Any

import dagster as dg

from pipelines import partitions, runs
from pipelines.errors import NothingLandedError, RollbookError
from pipelines.landing.manifest import Manifest, TableCounts
from pipelines.partitions import BACKFILL_TAGS, NIGHTLY, PUBLISHED, SYNC_TAG, Scope
from pipelines.resources import Failed, Options, Writer, keep_keys, settings_or_none, translate_errors
from pipelines.store.lake import DayRecord
from pipelines.sync import Skip, always, skipped, skipped_days, within_hold
from pipelines.tables import SETS, TABLES, Column

# The days that a backfill skipped, and why; shown on the backfill's page, tab Runs.
SKIPPED_TAG = "rollbook/skipped"

PARTITIONS = partitions.read(settings_or_none())

Metadata = Mapping[str, Any]


def scope_of(context: dg.OpExecutionContext) -> Scope:
    """Return the days and institutions that a run covers."""
    return PARTITIONS.scope(context.run.tags)


def days_of(context: dg.OpExecutionContext) -> list[date]:
    """Return the days that a run covers."""
    return list(scope_of(context).days)


def fetches(context: dg.OpExecutionContext, options: Options, today: date) -> bool:
    """Whether a run is a sync. Backfills (G8) and untagged runs of a past day are not."""
    if BACKFILL_TAGS & set(context.run.tags):
        return False
    return SYNC_TAG in context.run.tags or options.approve or days_of(context) == [today]


def columns(declared: Iterable[Column], key: Sequence[str]) -> dict[str, Any]:
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


class Clock:
    """Measures the seconds since a step began."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Rounded to milliseconds."""
        return round(time.monotonic() - self._started, 3)


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage: the prefix of its assets' keys, their group, and its asset specs by the last part of their key."""

    prefix: str
    group: str
    specs: dict[str, dg.AssetSpec]

    def step(
        self, work: Callable[..., None], checks: ModuleType, *, after: bool, last: bool = False
    ) -> dg.OpDefinition:
        """Return the op that does the stage's work. It logs asset and check events and never yields their outputs."""
        unused = [f"{self.prefix}__{name}" for name in self.specs]
        if last:
            unused += [spec.get_python_identifier() for spec in checks.SPECS]
        outs = {name: dg.Out(dg.Nothing, is_required=False) for name in unused}
        if not last:
            outs["done"] = dg.Out(dg.Nothing)

        @dg.op(
            name=self.group,
            description=work.__doc__,
            ins={"after": dg.In(dg.Nothing)} if after else {},
            out=outs,
        )
        def step(context: dg.OpExecutionContext, options: Options, writer: Writer) -> Iterator[Any]:
            tags = runs.process_tags(context.run_id) | PARTITIONS.tags_of_scope(context.run.tags)
            context.instance.add_run_tags(context.run_id, tags)
            try:
                with translate_errors(PARTITIONS.institution_of(context.run.tags)):
                    keep_keys((scope := scope_of(context)).institutions)
                    if scope.is_alone:
                        writer.open(scope.institution)
                        work(context, options, writer)
                    elif not after:
                        several = import_module("pipelines.several")  # a single school needs none of it
                        yield from several.Several(context, options, PARTITIONS, all_specs()).work(checks)
                if last:
                    context.log.addFilter(runs.drop_notes_on_outputs)
                    _log_end(context, writer, checks)
            except dg.Failure as failure:
                # Dagster shows a check without a result as failed, so check the file that readers still have.
                with suppress(RollbookError, OSError):
                    _log_end(context, writer, checks, failure)
                # Dagster stores logged events at the next yield, and a failing step yields nothing more.
                yield from context.consume_events()
                raise
            if last:
                yield from context.consume_events()
                run = context.instance.get_run_by_id(context.run_id)
                if run and SKIPPED_TAG in run.tags:  # last, because a run's page opens at the end of its log
                    context.log.warning("Skipped %s", run.tags[SKIPPED_TAG])
            else:
                yield dg.Output(None, "done")

        return step

    def log_materializations(
        self, context: dg.OpExecutionContext, days: Iterable[date], metadata_of: Callable[[str, date], Metadata]
    ) -> None:
        """Log a materialization of each of the stage's assets for these days, and for no other day of the run."""
        for day in days:
            for name, spec in self.specs.items():
                context.log_event(PARTITIONS.event(spec.key, day, scope_of(context), metadata_of(name, day)))


LAND = Stage(
    "raw",
    "land",
    {
        name: dg.AssetSpec(
            ["raw", name], description=f"Bodies of {name} as the service sent them, with the manifest that proves them."
        )
        for name in SETS
    },
)
SNAPSHOT = Stage(
    "snapshots",
    "snapshot",
    {
        t.name: dg.AssetSpec(
            ["snapshots", t.name],
            deps=[["raw", t.set]],
            description=f"{t.comment} One complete, typed Parquet snapshot a day.",
            metadata=columns(t.columns, t.key),
            kinds={"parquet"},
        )
        for t in TABLES.values()
    },
)
HISTORY = Stage(
    "history",
    "history",
    {
        t.name: dg.AssetSpec(
            ["history", t.name],
            deps=[["snapshots", t.name]],
            description=f"{t.comment} The current row, and one row per version with valid_from and valid_to.",
            metadata=columns(t.versioned, t.key),
            kinds={"duckdb"},
        )
        for t in TABLES.values()
    },
)
PUBLISH = Stage(
    "published",
    "publish",
    {
        "rollbook": dg.AssetSpec(
            PUBLISHED,
            # One history table represents all of them: one step makes them, and Dagster 1.13 refuses to launch several
            # days of assets that are made together if one of them can be reached by two paths.
            deps=[["history", "students"]],
            description="warehouse/rollbook.duckdb, the file that analysts open: checked, then swapped in at once.",
            freshness_policy=PARTITIONS.freshness,
            kinds={"duckdb"},
        )
    },
)
STAGES = (LAND, SNAPSHOT, HISTORY, PUBLISH)


def all_specs() -> list[dg.AssetSpec]:
    """Return the assets of all stages."""
    return [spec for stage in STAGES for spec in stage.specs.values()]


def land(context: dg.OpExecutionContext, options: Options, writer: Writer) -> None:
    """Fetch the day, or find the landings of each day of a backfill."""
    clock, rollbook, asked = Clock(), writer.rollbook, days_of(context)
    missing: dict[date, Skip] = {}
    if fetches(context, options, rollbook.today()):
        (day,) = asked
        # Mark the run as a sync, however it was started: `schedules.watch` reports runs by this tag.
        context.instance.add_run_tags(context.run_id, {SYNC_TAG: context.run.tags.get(SYNC_TAG, "hand")})
        if options.approve:
            landed = {day: rollbook.landings.to_approve(day)}
        else:
            fresh = options.fresh or context.run.tags.get(SYNC_TAG) == NIGHTLY
            rollbook.start_ahead()
            with writer.key():
                landed = {day: rollbook.land(day, details=options.details.value, fresh=fresh)}
    else:
        landed = {day: counted[-1] for day in asked if (counted := rollbook.landings.counted(day))}
        missing = rollbook.landings.skipped(asked)
    LAND.log_materializations(context, landed, lambda name, day: _landing_metadata(landed[day], name, clock.seconds))
    _log_skipped(context, missing, len(asked))
    if not landed:
        raise NothingLandedError("; ".join(skipped(*m) for m in missing.items()), list(missing))


def _log_skipped(context: dg.OpExecutionContext, days: Mapping[date, Skip], asked: int) -> None:
    """Log which days of a backfill are skipped, and why: on its run, and on each asset.

    Dagster has no status for a skipped day. On an asset's page such a day stays "missing"; the UI's backfill page
    counts it, and the whole backfill, as failed. The run succeeds, since it published all there was: a failed run would
    leave the day red on every asset's page. A partitions definition without these days would not help: it is fixed when
    the code is loaded, while days are landed, held and discarded at any time, and today has no landing before tonight.
    """
    if days or SKIPPED_TAG in context.run.tags:  # a re-executed run starts with the tags of the first run
        context.instance.add_run_tags(context.run_id, {SKIPPED_TAG: skipped_days(days, asked)})
    for day, why in days.items():
        reason = skipped(day, why)
        context.log.warning(reason)
        for spec in all_specs():
            key = PARTITIONS.key(day, scope_of(context).institution)
            context.log_event(dg.AssetObservation(spec.key, partition=key, metadata={"skipped": reason}))


def _landing_metadata(manifest: Manifest, name: str, seconds: float) -> Metadata:
    walk = next((w for w in manifest.walks if w.set == name), None)
    metadata: dict[str, Any] = {
        "landing": manifest.landing,
        "requests": manifest.requests,
        "retries": manifest.retries,
        "bytes": manifest.bytes_received,
        "seconds": seconds,
    }
    if walk is not None:
        metadata |= {
            "dagster/partition_row_count": walk.records,
            "walks": walk.walks,
            "repeated": walk.repeated,
            "proven": manifest.proof(name) is not None,
            "verified absent": sum(a.set == name and a.answer == "removed" for a in manifest.absences),
            "slipped": sum(a.set == name and a.answer == "slipped" for a in manifest.absences),
        }
    return metadata


def snapshot(context: dg.OpExecutionContext, options: Options, writer: Writer) -> None:
    """Flatten what was landed, evaluate it once, and compose the day's snapshot."""
    clock, rollbook = Clock(), writer.rollbook
    composed: dict[date, DayRecord] = {}
    if fetches(context, options, rollbook.today()):
        (day,) = days_of(context)
        pending = rollbook.landings.to_approve(day) if options.approve else rollbook.landings.pending(day)
        manifest, composed[day] = rollbook.snapshot(pending, approve=options.approve)
        if manifest.reason:
            context.log.warning(manifest.reason)
    else:
        done = rollbook.resnapshot(days_of(context))
        composed = done.rebuilt
        for day, landings in done.held.items():
            context.log.warning("%s: landing %s is held and was skipped", day, ", ".join(map(str, landings)))

    def metadata_of(name: str, day: date) -> Metadata:
        return {
            "dagster/partition_row_count": composed[day].rows[name],
            "landings": ", ".join(map(str, composed[day].landings)),
            "seconds": clock.seconds,
        }

    SNAPSHOT.log_materializations(context, composed, metadata_of)


def history(context: dg.OpExecutionContext, options: Options, writer: Writer) -> None:
    """Merge the snapshots into current tables, history and changes, in the next file; with force, a full refresh."""
    clock, rollbook = Clock(), writer.rollbook
    if rollbook.staged is None and not fetches(context, options, rollbook.today()):
        rollbook.resnapshot(days_of(context))  # a retry starts here, without the snapshots that the last step staged
    counts: dict[str, TableCounts] = {c.table: c for c in rollbook.merge(full_refresh=options.force)}

    def metadata_of(name: str, _day: date) -> Metadata:
        c = counts.get(name)
        if c is None:
            return {"seconds": clock.seconds}
        rows = c.before + c.added - c.removed
        changes = {"added": c.added, "changed": c.changed, "removed": c.removed}
        return {"dagster/row_count": rows, **changes, "seconds": clock.seconds}

    in_lake = (rollbook.staged or rollbook.lake).days()
    HISTORY.log_materializations(context, [d for d in days_of(context) if d in in_lake], metadata_of)


def publish(context: dg.OpExecutionContext, options: Options, writer: Writer) -> None:
    """Check the next file and swap it in for readers; then check the data quality of the published file."""
    clock, rollbook = Clock(), writer.rollbook
    page = rollbook.publish(confirm=always if options.approve else within_hold)
    runs.prune(context.instance)
    published, in_lake = rollbook.warehouse.published, rollbook.lake.days()
    shared = {"path": dg.MetadataValue.path(published), "bytes": published.stat().st_size, "seconds": clock.seconds}
    days = [d for d in days_of(context) if d in in_lake]
    # The morning page's charts, which show only counts. Only for the newest day: Dagster keeps metadata forever.
    drawn: Mapping[str, str] = page.charts if page else {}
    charts: Metadata = {title: dg.MetadataValue.md(chart) for title, chart in drawn.items()}
    shared["morning page"] = dg.MetadataValue.url(PARTITIONS.page(scope_of(context).institution))
    PUBLISH.log_materializations(context, days, lambda _name, day: {**shared, **(charts if day == max(days) else {})})
    writer.close()  # here, since an error after the last step would not fail the run


def _log_end(context: dg.OpExecutionContext, writer: Writer, checks: ModuleType, failure: Any = None) -> None:
    """Log the checks of the published file and, with a registry, the institution's outcome."""
    if not (scope := scope_of(context)).is_alone:
        return
    if scope.institution:
        several = import_module("pipelines.several")  # a single school needs none of it
        several.note_alone(context, PARTITIONS, writer.rollbook, failure, all_specs())
    found = failure.found if isinstance(failure, Failed) else {}
    for evaluation in checks.evaluate(writer.rollbook, found):
        context.log_event(checks.about(scope.institution, evaluation))


def graph(checks: ModuleType) -> dg.AssetsDefinition:
    """Return all assets, backed by the four steps in order. `checks` is the module `pipelines.checks`."""
    check_outputs = [spec.get_python_identifier() for spec in checks.SPECS]
    steps = {
        LAND: LAND.step(land, checks, after=False),
        SNAPSHOT: SNAPSHOT.step(snapshot, checks, after=True),
        HISTORY: HISTORY.step(history, checks, after=True),
        PUBLISH: PUBLISH.step(publish, checks, after=True, last=True),
    }
    outputs = {f"{stage.prefix}__{name}": spec for stage in STAGES for name, spec in stage.specs.items()}

    @dg.graph(name="sync", out={name: dg.GraphOut() for name in (*outputs, *check_outputs)})
    def sync() -> dict[str, Any]:
        landed = steps[LAND]()
        snapshots = steps[SNAPSHOT](after=landed.done)
        merged = steps[HISTORY](after=snapshots.done)
        result = steps[PUBLISH](after=merged.done)
        results = {"raw": landed, "snapshots": snapshots, "history": merged, "published": result}
        assets = {name: getattr(results[spec.key.path[0]], name) for name, spec in outputs.items()}
        return assets | {name: getattr(result, name) for name in check_outputs}

    groups = {stage.prefix: stage.group for stage in STAGES}
    backed = dg.AssetsDefinition.from_graph(
        sync,
        keys_by_output_name={name: spec.key for name, spec in outputs.items()},
        internal_asset_deps={name: {dep.asset_key for dep in spec.deps} for name, spec in outputs.items()},
        descriptions_by_output_name={name: spec.description or "" for name, spec in outputs.items()},
        metadata_by_output_name={name: dict(spec.metadata) for name, spec in outputs.items()},
        partitions_def=PARTITIONS.definition,
        backfill_policy=dg.BackfillPolicy.single_run(),
        check_specs=list(checks.SPECS),
    )
    declared = {spec.key: spec for spec in outputs.values()}
    return backed.map_asset_specs(
        lambda s: s.replace_attributes(
            group_name=groups[s.key.path[0]],
            kinds=declared[s.key].kinds,
            freshness_policy=declared[s.key].freshness_policy,
        )
    )
