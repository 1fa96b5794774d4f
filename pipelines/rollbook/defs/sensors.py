"""The sensor `record`: it marks what happened without the nightly job, and fails the runs that died with Dagster.

Dagster is asked only for observations after the cursor, and for the events of months that have changed since. Without a
cursor it is asked for all, so that a restart records nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from hashlib import sha256
from typing import Any

import dagster as dg
import msgspec

from rollbook.defs import checks, events, runs
from rollbook.defs.events import FILE, Event
from rollbook.defs.resources import School
from rollbook.errors import NothingLandedError, RollbookError
from rollbook.health.status import freshness, open_holds
from rollbook.night.place import Place
from rollbook.settings import Settings

# Days recorded in one tick: each event takes Dagster some 20 ms.
MAX_DAYS = 30
NOTHING_NEW = "nothing has happened without Dagster"
UNDER_WAY = "a run is under way, and records its own days"

Tick = dg.SensorResult | dg.SkipReason


def record(school: School, unrecorded: Callable[[dg.SensorEvaluationContext], Tick]) -> dg.SensorDefinition:
    """Return the sensor, which records what `unrecorded` returns."""

    @dg.sensor(
        name=school.named("record"),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Marks days that were landed without Dagster, as by `rollbook sync`; notes what was held, discarded"
        " or erased. Also marks runs as failed that died together with Dagster, so that they block no later night.",
    )
    def tick(context: dg.SensorEvaluationContext) -> Tick:
        runs.fail_orphaned_runs(context.instance)
        try:
            return unrecorded(context)
        except RollbookError as error:
            return dg.SkipReason(error.message)

    return tick


class Cursor(msgspec.Struct, frozen=True):
    """What was recorded: of each month's days, as a digest; how many erasures; the night that was late; and Dagster's
    last observation.

    Small, because Dagster keeps it with each tick.
    """

    months: dict[str, str] = {}
    erasures: int = 0
    late: str = ""
    observation: int = 0

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """The cursor of the last tick; an empty one if there is none, or somebody has set another text in the UI."""
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(text or "{}", type=cls)
        return cls()


def unrecorded(school: School, context: dg.SensorEvaluationContext) -> Tick:
    """Return the events of what happened to a single school without Dagster, each once. Raises RollbookError."""
    instance, rollbook, cursor = context.instance, school.opened(), Cursor.read(context.cursor)
    place = rollbook.place
    marks = events.marks(place, sorted({*place.raw.days(), *place.raw.discarded_days()}))
    notes, erasures = [*_notes(school, place)], [*_erasures(school, place)]
    now = Cursor(
        _digests(marks, notes), len(erasures), _late(place, rollbook.settings, rollbook.clock()), cursor.observation
    )
    if now == cursor:
        return dg.SkipReason(NOTHING_NEW)
    if runs.is_under_way(instance):  # asked after the landings were read, and before what is marked
        return dg.SkipReason(UNDER_WAY)
    changed = {day: of for day, of in marks.items() if now.months[_month(day)] != cursor.months.get(_month(day))}
    key = school.key(*FILE)
    newer = dg.AssetRecordsFilter(key, after_storage_id=cursor.observation)
    observed = [*events.pages(instance.fetch_observations, newer)]
    noted = [*observed, *events.each(instance.fetch_observations, key, changed)]
    known = {_values(record.asset_observation) for record in noted}
    of_changed = [note for note in notes if date.fromisoformat(str(note.partition)) in changed]
    found: list[Event] = [note for note in (*of_changed, *erasures[cursor.erasures :]) if _values(note) not in known]
    missing = events.unmarked(instance, school, changed)
    found += events.made(school, place, dict([*missing.items()][:MAX_DAYS]))
    if found or now.late:
        with suppress(NothingLandedError):
            found += checks.results(school, {"": checks.look(place, rollbook.settings, rollbook.clock())})
    if len(missing) <= MAX_DAYS:  # else the rest follows in the next tick
        newest = max((record.storage_id for record in observed), default=cursor.observation)
        cursor = msgspec.structs.replace(now, observation=newest)
    return dg.SensorResult(asset_events=found, cursor=msgspec.json.encode(cursor).decode())


def _late(place: Place, settings: Settings, now: datetime) -> str:
    """The time of the night that is late; empty if none is, or before the first."""
    newest = place.newest()
    due, late_by = freshness(settings, now, newest, place.warehouse.shown())
    return str(due) if newest is not None and late_by is not None else ""


def _digests(marks: Mapping[date, Any], notes: list[dg.AssetObservation]) -> dict[str, str]:
    """What is to be recorded of each month's days, as digests."""
    by_month: dict[str, list[str]] = {}
    for day, mark in marks.items():
        noted = [_values(note) for note in notes if note.partition == str(day)]
        by_month.setdefault(_month(day), []).append(f"{day} {mark} {noted}")
    return {month: sha256("\n".join(days).encode()).hexdigest()[:16] for month, days in by_month.items()}


def _month(day: date) -> str:
    return f"{day:%Y-%m}"


def _notes(school: School, place: Place) -> Iterator[dg.AssetObservation]:
    """Yield an observation of each hold and each discard, without people's reasons."""
    yield from (events.hold_note(school, held) for held in open_holds(place.raw.manifests()))
    for manifest, discard in place.raw.discarded():
        at = f"{discard.discarded_at:%Y-%m-%d %H:%M:%S} UTC"
        metadata = {"discarded": f"landing {manifest.landing} of {manifest.snapshot_date}", "at": at}
        yield events.note(school, "discarded", metadata, manifest.snapshot_date)


def _erasures(school: School, place: Place) -> Iterator[dg.AssetObservation]:
    """Yield an observation of each erasure, without names. It is on no day."""
    register = place.raw.erasure_register.read()
    for number in range(1, len(register.erased) + 1 - (register.pending is not None)):
        yield events.note(school, "erased", {"erased": f"a student, by erasure {number}"})


def _values(note: dg.AssetObservation) -> str:
    return "; ".join(f"{name} {value.value}" for name, value in sorted(note.metadata.items()))
