"""Time: nights and partitions in the configured zone, across both clock changes, at midnight's edges, after
the machine was off at the hour, and with a clock that was set back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
import time_machine
from dagster._utils.schedules import schedule_execution_time_iterator

from rollbook.errors import MachineError
from rollbook.landing.manifest import Verdict
from tests.support.graph import EXAMPLE, loaded
from tests.support.nights import new_house
from tests.support.records import classes, students
from tests.support.tiers import weekly

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
PUBLISHED = dg.AssetKey(["published", "rollbook"])
# Around every change of the clock: spring and autumn, in both zones.
SPRING = {BERLIN: date(2027, 3, 28), NEW_YORK: date(2027, 3, 14)}
AUTUMN = {BERLIN: date(2026, 10, 25), NEW_YORK: date(2026, 11, 1)}
LINES = ("15 2 * * *", "30 1 * * *", "30 2 * * *", "0 0 * * *", "59 23 * * *")
CHANGES = [(zone, change[zone], line) for zone in (BERLIN, NEW_YORK) for change in (SPRING, AUTUMN) for line in LINES]


@contextmanager
def graph(zone: str, line: str = "15 2 * * *", **more: str) -> Iterator[Any]:
    env = EXAMPLE | {"ROLLBOOK_TIMEZONE": zone, "ROLLBOOK_CRON": line, "ROLLBOOK_FIRST_DATE": "2026-08-01"} | more
    with loaded(env) as defs:
        yield defs


def dagster_ticks(line: str, zone: str, start: datetime, days: int) -> list[datetime]:
    """The moments at which Dagster's scheduler would start a run."""
    ticks = schedule_execution_time_iterator(start.timestamp(), line, zone, ascending=True)
    end = start + timedelta(days=days)
    return [t.astimezone(UTC) for t in takewhile(lambda t: t < end, ticks) if t > start]


def run_at(defs: Any, tick: datetime) -> Any:
    """The only run that the schedule asks for at a tick."""
    (schedule,) = defs.schedules
    context = dg.build_schedule_context(scheduled_execution_time=tick, repository_def=defs.get_repository_def())
    (request,) = schedule.evaluate_tick(context).run_requests
    return request


# --- the schedule ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zone", "change", "line"), CHANGES)
def test_each_night_has_one_sync_labelled_with_its_date(zone: str, change: date, line: str) -> None:
    """Three nights around a change of the clock: none is left out, none comes twice, no label is a day off."""
    start = datetime(change.year, change.month, change.day, 12, tzinfo=ZoneInfo(zone)) - timedelta(days=2)
    labels = []
    for tick in dagster_ticks(line, zone, start, 4):
        with time_machine.travel(tick + timedelta(seconds=3), tick=False), graph(zone, line) as defs:
            labels.append(run_at(defs, tick).partition_key)
            days = defs.resolve_asset_graph().get(PUBLISHED).partitions_def
            assert labels[-1] == days.get_partition_keys()[-1]
    first = date.fromisoformat(labels[0])
    assert labels == [str(first + timedelta(days=n)) for n in range(4)]
    assert str(change) in labels


@pytest.mark.parametrize(
    ("tick", "now", "label"),
    [
        ("2026-11-20T22:59:00", "2026-11-20T22:59:02", "2026-11-20"),  # 23:59 in Berlin, on time
        ("2026-11-20T22:59:00", "2026-11-20T23:00:01", "2026-11-21"),  # a minute late: already tomorrow there
        ("2026-11-20T22:59:00", "2026-11-23T06:30:00", "2026-11-23"),  # the machine was off over the weekend
    ],
)
def test_a_late_tick_is_labelled_with_the_day_of_its_fetch(tick: str, now: str, label: str) -> None:
    with graph(BERLIN, "59 23 * * *") as defs, time_machine.travel(f"{now}+00:00", tick=False):
        run = run_at(defs, datetime.fromisoformat(f"{tick}+00:00"))
    assert (run.partition_key, run.tags["rollbook/sync"]) == (label, "nightly")


# --- the clock itself ------------------------------------------------------------------------------------------------


@pytest.mark.story
@pytest.mark.parametrize(
    ("here", "there", "says"),
    [
        # In minutes since the second night's sync.
        (-2, 24 * 60, "which is before its last sync (2026-11-21 02:15 UTC, of 2026-11-21)"),
        (1, 24 * 60, "0 hours have passed since its last sync (2026-11-21 02:15 UTC, of 2026-11-21), and by that"),
        (24 * 60, 24 * 60 + 121, "24 hours have passed since"),
        (24 * 60, 24 * 60 - 121, "24 hours have passed since"),
        (-30, 30, "which is before its last sync"),
    ],
)
def test_a_clock_that_went_another_way_than_the_services_fetches_nothing(here: int, there: int, says: str) -> None:
    with new_house(students(30), classes(1)) as house:
        for number in (1, 2):
            house.at(number).sync()
        before, last = house.state(), house.now
        house.now, house.service.now = last + timedelta(minutes=here), lambda: last + timedelta(minutes=there)
        with pytest.raises(MachineError) as refused:
            house.sync()
        assert says in refused.value.message
        assert "`rollbook discard 2026-11-21`" in refused.value.message
        assert house.state() == before
        assert [m.snapshot_date for m in house.rollbook().raw.manifests()] == [date(2026, 11, 20), date(2026, 11, 21)]


@pytest.mark.parametrize("minutes", [weekly(61), weekly(-61), 119, -119])
def test_summer_time_at_the_service_and_a_slow_clock_stop_no_night(minutes: int) -> None:
    with new_house(students(30), classes(1)) as house:
        for number in (1, 2):
            house.at(number).sync()
        house.at(3).service.now = lambda: house.now + timedelta(minutes=minutes)
        assert house.sync().manifest.snapshot_date == date(2026, 11, 22)


def test_a_clock_set_back_syncs_a_day_again_without_harm_to_history() -> None:
    with new_house(students(30), classes(1)) as house:
        house.at(1).sync()
        house.service.students[0]["name"] = "Pupil Renamed"
        house.at(2).sync()
        house.at(1).sync()  # both clocks show the first night again
        names = house.query("SELECT name, valid_from, valid_to FROM history.students WHERE student_id = 1")
        assert names == [("Pupil Renamed", date(2026, 11, 20), None)]
        house.at(3).sync()
        assert [m.verdict for m in house.rollbook().raw.manifests()] == [Verdict.SYNCED] * 4
