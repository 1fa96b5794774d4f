"""A run over several institutions: each one runs in a process of its own, one after the other.

Such a run is a batch's night, or a backfill that Dagster puts into one run. Each institution's outcome is logged as an
observation of the published asset, so a re-executed run repeats only the institutions that failed. A batch's day is
materialized once all of its institutions have made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from types import ModuleType
from typing import Any

import dagster as dg

from pipelines import settings
from pipelines.errors import ArgumentError, HeldError, RollbookError
from pipelines.fleet.nights import outcomes
from pipelines.fleet.nights.backfilling import Kind as Rebuilding
from pipelines.fleet.nights.runner import Fleet
from pipelines.institutions import Registry
from pipelines.landing.raw import RawStore
from pipelines.partitions import (
    BACKFILL_TAGS,
    NIGHTLY,
    PUBLISHED,
    SYNC_TAG,
    Partitions,
)
from pipelines.runs import Failed, Held, Options
from pipelines.settings import Details
from pipelines.sync import Rollbook
from pipelines.sync.policy import counted
from pipelines.text import count_of, listed, markdown

SYNCED, REBUILT, SKIPPED, PAUSED = outcomes.Kind.SYNCED, Rebuilding.REBUILT, Rebuilding.SKIPPED, outcomes.Kind.PAUSED
HELD, FAILED = outcomes.Kind.HELD, outcomes.Kind.FAILED
# A re-executed run skips the institutions with these outcomes.
FINISHED = frozenset(map(str, (SYNCED, REBUILT, SKIPPED)))
ROOT_TAG = "dagster/root_run_id"


@dataclass(frozen=True)
class Result:
    """One institution's outcome: how it ended, which days were made, and why others were skipped."""

    kind: str
    says: str = ""
    days: tuple[date, ...] = ()
    skipped: Mapping[date, str] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, Any] = field(default_factory=dict)


class Several:
    """A run over several institutions. `specs` are the assets that it makes for each of them."""

    def __init__(
        self,
        context: dg.OpExecutionContext,
        options: Options,
        partitions: Partitions,
        specs: Iterable[dg.AssetSpec],
    ) -> None:
        self.context = context
        self.options = options
        self.partitions = partitions
        self.specs = list(specs)
        self.tags = context.run.tags
        self.scope = partitions.scope(self.tags)

    def work(self, checks: ModuleType) -> Iterator[Any]:
        """Run the institutions one after the other, yielding the logged events after each.

        Raises Failed or Held, which name the institutions that did not succeed, and RollbookError.
        """
        context, registry = self.context, settings.registry()
        if registry is None:
            raise RollbookError("There is no registry of institutions any more: restart `rollbook serve`")
        self._refuse_options()
        names = self._to_do(registry)
        if SYNC_TAG not in self.tags and any(map(self._fetches, names)):
            context.instance.add_run_tags(context.run_id, {SYNC_TAG: "hand"})
        results: dict[str, Result] = {}
        for number, name in enumerate(names, 1):
            context.log.info("%s (%d of %d)", name, number, len(names))
            results[name] = self._do(registry, name)
            self._log(name, results[name])
            yield from context.consume_events()
        if self.partitions.batches:
            for day in self.scope.days:
                for batch in sorted({self.partitions.batch_of(name) for name in names}):
                    mark_batch(context, self.partitions, day, batch, self.specs)
        for evaluation in evaluate(checks, names):
            context.log_event(evaluation)  # type: ignore[arg-type] # it accepts any event
        yield from context.consume_events()
        _raise_unless_done(results)

    def _refuse_options(self) -> None:
        options = self.options
        if options.force or options.details is not Details.none or (options.approve and SYNC_TAG in self.tags):
            raise ArgumentError(
                "This run covers several institutions, but approve, force and details work for one at a time: run that"
                " institution by itself, as with rollbook --institution NAME sync --approve"
            )

    def _to_do(self, registry: Registry) -> list[str]:
        """Return the institutions still to do: in the registry, and not done by a run that this one repeats."""
        log, scope = self.context.log, self.scope
        names = [name for name in scope.institutions if name in registry.institutions]
        if gone := [name for name in scope.institutions if name not in names]:
            log.warning("No longer in the registry, and left out: %s", listed(gone))
        before = before_retry(self.context)
        if done := [name for name in names if before.get(name) in FINISHED]:
            log.info("Done already by the run that this one repeats: %s", listed(done))
        return [name for name in names if name not in done]

    def _fetches(self, name: str) -> bool:
        """Whether the run syncs an institution. Backfills (G8) and untagged runs of a past day do not."""
        if BACKFILL_TAGS & set(self.tags):
            return False
        source = self.partitions.sources.get(name)
        return SYNC_TAG in self.tags or (source is not None and self.scope.days == (datetime.now(source.zone).date(),))

    def _do(self, registry: Registry, name: str) -> Result:
        fleet, (first, *_) = Fleet(registry, only=(name,), jobs=1, tells=False), self.scope.days
        if self._fetches(name):
            fresh = (self.options.fresh or self.tags.get(SYNC_TAG) == NIGHTLY) and not self._is_landed(name, first)
            outcome = fleet.sync(first, fresh=fresh)[name]
            counts = {"requests": outcome.requests, "refused records": outcome.rejected, "seconds": outcome.seconds}
            made = (first,) if outcome.kind is SYNCED else ()
            return Result(str(outcome.kind), outcome.message, made, counts=counts | dict(outcome.received))
        ((_, done),) = fleet.backfill(first, self.scope.days[-1], confirmed=self.options.approve)
        return Result(str(done.kind), done.message, done.days, done.skipped, done.rows)

    def _is_landed(self, name: str, day: date) -> bool:
        """Whether a run that this one repeats landed the day, but was killed before it logged an outcome.

        Then the landing is used and nothing is fetched again.
        """
        root = root_of(self.context)
        record = self.context.instance.get_run_record_by_id(root) if root else None
        try:
            landed = counted(RawStore(settings.place(name).warehouse_path / "raw").manifests(day)) if record else []
        except (RollbookError, OSError):  # the institution's own process reports it
            return False
        return record is not None and any(manifest.started_at >= record.create_timestamp for manifest in landed)

    def _log(self, name: str, result: Result) -> None:
        """Log an institution's outcome on each day: what was made, and what was not, with the reason."""
        log = self.context.log
        if result.says:
            (log.error if result.kind in (FAILED, HELD) else log.warning)("%s: %s", name, result.says)
        for day in self.scope.days:
            key = self.partitions.key(day, name)
            kind = str(SKIPPED) if result.kind == REBUILT and day not in result.days else result.kind
            note = outcome_metadata(name, kind, result.skipped.get(day, result.says), result.counts)
            self.context.log_event(dg.AssetObservation(PUBLISHED, partition=key, metadata=note))
            if day in result.days and not self.partitions.batches:
                for spec in self.specs:
                    rows = result.rows.get(spec.key.path[-1]) if spec.key.path[0] == "history" else None
                    metadata = {"institution": name} | ({} if rows is None else {"dagster/row_count": rows})
                    self.context.log_event(dg.AssetMaterialization(spec.key, partition=key, metadata=metadata))


