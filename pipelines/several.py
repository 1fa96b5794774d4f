"""A run over several institutions: the fleet's runner does the work, each institution in a process of its own.

Each institution's outcome is logged as an observation of the published asset. The run's days are materialized if all
went well. A re-executed run repeats only what is missing, since the runner fetches no day twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from types import ModuleType
from typing import Any

import dagster as dg

from pipelines import settings
from pipelines.compose import compose
from pipelines.errors import ArgumentError, HeldError, RollbookError
from pipelines.fleet import outcomes
from pipelines.fleet.nights import Fleet
from pipelines.institutions import Registry
from pipelines.partitions import BACKFILL_TAGS, NIGHTLY, PUBLISHED, SYNC_TAG, Scope
from pipelines.runs import Failed, Held, Options
from pipelines.settings import Details
from pipelines.sync import Rollbook
from pipelines.text import count_of, listed, markdown

SYNCED, REBUILT, SKIPPED, HELD, FAILED = "synced", "rebuilt", "skipped", "held", "failed"
ROOT_TAG = "dagster/root_run_id"


class Several:
    """A run over several institutions. `specs` are the assets that it makes."""

    def __init__(
        self, context: dg.OpExecutionContext, options: Options, scope: Scope, specs: Iterable[dg.AssetSpec]
    ) -> None:
        self.context = context
        self.options = options
        self.scope = scope
        self.specs = list(specs)
        self.tags = context.run.tags
        self.ended: dict[str, tuple[str, str]] = {}
        self.made: set[date] = set()

    def work(self, checks: ModuleType) -> Iterator[Any]:
        """Do the work of all institutions, logging each outcome as it comes.

        Raises Failed or Held, which name the institutions that did not succeed, and RollbookError.
        """
        context, registry, options = self.context, settings.registry(), self.options
        if registry is None:
            raise RollbookError("There is no registry of institutions any more: restart `rollbook serve`")
        if options.force or options.details is not Details.none or (options.approve and SYNC_TAG in self.tags):
            raise ArgumentError(
                "This run covers several institutions, but approve, force and details work for one at a time: run that"
                " institution by itself, as with rollbook --institution NAME sync --approve"
            )
        names = self.scope.institutions or tuple(registry.institutions)
        syncing = tuple(name for name in names if self._fetches(registry, name))
        if syncing:
            self._sync(registry, syncing)
        if others := tuple(name for name in names if name not in syncing):
            self._backfill(registry, others)
        for evaluation in evaluate(checks, names):
            context.log_event(evaluation)  # type: ignore[arg-type] # it accepts any event
        failure = self._failure()
        for day in sorted(self.made) if failure is None else ():
            for spec in self.specs:
                metadata = {"institutions": len(names)}
                context.log_event(dg.AssetMaterialization(spec.key, partition=str(day), metadata=metadata))
        yield from context.consume_events()
        if failure is not None:
            raise failure

    def _fetches(self, registry: Registry, name: str) -> bool:
        """Whether the run syncs an institution. Backfills (G8) and untagged runs of a past day do not."""
        if SYNC_TAG in self.tags or BACKFILL_TAGS & set(self.tags):
            return SYNC_TAG in self.tags
        source = settings.sources(registry).get(name)
        return source is not None and self.scope.days == (datetime.now(source.zone).date(),)

    def _sync(self, registry: Registry, names: tuple[str, ...]) -> None:
        (day,) = self.scope.days
        self.context.instance.add_run_tags(self.context.run_id, {SYNC_TAG: self.tags.get(SYNC_TAG, "hand")})
        # A run that repeats another one finishes it, and asks nobody again who is done.
        repeats = self.context.run.root_run_id or ROOT_TAG in self.tags
        fresh = self.options.fresh or (self.tags.get(SYNC_TAG) == NIGHTLY and not repeats)

        def done(name: str, outcome: outcomes.Outcome) -> None:
            counts = {"requests": outcome.requests, "refused records": outcome.rejected, "seconds": outcome.seconds}
            self._note(name, str(outcome.kind), outcome.message, (day,), counts | dict(outcome.received))

        Fleet(registry, names, tells=False).sync(day, fresh=fresh, done=done)

    def _backfill(self, registry: Registry, names: tuple[str, ...]) -> None:
        first, last = self.scope.days[0], self.scope.days[-1]
        for name, rebuilt in Fleet(registry, names).backfill(first, last, confirmed=self.options.approve):
            self._note(name, str(rebuilt.kind), rebuilt.message, rebuilt.days, rebuilt=rebuilt)

    def _note(
        self,
        name: str,
        kind: str,
        says: str,
        made: Iterable[date],
        counts: Mapping[str, Any] | None = None,
        rebuilt: outcomes.Outcome | None = None,
    ) -> None:
        """Log an institution's outcome on each day: what was made, and what was not, with the reason."""
        self.ended[name] = kind, says
        if says:
            (self.context.log.error if kind in (FAILED, HELD) else self.context.log.warning)("%s: %s", name, says)
        if kind in (SYNCED, REBUILT):
            self.made.update(made)
        for day in self.scope.days:
            skipped = rebuilt is not None and kind == REBUILT and day not in rebuilt.days
            told = rebuilt.skipped.get(day, says) if rebuilt is not None else says
            note = outcome_metadata(name, SKIPPED if skipped else kind, told, counts)
            self.context.log_event(dg.AssetObservation(PUBLISHED, partition=str(day), metadata=note))

    def _failure(self) -> dg.Failure | None:
        """The failure of the run, with a table of the institutions that did not succeed."""
        by_kind = {kind: [n for n, (k, _) in self.ended.items() if k == kind] for kind in (FAILED, HELD, SKIPPED)}
        failed, held, skipped = by_kind.values()
        nothing = bool(skipped) and len(skipped) == len(self.ended)
        if not failed and not held and not nothing:
            return None
        good = (SYNCED, REBUILT, SKIPPED)
        lines = ["| institution | outcome | says |", "|---|---|---|"]
        lines += [f"| {n} | {k} | {markdown(says)} |" for n, (k, says) in self.ended.items() if k not in good]
        code = HeldError.exit_code if held and not failed else RollbookError.exit_code
        metadata: dict[str, Any] = {"exit_code": code, "not done": dg.MetadataValue.md("\n".join(lines))}
        if nothing:
            says = f"nothing was landed on these days: {listed(skipped)}"
        else:
            told = ", ".join(f"{kind}: {listed(names)}" for kind, names in ((FAILED, failed), (HELD, held)) if names)
            count = count_of(len(failed) + len(held), "institution")
            says = f"{count} of {len(self.ended)} {told}. The table says why; to repeat only these, re-execute this run"
        return (Held if code == HeldError.exit_code else Failed)(says, metadata=metadata, allow_retries=False)


