"""The sensors: `record` marks what happened without Dagster, `watch` notices what no process can tell.

What Dagster has recorded is asked of Dagster itself, so that a restart records nothing twice; the cursor only spares
the question while nothing has happened.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256

import dagster as dg

from rollbook.defs import checks, runs
from rollbook.defs.facts import FILE, hold_note, made, unmarked
from rollbook.defs.partitions import BACKFILL_TAGS, BY_HAND, NIGHTLY, PARTITION_TAG, SYNC_TAG
from rollbook.defs.school import School
from rollbook.errors import NothingLandedError, RollbookError
from rollbook.features.alerts.alerts import AlertKind, Alerts, Outcome, deliver
from rollbook.features.assembly import assemble
from rollbook.health.status import freshness, open_holds
from rollbook.institutions import Registry
from rollbook.opened import Rollbook

Recorded = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation

# Days recorded in one tick: each event takes Dagster some 20 ms.
MAX_DAYS = 30
WILL_RETRY_TAG = "dagster/will_retry"
# Institutions checked per minute for late nights and undelivered messages; the rest follow in the next ticks.
MAX_CHECKED = 100
# How long a killed run is looked for after it was marked as failed.
REPORTED_WITHIN = timedelta(hours=1)


def sensors(school: School) -> list[dg.SensorDefinition]:
    """Return both sensors of a code location."""

    @dg.sensor(
        name=school.named("record"),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Marks days that were landed without Dagster, as by `rollbook sync`; notes what was held, discarded"
        " or erased.",
    )
    def record(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            return unrecorded(context, school)
        except RollbookError as error:
            return dg.SkipReason(error.message)

    @dg.sensor(
        name=school.named("watch"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert for each night that did not come and each sync that was killed, and what could not"
        " be delivered before. Also marks runs as failed whose process was killed, so that they block no later night.",
    )
    def watch(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        runs.fail_orphaned_runs(context.instance)
        late = ""
        try:
            says, late = watched(context.instance, school)
        except RollbookError as error:
            says = error.message
        failed = checks.results(school, {"": {(FILE, checks.IS_FRESH): late}}) if late else ()
        return dg.SensorResult(skip_reason=says, asset_events=[*failed])

    return [record, watch]


# --- what happened without Dagster ------------------------------------------------------------------------------------


def unrecorded(context: dg.SensorEvaluationContext, school: School) -> dg.SensorResult | dg.SkipReason:
    """Return the events of what happened without Dagster, each once. Raises RollbookError."""
    if (registry := school.registry()) is not None:
        from rollbook.defs import district  # a single school needs none of it

        return district.unrecorded(context, school, registry)
    instance, rollbook = context.instance, assemble(school.settings())
    landed = sorted({*rollbook.raw.days(), *rollbook.raw.discarded_days()})
    days = {day: [(m.landing, m.verdict) for m in rollbook.raw.manifests(day)] for day in landed}
    notes = {_values(note): note for note in _notes(school, rollbook)}
    newest = rollbook.newest()
    due, late_by = freshness(rollbook.settings, rollbook.clock(), newest, rollbook.warehouse.shown())
    late = str(due) if newest is not None and late_by is not None else ""
    state = (days, [*notes], rollbook.warehouse.versions.newest(), late)
    now = sha256(repr(state).encode()).hexdigest()
    if now == context.cursor:
        return dg.SkipReason("nothing has happened without Dagster")
    if runs.is_under_way(instance):  # asked after the landings were read, and before what is marked
        return dg.SkipReason("a run is under way, and records its own days")
    known = {_values(record.asset_observation) for record in runs.each(instance.fetch_observations, school.key(*FILE))}
    events: list[Recorded] = [note for values, note in notes.items() if values not in known]
    missing = unmarked(instance, school, rollbook, days.keys())
    for day in [*missing][:MAX_DAYS]:
        events += made(school, rollbook, [day], missing[day])
    if events or late:
        with suppress(NothingLandedError):
            events += checks.results(school, {"": checks.look(rollbook)})
    return dg.SensorResult(asset_events=events, cursor=now if len(missing) <= MAX_DAYS else None)


def _notes(school: School, rollbook: Rollbook) -> Iterator[dg.AssetObservation]:
    """Yield an observation of each hold, each discard and each erasure, without names and people's reasons."""
    yield from (hold_note(school, held) for held in open_holds(rollbook.raw.manifests()))
    key, register = school.key(*FILE), rollbook.raw.erasure_register.read()
    for manifest, discard in rollbook.raw.discarded():
        day, at = str(manifest.snapshot_date), f"{discard.discarded_at:%Y-%m-%d %H:%M:%S} UTC"
        metadata = {"discarded": f"landing {manifest.landing} of {day}", "at": at}
        yield dg.AssetObservation(key, partition=day, metadata=metadata)
    for number in range(1, len(register.erased) + 1 - (register.pending is not None)):
        yield dg.AssetObservation(key, metadata={"erased": f"a student, by erasure {number}"})


def _values(note: dg.AssetObservation) -> str:
    return "; ".join(f"{name} {value.value}" for name, value in sorted(note.metadata.items()))


# --- what no process can tell -----------------------------------------------------------------------------------------


def watched(instance: dg.DagsterInstance, school: School) -> tuple[str, str]:
    """Report the nights that are late and the syncs that were killed; returns a sentence, and what else is late.

    A single school's check of lateness is `record`'s. Starts no run. Raises RollbookError.
    """
    if (registry := school.registry()) is not None:
        late = ", ".join(watch_institutions(registry))
        return f"newly late: {late}" if late else "no institution is newly late", late
    rollbook = assemble(school.settings())
    alerts, newest = rollbook.find(Alerts), rollbook.newest()
    if not (alerts and alerts.channels):
        return "ROLLBOOK_NOTIFY is not set: no alerts are sent", ""
    report_killed(instance, alerts)
    alerts.report_late(lambda since: newest is not None and (newest.judged_at or newest.finished_at) >= since)
    deliver({"": alerts})
    return "it was checked whether the last night is late", ""


def report_killed(instance: dg.DagsterInstance, alerts: Alerts) -> None:
    """Report the syncs whose process was killed, unless Dagster retries them; all others tell of themselves."""
    failed = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.FAILURE],
        tags={SYNC_TAG: [NIGHTLY, BY_HAND]},
        updated_after=datetime.now(UTC) - REPORTED_WITHIN,
    )
    for run in instance.get_runs(failed):
        said = any(True for _ in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE))
        if not said and run.tags.get(WILL_RETRY_TAG) != "true" and not BACKFILL_TAGS & set(run.tags):
            text = f"Its process was killed, or could not start. Its log is in the UI (run {run.run_id})"
            text = f"{text}. Run `{alerts.settings.command('sync')}`"
            day = date.fromisoformat(run.tags[PARTITION_TAG])
            alerts.report(Outcome(run.run_id, AlertKind.FAILED, day, text))


def watch_institutions(registry: Registry) -> list[str]:
    """Report the late nights of institutions and deliver their alerts; returns the newly late institutions.

    At most MAX_CHECKED institutions per minute, in rotation: reading the settings of a thousand takes over a minute.
    """
    from rollbook.features.district.nights import Fleet  # a single school needs none of it

    names = tuple(registry.institutions)
    turn = int(datetime.now(UTC).timestamp()) // 60 % max(1, -(-len(names) // MAX_CHECKED))
    return [*Fleet(registry, names[turn * MAX_CHECKED :][:MAX_CHECKED]).watch(wait=True)] if names else []