def note_alone(
    context: dg.OpExecutionContext,
    partitions: Partitions,
    rollbook: Rollbook,
    failure: dg.Failure | None,
    specs: Iterable[dg.AssetSpec],
) -> None:
    """Record the outcome of a run over one institution: in the fleet's records and, with batches, as events."""
    name, days = rollbook.settings.institution, partitions.scope(context.run.tags).days
    run = context.instance.get_run_by_id(context.run_id)
    is_sync = run is not None and SYNC_TAG in run.tags
    kind = SYNCED if failure is None else HELD if isinstance(failure, Held) else FAILED
    if is_sync and rollbook.settings.fleet_path is not None:
        with suppress(OSError):
            outcomes.record(rollbook.settings.fleet_path, name, _outcome(rollbook, kind, days[-1], failure))
    if not partitions.batches:
        return
    in_lake, good = rollbook.lake.days(), SYNCED if is_sync else REBUILT
    for day in days:
        ended = kind if failure else good if day in in_lake else SKIPPED
        note = outcome_metadata(name, ended, (failure and failure.description) or "")
        context.log_event(dg.AssetObservation(PUBLISHED, partition=partitions.key(day, name), metadata=note))
        if failure is None:
            mark_batch(context, partitions, day, partitions.batch_of(name), specs, also=name)


def _outcome(rollbook: Rollbook, kind: outcomes.Kind, day: date, failure: dg.Failure | None) -> outcomes.Outcome:
    if failure is not None:
        refused = isinstance(failure, Failed) and failure.is_key_refused
        return outcomes.Outcome(
            kind=kind, at=rollbook.clock(), day=day, message=failure.description or "", refused=refused
        )
    manifest = rollbook.landings.counted(day)[-1]
    return outcomes.Outcome(
        kind=kind,
        at=rollbook.clock(),
        day=day,
        message=manifest.reason,
        requests=manifest.requests,
        received=manifest.received,
        rejected=sum(manifest.rejected.values()),
    )


def outcome_metadata(name: str, kind: str, says: str = "", counts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the metadata of the event that records an institution's outcome."""
    page = {"morning page": dg.MetadataValue.url(f"/report/{name}.html")}
    return {"institution": name, "outcome": str(kind), **({"says": says} if says else {}), **(counts or {}), **page}


def outcomes_of(instance: dg.DagsterInstance, run_id: str) -> dict[str, str]:
    """Return each institution's outcome in a run; over several days, the first that was not a success."""
    found: dict[str, str] = {}
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION):
        read = _read(entry)
        if read and found.get(read[0], str(SYNCED)) in FINISHED:
            found[read[0]] = read[1]
    return found