def note_alone(context: dg.OpExecutionContext, scope: Scope, rollbook: Rollbook, failure: dg.Failure | None) -> None:
    """Record the outcome of a run over one institution, in the fleet's records and as events."""
    name, day = rollbook.settings.institution, scope.days[-1]
    run = context.instance.get_run_by_id(context.run_id)
    is_sync = run is not None and SYNC_TAG in run.tags
    kind = (
        outcomes.Kind.SYNCED
        if failure is None
        else outcomes.Kind.HELD
        if isinstance(failure, Held)
        else outcomes.Kind.FAILED
    )
    if is_sync and rollbook.settings.fleet_path is not None:
        if failure is None:
            outcome = outcomes.of(rollbook.landings.counted(day)[-1])
        else:
            refused = isinstance(failure, Failed) and failure.is_key_refused
            outcome = outcomes.Outcome(
                kind=kind, at=rollbook.clock(), day=day, message=failure.description or "", refused=refused
            )
        with suppress(OSError):
            outcomes.record(rollbook.settings.fleet_path, name, outcome)
    in_lake = rollbook.lake.days()
    for each in scope.days:
        good = SKIPPED if each not in in_lake else SYNCED if is_sync else REBUILT
        note = outcome_metadata(name, str(kind) if failure else good, (failure and failure.description) or "")
        context.log_event(dg.AssetObservation(PUBLISHED, partition=str(each), metadata=note))


def outcome_metadata(name: str, kind: str, says: str = "", counts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the metadata of the event that records an institution's outcome."""
    page = {"morning page": dg.MetadataValue.url(f"/report/{name}.html")}
    return {"institution": name, "outcome": str(kind), **({"says": says} if says else {}), **(counts or {}), **page}


def evaluate(checks: ModuleType, names: Iterable[str]) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield each check over all of these institutions: it passes if all pass, and names those that do not."""
    found: dict[str, list[tuple[str, dg.AssetCheckEvaluation]]] = {}
    for name in names:
        try:
            for evaluation in checks.evaluate(compose(settings.load(fetches=False, institution=name)), {}):
                found.setdefault(str(evaluation.asset_check_key), []).append((name, evaluation))
        except (RollbookError, OSError):  # nothing is published yet; the run says what failed
            continue
    for evaluations in found.values():
        yield checks.together(evaluations)
