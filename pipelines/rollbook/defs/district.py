"""A run over institutions of a registry: the fleet's runner does the work, each institution in a process of its own.

A sync of one named institution is done in the run's own process instead, with a single school's options. Each outcome
is an observation of the published asset. A day is materialized if all went well with all. A re-executed run repeats
only what is missing, since the runner fetches no day twice. Nights without Dagster are recorded by their outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from itertools import product

import dagster as dg

from rollbook import settings
from rollbook.defs import checks, partitions, runs
from rollbook.defs.facts import ALL_ASSETS, FILE
from rollbook.defs.partitions import INSTITUTION_TAG, NIGHTLY, SYNC_TAG
from rollbook.defs.school import School
from rollbook.defs.work import Events, Options, mark_as_sync, outputs
from rollbook.defs.work import run as run_school
from rollbook.errors import ArgumentError, HeldError, NothingLandedError, RollbookError
from rollbook.features.assembly import assemble
from rollbook.features.district.nights import Fleet, load_state, recorded
from rollbook.features.district.worker import NightKind, NightOutcome
from rollbook.institutions import Registry
from rollbook.landing.manifest import Details
from rollbook.util.text import count_of, listed, markdown

ROOT_TAG = "dagster/root_run_id"

Ended = Mapping[str, NightOutcome]


def work(
    context: dg.AssetExecutionContext, options: Options, school: School, days: Sequence[date], registry: Registry
) -> Events:
    """Do the work of the institutions that a run's tag names, or of all.

    Raises Failed, which names the institutions that did not succeed, and RollbookError.
    """
    tags = context.run.tags
    names = tuple(filter(None, map(str.strip, tags.get(INSTITUTION_TAG, "").split(",")))) or tuple(
        registry.institutions
    )
    if not context.selected_asset_keys:
        yield from _checked(school, names)
        return
    todays = {datetime.now(s.zone).date() for name, s in settings.sources(registry).items() if name in names}
    is_sync = partitions.is_sync(tags, days, todays)
    if is_sync and tags.get(INSTITUTION_TAG) in names and tags.get(SYNC_TAG) != NIGHTLY:
        yield from _sync_alone(context, options, school, names[0], days)
        return
    if options.force or options.details is not Details.none:
        raise ArgumentError(
            "This run covers several institutions, but force and details work for one at a time: run that institution"
            f" by itself, with its name in the tag {INSTITUTION_TAG}"
        )
    ended: Ended
    if is_sync:
        mark_as_sync(context)
        # A run that repeats another one skips institutions that are already synced.
        fresh = options.fresh or (tags.get(SYNC_TAG) == NIGHTLY and ROOT_TAG not in tags)
        ended = Fleet(registry, names).sync(days[0], fresh=fresh)
    else:
        ended = dict(Fleet(registry, names).backfill(days[0], days[-1], confirmed=options.confirm))
    for name, outcome in ended.items():
        for reason in [*outcome.skipped.values(), *([outcome.message] if outcome.kind is NightKind.SKIPPED else [])]:
            context.log.info("%s: %s", name, reason)
    yield from _outcomes(school, ended, days)
    yield from _checked(school, names)
    _raise_if_bad(ended, is_sync=is_sync)
    done = days if is_sync else sorted({day for outcome in ended.values() for day in outcome.days})
    yield from outputs(context, made(school, done, len(ended)))


def made(school: School, days: Iterable[date], institutions: int) -> Iterator[dg.AssetMaterialization]:
    """Yield each asset of these days: every institution has them."""
    for day, path in product(days, ALL_ASSETS):
        yield dg.AssetMaterialization(school.key(*path), partition=str(day), metadata={"institutions": institutions})


def _sync_alone(
    context: dg.AssetExecutionContext, options: Options, school: School, name: str, days: Sequence[date]
) -> Events:
    """Sync one institution here, and record its outcome. It does not materialize the district's day."""
    rollbook = assemble(settings.load(fetches=True, institution=name))
    failure, ended = None, list[NightOutcome]()
    try:
        with recorded(rollbook, days[0]) as ended:
            for _ in run_school(context, options, school, rollbook, days, is_sync=True):
                pass
    except RollbookError as error:
        failure = error
    yield from _outcomes(school, {name: ended[0]}, days)
    yield from _checked(school, [name])
    if failure is not None:
        raise failure