def root_of(context: dg.OpExecutionContext) -> str | None:
    """Return the id of the first of the runs that this one repeats; None if it repeats none."""
    return context.run.root_run_id or context.run.tags.get(ROOT_TAG)


def before_retry(context: dg.OpExecutionContext) -> dict[str, str]:
    """Return each institution's latest outcome in the runs that this one repeats."""
    root = root_of(context)
    if root is None:
        return {}
    instance = context.instance
    again = instance.get_run_records(dg.RunsFilter(tags={ROOT_TAG: root}), order_by="create_timestamp", ascending=True)
    group = [root, *(r.dagster_run.run_id for r in again if r.dagster_run.run_id != context.run_id)]
    return {name: kind for run_id in group for name, kind in outcomes_of(instance, run_id).items()}


def mark_batch(
    context: dg.OpExecutionContext,
    partitions: Partitions,
    day: date,
    batch: str,
    specs: Iterable[dg.AssetSpec],
    also: str = "",
) -> None:
    """Log a batch's day as materialized if all of its institutions have made it, paused ones aside.

    `also` is an institution that has just made it and has not logged its outcome yet.
    """
    key = partitions.batch_key(day, batch)
    found = _newest(context.instance, str(key)) | ({also: str(SYNCED)} if also else {})
    kinds = {found.get(name, "") for name in partitions.in_batch(batch)} - {str(PAUSED)}
    if kinds <= FINISHED and kinds - {str(SKIPPED)}:
        metadata = {"institutions": len(partitions.in_batch(batch))}
        for spec in specs:
            context.log_event(dg.AssetMaterialization(spec.key, partition=key, metadata=metadata))


def evaluate(checks: ModuleType, names: Iterable[str]) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield each check over all of these institutions: it passes if all pass, and names those that do not."""
    found: dict[str, list[tuple[str, dg.AssetCheckEvaluation]]] = {}
    for name in names:
        try:
            for evaluation in checks.evaluate(Rollbook(settings.load(fetches=False, institution=name)), {}):
                found.setdefault(str(evaluation.asset_check_key), []).append((name, evaluation))
        except (RollbookError, OSError):  # nothing is published yet; the run says what failed
            continue
    for evaluations in found.values():
        yield checks.together(evaluations)


def _raise_unless_done(results: Mapping[str, Result]) -> None:
    by_kind = {kind: [n for n, r in results.items() if r.kind == kind] for kind in (FAILED, HELD, SKIPPED)}
    failed, held, skipped = by_kind.values()
    nothing = bool(skipped) and len(skipped) == len(results)
    if not failed and not held and not nothing:
        return
    lines = ["| institution | outcome | says |", "|---|---|---|"]
    lines += [f"| {n} | {r.kind} | {markdown(r.says)} |" for n, r in results.items() if r.kind not in FINISHED]
    code = HeldError.exit_code if held and not failed else RollbookError.exit_code
    metadata: dict[str, Any] = {"exit_code": code, "not done": dg.MetadataValue.md("\n".join(lines))}
    if nothing:
        says = f"nothing was landed on these days: {listed(skipped)}"
    else:
        told = ", ".join(f"{kind}: {listed(names)}" for kind, names in ((FAILED, failed), (HELD, held)) if names)
        count = count_of(len(failed) + len(held), "institution")
        says = f"{count} of {len(results)} {told}. The table says why; to repeat only these, re-execute this run"
    raise (Held if code == HeldError.exit_code else Failed)(says, metadata=metadata, allow_retries=False)


def _newest(instance: dg.DagsterInstance, key: str) -> dict[str, str]:
    """Return the latest outcome of each institution of a partition."""
    found: dict[str, str] = {}
    filters = dg.AssetRecordsFilter(asset_key=PUBLISHED, asset_partitions=[key])
    cursor: str | None = None
    while True:
        page = instance.fetch_observations(filters, limit=1000, cursor=cursor)
        for record in page.records:  # the newest first
            if read := _read(record.event_log_entry):
                found.setdefault(*read)
        if not page.has_more:
            return found
        cursor = page.cursor


def _read(entry: dg.EventLogEntry) -> tuple[str, str] | None:
    event = entry.get_dagster_event()
    if event.asset_key != PUBLISHED:
        return None
    metadata = event.asset_observation_data.asset_observation.metadata
    name, kind = (getattr(metadata.get(key), "value", None) for key in ("institution", "outcome"))
    return (str(name), str(kind)) if name and kind else None
