"""The assets: one for each set that is landed, each table's snapshots and history, and the published file.

One run makes them all: whichever asset an operator picks, no snapshot stays unmerged and no history unpublished. A sync
run fetches one day. A run over other days (a backfill) rebuilds them from their landings and skips each day without
one, because the service keeps no history. The work itself is done by `sync.Rollbook`.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from importlib import import_module
from typing import Any

import dagster as dg

from pipelines import checks, partitions, runs, settings
from pipelines.compose import compose
from pipelines.errors import NothingLandedError, RollbookError
from pipelines.landing.manifest import Manifest
from pipelines.partitions import BACKFILL_TAGS, NIGHTLY, PUBLISHED, SYNC_TAG, Scope
from pipelines.report import MorningPage
from pipelines.runs import Failed, Options
from pipelines.store.lake import DayRecord
from pipelines.sync import Rollbook, Skip, always, skipped, skipped_days, within_hold
from pipelines.tables import SETS, TABLES, Column

# The days that a backfill skipped, and why; shown on the backfill's page, tab Runs.
SKIPPED_TAG = "rollbook/skipped"

PARTITIONS = partitions.read()

Metadata = Mapping[str, Any]


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


# Skippable, because a backfill yields materializations for the days that it made, and for no other day of the run.
SPECS = (
    *(
        dg.AssetSpec(
            ["raw", name],
            description=f"Bodies of {name} as the service sent them, with the manifest that proves them.",
            group_name="land",
            skippable=True,
        )
        for name in SETS
    ),
    *(
        dg.AssetSpec(
            ["snapshots", t.name],
            deps=[["raw", t.set]],
            description=f"{t.comment} One complete, typed Parquet snapshot a day.",
            metadata=columns(t.columns, t.key),
            kinds={"parquet"},
            group_name="snapshot",
            skippable=True,
        )
        for t in TABLES.values()
    ),
    *(
        dg.AssetSpec(
            ["history", t.name],
            deps=[["snapshots", t.name]],
            description=f"{t.comment} The current row, and one row per version with valid_from and valid_to.",
            metadata=columns(t.versioned, t.key),
            kinds={"duckdb"},
            group_name="history",
            skippable=True,
        )
        for t in TABLES.values()
    ),
    dg.AssetSpec(
        PUBLISHED,
        # One history table represents all of them: Dagster 1.13 refuses to launch several days of assets that are made
        # together if one of them can be reached by two paths.
        deps=[["history", "students"]],
        description="warehouse/rollbook.duckdb, the file that analysts open: checked, then swapped in at once.",
        freshness_policy=PARTITIONS.freshness,
        kinds={"duckdb"},
        group_name="publish",
        skippable=True,
    ),
)


@dg.multi_asset(
    name="sync",
    specs=SPECS,
    check_specs=checks.SPECS,
    partitions_def=PARTITIONS.days,
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def sync(context: dg.AssetExecutionContext, config: Options) -> Iterator[Any]:
    """Land, snapshot, merge and publish: a day that is fetched, or the landed days of a backfill."""
    op = context.op_execution_context
    runs.mark_as_mine(context.instance, op.run_id)
    with runs.translate_errors():
        scope = PARTITIONS.scope(op.run.tags)
        if scope.is_alone:
            runs.keep_keys(scope.institutions)
            yield from _alone(op, config, scope)
        else:
            several = import_module("pipelines.several")  # a single school needs none of it
            yield from several.Several(op, config, scope, SPECS).work(checks)
    for spec in checks.SPECS:
        yield dg.Output(None, spec.get_python_identifier())


def _alone(context: dg.OpExecutionContext, options: Options, scope: Scope) -> Iterator[Any]:
    """Run one institution's stages, then log the checks of the published file, also after a failure."""
    rollbook = compose(settings.load(fetches=False, institution=scope.institution), progress=runs.progress)
    night = Night(context, options, scope, rollbook)
    failure = None
    try:
        with runs.translate_errors(scope.institution):
            if night.fetches and not options.approve:
                rollbook.settings = settings.load(institution=scope.institution)  # now with the key
            with rollbook.writer():
                yield from night.stages()
            rollbook.check_listeners()
    except dg.Failure as error:
        failure = error
    # Dagster shows a check without a result as failed, so check the file that readers still have.
    with suppress(*((RollbookError, OSError) if failure else ())):
        if scope.institution:
            several = import_module("pipelines.several")
            several.note_alone(context, scope, rollbook, failure)
            yield from context.consume_events()
        yield from checks.evaluate(rollbook, failure.found if isinstance(failure, Failed) else {})
    if failure is not None:
        raise failure
    if night.skipped:  # last, because a run's page opens at the end of its log
        context.log.warning("Skipped %s", night.skipped)


