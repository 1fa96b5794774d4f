"""A district's definitions: a run does the work of several institutions, each in a process of its own.

A sync of one named institution is done in the run's own process instead, with a single school's options. Each outcome
is an observation of the published asset. A day is materialized when every institution's sync succeeded. A re-executed
run repeats only what is missing, since the runner fetches no day twice. Nights without Dagster are recorded by their
outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from hashlib import sha256
from itertools import product
from typing import Any

import dagster as dg

from rollbook import settings
from rollbook.assembly import assemble
from rollbook.defs import checks, events, jobs, partitions, runs
from rollbook.defs.assets import assets
from rollbook.defs.checks import CheckFinding
from rollbook.defs.events import ALL_ASSETS, FILE, Event
from rollbook.defs.partitions import NIGHTLY, SYNC_TAG
from rollbook.defs.resources import School
from rollbook.defs.schedules import nightly
from rollbook.defs.sensors import NOTHING_NEW, UNDER_WAY, Tick, record
from rollbook.defs.work import Options, Outcome, do, mark_as_sync
from rollbook.errors import ArgumentError, HeldError, NothingLandedError, RollbookError, SettingError
from rollbook.features.alerts import definitions as alerts
from rollbook.features.alerts.definitions import watch
from rollbook.features.district.nights import Institutions, load_state
from rollbook.features.district.worker import NightKind, NightOutcome, failed_night
from rollbook.institutions import Registry
from rollbook.landing.manifest import Details
from rollbook.opened import Rollbook
from rollbook.settings import SourceSettings
from rollbook.util.text import count_of, listed, markdown

# The institutions that a run is limited to, comma-separated; without it, a run covers all of the registry.
INSTITUTION_TAG = "rollbook/institution"
ROOT_TAG = "dagster/root_run_id"
# Institutions checked per minute for late nights and undelivered messages; the rest follow in the next ticks.
MAX_CHECKED = 100

Ended = Mapping[str, NightOutcome]


def definitions(school: School) -> dg.Definitions:
    """Return what Dagster loads for a district. Raises SettingError for a broken registry."""
    everything = assets(school, partial(work, school))
    return dg.Definitions(
        assets=[everything],
        jobs=jobs.jobs(school, everything, open_institution),
        schedules=schedules(school),
        sensors=[record(school, partial(unrecorded, school)), watch(school, partial(watched, school))],
    )


def _registry(school: School) -> Registry:
    """The registry as it is now. Raises SettingError."""
    if (registry := school.registry()) is None:
        raise SettingError("The registry of institutions is gone: put it back, or have Dagster load the code again")
    return registry


# --- schedules and jobs -----------------------------------------------------------------------------------------------

# Characters of cron lines and zones that a schedule's name may not hold.
_IN_NAMES = str.maketrans({"*": "x", "/": "_per_", ",": "_and_", "-": "_to_", "+": "_plus_", " ": "_"})


def schedules(school: School) -> list[dg.ScheduleDefinition]:
    """Return a schedule for each cron line and zone."""
    by_name = {_schedule(source): source for source in school.sources().values()}
    return [nightly(school, source, name, partial(_due, school, name)) for name, source in by_name.items()]


def _schedule(source: SourceSettings) -> str:
    """The name of the schedule for all institutions with this cron line and zone."""
    line = f"{source.timezone.replace('/', '_')} {' '.join(source.cron.split())}"
    return f"{NIGHTLY}_{line.translate(_IN_NAMES)}"


def _due(school: School, schedule: str) -> dict[str, str] | None:
    """The tag of a schedule's institutions by the registry as it is now; None if it has none any more."""
    sources = school.sources()
    # An institution with invalid settings is in every run, which says what is invalid.
    names = [n for n in _registry(school).institutions if n not in sources or _schedule(sources[n]) == schedule]
    return {INSTITUTION_TAG: ",".join(names)} if names else None


