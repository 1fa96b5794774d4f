"""A run over institutions of a registry: the fleet's runner does the work, each institution in a process of its own.

A sync of one named institution is done in the run's own process instead, with a single school's options. Each outcome
is an observation of the published asset. The days are materialized if all went well with all. A re-executed run repeats
only what is missing, since the runner fetches no day twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from itertools import product

import dagster as dg

from rollbook import settings
from rollbook.assembly import assemble
from rollbook.defs import checks, night, partitions, runs
from rollbook.defs.partitions import INSTITUTION_TAG, NIGHTLY, PUBLISHED, SYNC_TAG
from rollbook.errors import ArgumentError, HeldError, KeyRefusedError, NothingLandedError, RollbookError
from rollbook.fleet.nights import Fleet, record
from rollbook.fleet.worker import NightKind, NightOutcome, outcome_of
from rollbook.institutions import Registry
from rollbook.landing.manifest import Details
from rollbook.util.text import count_of, listed, markdown

ROOT_TAG = "dagster/root_run_id"

Ended = Mapping[str, NightOutcome]


def work(
    context: dg.AssetExecutionContext, options: night.Options, days: Sequence[date], registry: Registry
) -> night.Events:
    """Do the work of the institutions that a run's tag names, or of all.

    Raises Failed or Held, which name the institutions that did not succeed, and RollbookError.
    """
    tags = context.run.tags
    names = tuple(filter(None, map(str.strip, tags.get(INSTITUTION_TAG, "").split(",")))) or tuple(
        registry.institutions
    )
    if not context.selected_asset_keys:
        yield from _checked(context, names, days)
        return
    todays = {datetime.now(s.zone).date() for name, s in settings.sources(registry).items() if name in names}
    is_sync = partitions.is_sync(tags, days, todays, approve=bool(options.approve))
    if is_sync and tags.get(INSTITUTION_TAG) in names and tags.get(SYNC_TAG) != NIGHTLY:
        yield from _sync_alone(context, options, names[0], days)
        return
    if options.force or options.details is not Details.none or options.approve:
        raise ArgumentError(
            "This run covers several institutions, but approve, force and details work for one at a time: run that"
            " institution by itself, as with rollbook --institution NAME sync --approve"
        )
    ended: Ended
    if is_sync:
        night.mark_as_sync(context)
        # A run that repeats another one skips institutions that are already synced.
        fresh = options.fresh or (tags.get(SYNC_TAG) == NIGHTLY and ROOT_TAG not in tags)
        ended = Fleet(registry, names, sends_alerts=False).sync(days[0], fresh=fresh)
    else:
        ended = dict(Fleet(registry, names).backfill(days[0], days[-1], confirmed=options.confirm))
    yield from _outcomes(ended, days)
    yield from _checked(context, names, days)
    _raise_if_bad(ended)
    for day in days if is_sync else sorted({day for outcome in ended.values() for day in outcome.days}):
        for spec in context.assets_def.specs:
            yield night.made(context, day, spec.key.path, {"institutions": len(ended)})


def _sync_alone(
    context: dg.AssetExecutionContext, options: night.Options, name: str, days: Sequence[date]
) -> night.Events:
    """Sync one institution here, and record its outcome. It does not materialize the district's partition."""
    _keep_key_of(name)
    rollbook = assemble(settings.load(fetches=not options.approve, institution=name), progress=night.progress)
    failure: RollbookError | None = None
    try:
        for _ in night.run(context, options, rollbook, days, is_sync=True):
            pass
        outcome = outcome_of(rollbook.landings.counted(days[0])[-1])
    except RollbookError as error:
        failure = error
        outcome = NightOutcome(
            kind=NightKind.HELD if isinstance(error, HeldError) else NightKind.FAILED,
            at=rollbook.clock(),
            day=days[0],
            message=error.message,
            refused=isinstance(error, KeyRefusedError),
        )
    with suppress(OSError):
        record(settings.common_path() / settings.FLEET, name, outcome)
    yield from _outcomes({name: outcome}, days)
    yield from _checked(context, [name], days)
    if failure is not None:
        raise runs.failed(failure)


def _keep_key_of(name: str) -> None:
    """Remove all other institutions' keys from this process's environment: a run inherits every key from Dagster."""
    if (registry := settings.registry()) is not None:
        for variable in registry.variables("api_key") - registry[name].variables("api_key"):
            os.environ.pop(variable, None)


def _outcomes(ended: Ended, days: Sequence[date]) -> Iterator[dg.AssetObservation]:
    """Yield each institution's outcome, on each day."""
    for day, (name, outcome) in product(days, ended.items()):
        skipped = outcome.skipped.get(day, "")
        yield dg.AssetObservation(
            PUBLISHED,
            partition=str(day),
            metadata={
                "institution": name,
                "outcome": str(NightKind.SKIPPED if skipped else outcome.kind),
                "says": skipped or outcome.message,
                "morning page": dg.MetadataValue.url(f"/report/{name}.html"),
            },
        )


def _checked(
    context: dg.AssetExecutionContext, names: Iterable[str], days: Sequence[date]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the checks over all of these institutions that have published."""
    days_of = {}
    for name in names:
        with suppress(RollbookError, OSError):  # nothing is published yet; the run says what failed
            days_of[name] = checks.look(assemble(settings.load(fetches=False, institution=name)), days)
    return checks.results(context, days_of)


def _raise_if_bad(ended: Ended) -> None:
    """Raise the failure of a run, with a table of the institutions that did not succeed, unless all did."""
    if all(outcome.kind is NightKind.SKIPPED for outcome in ended.values()):
        raise NothingLandedError(f"nothing was landed on these days: {listed([*ended])}")
    bad = {name: outcome for name, outcome in ended.items() if outcome.kind in (NightKind.FAILED, NightKind.HELD)}
    if not bad:
        return
    kinds = {kind: [name for name in bad if bad[name].kind is kind] for kind in (NightKind.FAILED, NightKind.HELD)}
    summary = ", ".join(f"{kind}: {listed(names)}" for kind, names in kinds.items() if names)
    says = f"{count_of(len(bad), 'institution')} of {len(ended)} {summary}. The table says why; to repeat only these,"
    says = f"{says} re-execute this run" if len(ended) > 1 else "".join(outcome.message for outcome in bad.values())
    lines = ["| institution | outcome | says |", "|---|---|---|"]
    lines += [f"| {name} | {outcome.kind} | {markdown(outcome.message)} |" for name, outcome in bad.items()]
    error = RollbookError(says) if kinds[NightKind.FAILED] else HeldError(says, None)
    raise runs.failed(error, not_done=dg.MetadataValue.md("\n".join(lines)))