class Night:
    """One institution's stages in a run. Each yields a materialization of its assets for each day that it made."""

    def __init__(self, context: dg.OpExecutionContext, options: Options, scope: Scope, rollbook: Rollbook) -> None:
        self.context, self.options, self.scope, self.rollbook = context, options, scope, rollbook
        self.days, self.tags = list(scope.days), context.run.tags
        self.skipped = ""
        # A backfill fetches nothing (G8), nor does an untagged run of a past day.
        by_hand = options.approve or self.days == [rollbook.today()]
        self.fetches = not BACKFILL_TAGS & set(self.tags) and (SYNC_TAG in self.tags or by_hand)

    def stages(self) -> Iterator[Any]:
        """Do all stages in order. Raises RollbookError."""
        yield from self._land()
        yield from self._snapshot()
        yield from self._history()
        yield from self._publish()

    def _made(
        self, group: str, started: float, days: Iterable[date], metadata_of: Callable[[str, date], Metadata]
    ) -> Iterator[Any]:
        seconds, institution = round(time.monotonic() - started, 3), self.scope.institution
        # One institution of a registry does not make the day of all.
        event = dg.AssetObservation if institution else dg.AssetMaterialization
        more = {"institution": institution} if institution else {}
        for day in days:
            for spec in (spec for spec in SPECS if spec.group_name == group):
                metadata = {**more, **metadata_of(spec.key.path[-1], day), "seconds": seconds}
                yield event(spec.key, partition=str(day), metadata=metadata)

    def _land(self) -> Iterator[Any]:
        """Fetch the day, or find the landings of each day of a backfill."""
        started, landings, options = time.monotonic(), self.rollbook.landings, self.options
        if not self.fetches:
            landed = {day: counted[-1] for day in self.days if (counted := landings.counted(day))}
            yield from self._log_skipped(landings.skipped(self.days))
        else:
            (day,) = self.days
            # Mark the run as a sync, however it was started: `schedules.watch` reports runs by this tag.
            by = self.tags.get(SYNC_TAG, "hand")
            self.context.instance.add_run_tags(self.context.run_id, {SYNC_TAG: by})
            if options.approve:
                landed = {day: landings.to_approve(day)}
            else:
                fresh = options.fresh or by == NIGHTLY
                landed = {day: self.rollbook.land(day, details=options.details, fresh=fresh)}
        yield from self._made("land", started, landed, lambda name, day: _landing_metadata(landed[day], name))

    def _log_skipped(self, days: Mapping[date, Skip]) -> Iterator[Any]:
        """Log which days of a backfill are skipped, and why: on its run, and on each asset.

        Dagster has no status for a skipped day. On an asset's page such a day stays "missing"; the UI's backfill page
        counts it, and the whole backfill, as failed. The run succeeds, since it published all there was: a failed run
        would leave the day red on every asset's page. A partitions definition without these days would not help: it is
        fixed when the code is loaded, while days are landed, held and discarded at any time, and today has no landing
        before tonight.
        """
        if days or SKIPPED_TAG in self.tags:  # a re-executed run starts with the tags of the first run
            self.skipped = skipped_days(days, len(self.days))
            self.context.instance.add_run_tags(self.context.run_id, {SKIPPED_TAG: self.skipped})
        for day, why in days.items():
            reason = skipped(day, why)
            self.context.log.warning(reason)
            for spec in SPECS:
                yield dg.AssetObservation(spec.key, partition=str(day), metadata={"skipped": reason})
        if len(days) == len(self.days):
            raise NothingLandedError("; ".join(skipped(*d) for d in days.items()), list(days))

    def _snapshot(self) -> Iterator[Any]:
        """Flatten what was landed, evaluate it once, and compose the day's snapshot."""
        started, landings, approve = time.monotonic(), self.rollbook.landings, self.options.approve
        composed: dict[date, DayRecord] = {}
        if self.fetches:
            (day,) = self.days
            pending = landings.to_approve(day) if approve else landings.pending(day)
            manifest, composed[day] = self.rollbook.snapshot(pending, approve=approve)
            if manifest.reason:
                self.context.log.warning(manifest.reason)
        else:
            done = self.rollbook.resnapshot(self.days)
            composed = done.rebuilt
            for day, held in done.held.items():
                self.context.log.warning("%s: landing %s is held and was skipped", day, ", ".join(map(str, held)))

        def metadata_of(name: str, day: date) -> Metadata:
            numbers = ", ".join(map(str, composed[day].landings))
            return {"dagster/partition_row_count": composed[day].rows[name], "landings": numbers}

        yield from self._made("snapshot", started, composed, metadata_of)

    def _history(self) -> Iterator[Any]:
        """Merge the snapshots into current tables, history and changes, in the next file; with force, all again."""
        started = time.monotonic()
        counts = {c.table: c for c in self.rollbook.merge(full_refresh=self.options.force)}

        def metadata_of(name: str, _day: date) -> Metadata:
            if (c := counts.get(name)) is None:
                return {}
            rows = c.before + c.added - c.removed
            return {"dagster/row_count": rows, "added": c.added, "changed": c.changed, "removed": c.removed}

        in_lake = (self.rollbook.staged or self.rollbook.lake).days()
        yield from self._made("history", started, [d for d in self.days if d in in_lake], metadata_of)

    def _publish(self) -> Iterator[Any]:
        """Check the next file and swap it in for readers."""
        started, rollbook = time.monotonic(), self.rollbook
        rollbook.publish(confirm=always if self.options.approve else within_hold)
        try:
            runs.delete_old_runs(self.context.instance)
        except Exception as error:  # noqa: BLE001 - it must not fail a sync; the next night tries again
            self.context.log.warning("Dagster's old runs could not be deleted (%s)", type(error).__name__)
        published, in_lake = rollbook.warehouse.published, rollbook.lake.days()
        shared: Metadata = {
            "path": dg.MetadataValue.path(published),
            "bytes": published.stat().st_size,
            "morning page": dg.MetadataValue.url(PARTITIONS.page(self.scope.institution)),
        }
        days = [d for d in self.days if d in in_lake]
        # The morning page's charts, which show only counts. Only for the newest day: Dagster keeps metadata forever.
        page = rollbook.listener(MorningPage).made
        drawn = page.charts if page else {}
        charts = {title: dg.MetadataValue.md(chart) for title, chart in drawn.items()}
        metadata = {day: {**shared, **(charts if day == max(days) else {})} for day in days}
        yield from self._made("publish", started, days, lambda _name, day: metadata[day])


def _landing_metadata(manifest: Manifest, name: str) -> Metadata:
    walk = next((w for w in manifest.walks if w.set == name), None)
    metadata: dict[str, Any] = {
        "landing": manifest.landing,
        "requests": manifest.requests,
        "retries": manifest.retries,
        "bytes": manifest.bytes_received,
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