def open_institution(_: object, institution: str) -> Rollbook:
    """Return the institution's warehouse. Raises RollbookError."""
    if not institution:
        raise ArgumentError("This is a district: name the institution")
    return assemble(settings.load(fetches=False, institution=institution))


# --- runs -------------------------------------------------------------------------------------------------------------


def work(school: School, context: dg.AssetExecutionContext, options: Options, days: Sequence[date]) -> Outcome:
    """Do the work of the institutions that a run's tag names, or of all. Raises RollbookError."""
    tags, registry = context.run.tags, _registry(school)
    named = [name for name in map(str.strip, tags.get(INSTITUTION_TAG, "").split(",")) if name]
    names = tuple(named or registry.institutions)
    if not context.selected_asset_keys:
        return Outcome(_checked(school, names))
    todays = {datetime.now(s.zone).date() for name, s in settings.sources(registry).items() if name in names}
    is_sync = partitions.is_sync(tags, days, todays)
    if is_sync and tags.get(INSTITUTION_TAG) in names and tags.get(SYNC_TAG) != NIGHTLY:
        return _sync_alone(context, options, school, names[0], days)
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
        ended = Institutions(registry, names).sync(days[0], fresh=fresh)
        done = days
    else:
        ended = dict(Institutions(registry, names).backfill(days[0], days[-1], confirmed=options.confirm))
        done = sorted({day for outcome in ended.values() for day in outcome.days})
    for name, outcome in ended.items():
        for reason in [*outcome.skipped.values(), *([outcome.message] if outcome.kind is NightKind.SKIPPED else [])]:
            context.log.info("%s: %s", name, reason)
    found: list[Event] = [*_outcomes(school, ended, days), *_checked(school, names)]
    if (error := _error(ended, is_sync=is_sync)) is not None:
        return Outcome(found, error, _not_done(ended))
    return Outcome([*found, *made(school, done, len(ended))])


def _sync_alone(
    context: dg.AssetExecutionContext, options: Options, school: School, name: str, days: Sequence[date]
) -> Outcome:
    """Sync one institution here. It does not materialize the district's day."""
    rollbook = assemble(settings.load(fetches=True, institution=name))
    error = do(context, options, school, rollbook.writer(), days, is_sync=True).error
    # As the listener has noted it: `record` knows an outcome by its time.
    noted = load_state(settings.common_path() / settings.DISTRICT, name).last
    ended = noted or failed_night(error or RollbookError("its outcome could not be noted"), rollbook.clock(), days[0])
    return Outcome([*_outcomes(school, {name: ended}, days), *_checked(school, [name])], error)


def made(school: School, days: Iterable[date], institutions: int) -> Iterator[dg.AssetMaterialization]:
    """Yield each asset of these days: every institution has them."""
    for day, path in product(days, ALL_ASSETS):
        yield dg.AssetMaterialization(school.key(*path), partition=str(day), metadata={"institutions": institutions})


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


def _checked(school: School, names: Iterable[str]) -> list[dg.AssetCheckEvaluation]:
    """Return the checks over all of these institutions that have published."""
    findings = {}
    for name in names:
        with suppress(RollbookError, OSError):  # nothing is published yet; the run says what failed
            findings[name] = _looked(name)
    return [*checks.results(school, findings)]


def _looked(name: str) -> list[CheckFinding]:
    own = assemble(settings.load(fetches=False, institution=name))
    return checks.look(own.place, own.settings, own.clock())