def unrecorded(
    context: dg.SensorEvaluationContext, school: School, registry: Registry
) -> dg.SensorResult | dg.SkipReason:
    """Return the events of the institutions' last nights without Dagster; a day that all have is materialized."""
    fleet, instance, key = settings.common_path() / settings.FLEET, context.instance, school.key(*FILE)
    states = {name: load_state(fleet, name) for name in registry.institutions}
    last = {name: state.last for name, state in states.items() if state.last is not None and state.last.day is not None}
    newest = max((outcome.at for outcome in last.values()), default=None)
    if newest is None or str(newest) == context.cursor:
        return dg.SkipReason("nothing has happened without Dagster")
    if runs.is_under_way(instance):
        return dg.SkipReason("a run is under way, and records its own days")
    events: list[dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation] = []
    for day in sorted({outcome.day for outcome in last.values() if outcome.day is not None}):
        ended = {name: outcome for name, outcome in last.items() if outcome.day == day}
        of_day = dg.AssetRecordsFilter(key, asset_partitions=[str(day)])
        notes = [record.asset_observation.metadata for record in runs.each(instance.fetch_observations, of_day)]
        known = {(note["institution"].value, note["at"].value) for note in notes if "institution" in note}
        unknown = {name: outcome for name, outcome in ended.items() if (name, str(outcome.at)) not in known}
        events += _outcomes(school, unknown, [day])
        away = [name for name, state in states.items() if state.why_paused(name)]
        is_whole = {*ended, *away} == {*states} and all(outcome.kind is NightKind.SYNCED for outcome in ended.values())
        if is_whole and not any(True for _ in runs.each(instance.fetch_materializations, of_day)):
            events += made(school, [day], len(ended))
    if events:
        events += _checked(school, last)
    return dg.SensorResult(asset_events=events, cursor=str(newest))


def _outcomes(school: School, ended: Ended, days: Sequence[date]) -> Iterator[dg.AssetObservation]:
    """Yield each institution's outcome, on each day."""
    for day, (name, outcome) in product(days, ended.items()):
        skipped = outcome.skipped.get(day, "")
        yield dg.AssetObservation(
            school.key(*FILE),
            partition=str(day),
            metadata={
                "institution": name,
                "outcome": str(NightKind.SKIPPED if skipped else outcome.kind),
                "says": skipped or outcome.message,
                "at": str(outcome.at),
                "morning page": dg.MetadataValue.url(f"/report/{name}.html"),
            },
        )


def _checked(school: School, names: Iterable[str]) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the checks over all of these institutions that have published."""
    findings = {}
    for name in names:
        with suppress(RollbookError, OSError):  # nothing is published yet; the run says what failed
            findings[name] = checks.look(assemble(settings.load(fetches=False, institution=name)))
    return checks.results(school, findings)


def _raise_if_bad(ended: Ended, *, is_sync: bool) -> None:
    """Raise the failure of a run, with a table of the institutions that did not succeed, unless all did.

    Where syncs are only held, raise HeldError. A backfill that was not confirmed has failed.
    """
    if all(outcome.kind is NightKind.SKIPPED for outcome in ended.values()):
        raise NothingLandedError(f"nothing was landed on these days: {listed([*ended])}")
    bad = {name: outcome for name, outcome in ended.items() if outcome.kind in (NightKind.FAILED, NightKind.HELD)}
    if not bad:
        return
    kinds = {kind: [name for name in bad if bad[name].kind is kind] for kind in (NightKind.FAILED, NightKind.HELD)}
    summary = ", ".join(f"{kind}: {listed(names)}" for kind, names in kinds.items() if names)
    alone = "".join(outcome.message for outcome in bad.values()) if len(ended) == 1 else ""
    many = f"{count_of(len(bad), 'institution')} of {len(ended)} {summary}."
    if is_sync and not kinds[NightKind.FAILED]:
        raise HeldError(alone or f"{many} The observations of published/rollbook say what to do", None)
    says = alone or f"{many} The table says why; to repeat only these, re-execute this run"
    lines = ["| institution | outcome | says |", "|---|---|---|"]
    lines += [f"| {name} | {outcome.kind} | {markdown(outcome.message)} |" for name, outcome in bad.items()]
    raise runs.Failed(RollbookError(says), not_done=dg.MetadataValue.md("\n".join(lines)))