def _error(ended: Ended, *, is_sync: bool) -> RollbookError | None:
    """What ends a run of which institutions did not succeed; None if all did.

    Where syncs are only held, a HeldError. A backfill that was not confirmed has failed.
    """
    if all(outcome.kind is NightKind.SKIPPED for outcome in ended.values()):
        return NothingLandedError(f"nothing was landed on these days: {listed([*ended])}")
    bad = _bad(ended)
    if not bad:
        return None
    kinds = {kind: [name for name in bad if bad[name].kind is kind] for kind in (NightKind.FAILED, NightKind.HELD)}
    summary = ", ".join(f"{kind}: {listed(names)}" for kind, names in kinds.items() if names)
    alone = "".join(outcome.message for outcome in bad.values()) if len(ended) == 1 else ""
    many = f"{count_of(len(bad), 'institution')} of {len(ended)} {summary}."
    if is_sync and not kinds[NightKind.FAILED]:
        return HeldError(alone or f"{many} The observations of published/rollbook say what to do", None)
    return RollbookError(alone or f"{many} The table says why; to repeat only these, re-execute this run")


def _not_done(ended: Ended) -> dict[str, Any]:
    """A failed run's metadata: a table of the institutions that did not succeed."""
    lines = ["| institution | outcome | says |", "|---|---|---|"]
    lines += [f"| {name} | {outcome.kind} | {markdown(outcome.message)} |" for name, outcome in _bad(ended).items()]
    return {"not_done": dg.MetadataValue.md("\n".join(lines))}


def _bad(ended: Ended) -> Ended:
    return {name: outcome for name, outcome in ended.items() if outcome.kind in (NightKind.FAILED, NightKind.HELD)}


# --- sensors ----------------------------------------------------------------------------------------------------------


def unrecorded(school: School, context: dg.SensorEvaluationContext) -> Tick:
    """Return the events of the institutions' last nights without Dagster; a day that all have is materialized."""
    district, instance, key = settings.common_path() / settings.DISTRICT, context.instance, school.key(*FILE)
    states = {name: load_state(district, name) for name in _registry(school).institutions}
    last = {name: state.last for name, state in states.items() if state.last is not None and state.last.day is not None}
    cursor = sha256(repr([(name, str(outcome.at)) for name, outcome in last.items()]).encode()).hexdigest()
    if not last or cursor == context.cursor:
        return dg.SkipReason(NOTHING_NEW)
    if runs.is_under_way(instance):
        return dg.SkipReason(UNDER_WAY)
    found: list[Event] = []
    for day in sorted({outcome.day for outcome in last.values() if outcome.day is not None}):
        ended = {name: outcome for name, outcome in last.items() if outcome.day == day}
        notes = [r.asset_observation.metadata for r in events.each(instance.fetch_observations, key, [day])]
        known = {(note["institution"].value, note["at"].value) for note in notes if "institution" in note}
        unknown = {name: outcome for name, outcome in ended.items() if (name, str(outcome.at)) not in known}
        found += _outcomes(school, unknown, [day])
        away = [name for name, state in states.items() if state.why_paused(name)]
        is_whole = {*ended, *away} == {*states} and all(outcome.kind is NightKind.SYNCED for outcome in ended.values())
        if is_whole and not any(True for _ in events.each(instance.fetch_materializations, key, [day])):
            found += made(school, [day], len(ended))
    if found:
        found += _checked(school, last)
    return dg.SensorResult(asset_events=found, cursor=cursor)


def watched(school: School, _: dg.DagsterInstance) -> dg.SensorResult:
    """Report the late nights of institutions, and deliver their alerts. Raises SettingError.

    At most MAX_CHECKED institutions per minute, in rotation: reading the settings of a thousand takes over a minute.
    """
    registry = _registry(school)
    names = tuple(registry.institutions)
    turn = int(datetime.now(UTC).timestamp()) // 60 % max(1, -(-len(names) // MAX_CHECKED))
    checked = names[turn * MAX_CHECKED :][:MAX_CHECKED]
    late = [*Institutions(registry, checked).watch(partial(alerts.send, wait=True))] if checked else []
    if not late:
        return dg.SensorResult(skip_reason="no institution is newly late")
    failed = checks.results(school, {"": [CheckFinding((FILE, checks.IS_FRESH), len(late), listed(late))]})
    return dg.SensorResult(skip_reason=f"newly late: {listed(late)}", asset_events=[*failed])
