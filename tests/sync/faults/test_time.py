"""Time: nights, partitions and freshness in the configured zone, across both clock changes, at midnight's edges, after
the machine was off at the hour, and with a clock that was set back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, takewhile
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
import time_machine
from dagster._core.definitions.freshness_evaluator import FRESHNESS_EVALUATORS_BY_POLICY_TYPE
from dagster._core.loader import LoadingContextForTest
from dagster._utils.schedules import schedule_execution_time_iterator

from pipelines.landing.manifest import Verdict
from tests.support.graph import EXAMPLE, loaded
from tests.support.nights import new_house
from tests.support.records import classes, students
from tests.support.tiers import slow

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
PUBLISHED = dg.AssetKey(["published", "rollbook"])
# Around every change of the clock: spring and autumn, in both zones.
SPRING = {BERLIN: date(2027, 3, 28), NEW_YORK: date(2027, 3, 14)}
AUTUMN = {BERLIN: date(2026, 10, 25), NEW_YORK: date(2026, 11, 1)}
LINES = ("15 2 * * *", "30 1 * * *", "30 2 * * *", "0 0 * * *", "59 23 * * *")
CHANGES = [(zone, change[zone], line) for zone in (BERLIN, NEW_YORK) for change in (SPRING, AUTUMN) for line in LINES]


@contextmanager
def graph(zone: str, line: str = "15 2 * * *", **more: str) -> Iterator[ModuleType]:
    env = EXAMPLE | {"ROLLBOOK_TIMEZONE": zone, "ROLLBOOK_CRON": line, "ROLLBOOK_FIRST_DATE": "2026-08-01"} | more
    with loaded(env) as module:
        yield module


def dagster_ticks(line: str, zone: str, start: datetime, days: int) -> list[datetime]:
    """The moments at which Dagster's scheduler would start a run."""
    found = schedule_execution_time_iterator(start.timestamp(), line, zone, ascending=True)
    end = start + timedelta(days=days)
    return [t.astimezone(UTC) for t in takewhile(lambda t: t < end, found) if t > start]


def run_at(module: ModuleType, tick: datetime) -> Any:
    """The one run that the schedule asks for at a tick."""
    (schedule,) = module.defs.schedules
    context = dg.build_schedule_context(scheduled_execution_time=tick, repository_def=module.defs.get_repository_def())
    (request,) = schedule.evaluate_tick(context).run_requests
    return request


# --- the schedule ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zone", "change", "line"), CHANGES)
def test_there_is_one_sync_a_night_and_each_is_labelled_with_its_own_date(zone: str, change: date, line: str) -> None:
    """Three nights around a change of the clock: none is left out, none comes twice, no label is a day off."""
    start = datetime(change.year, change.month, change.day, 12, tzinfo=ZoneInfo(zone)) - timedelta(days=2)
    labels = []
    with graph(zone, line) as module:
        for tick in dagster_ticks(line, zone, start, 4):
            with time_machine.travel(tick + timedelta(seconds=3), tick=False):
                labels.append(run_at(module, tick).partition_key)
                days = module.defs.resolve_asset_graph().get(PUBLISHED).partitions_def
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
def test_a_tick_that_comes_late_is_labelled_with_the_day_on_which_it_fetches(tick: str, now: str, label: str) -> None:
    with graph(BERLIN, "59 23 * * *") as module, time_machine.travel(f"{now}+00:00", tick=False):
        run = run_at(module, datetime.fromisoformat(f"{tick}+00:00"))
    assert (run.partition_key, run.tags["rollbook/sync"]) == (label, "nightly")


@pytest.mark.parametrize(
    ("now", "newest"),
    [
        ("2026-10-24T21:59:59", "2026-10-24"),
        ("2026-10-24T22:00:00", "2026-10-25"),  # midnight in Berlin's summer time
        ("2026-10-25T22:59:59", "2026-10-25"),  # a day of 25 hours
        ("2026-10-25T23:00:00", "2026-10-26"),
        ("2027-03-28T21:59:59", "2027-03-28"),  # a day of 23 hours
        ("2027-03-28T22:00:00", "2027-03-29"),
    ],
)
def test_today_begins_at_midnight_in_the_zone(now: str, newest: str) -> None:
    moment = datetime.fromisoformat(f"{now}+00:00")
    with graph(BERLIN) as module:
        days = module.defs.resolve_asset_graph().get(PUBLISHED).partitions_def
        assert days.get_partition_keys(current_time=moment)[-1] == newest
    with new_house(timezone=BERLIN) as house:
        house.now = moment
        assert str(house.rollbook().today()) == newest


# --- freshness -------------------------------------------------------------------------------------------------------


class Freshness:
    """The published asset's freshness as Dagster's daemon evaluates it, over an instance of its own."""

    def __init__(self, module: ModuleType, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.node = module.defs.resolve_asset_graph().get(PUBLISHED)
        policy = self.node.freshness_policy_or_from_metadata
        self.evaluator = FRESHNESS_EVALUATORS_BY_POLICY_TYPE[type(policy)]()

    def published(self, moment: datetime) -> None:
        """A sync was published then."""
        with time_machine.travel(moment, tick=False):
            self.instance.report_runless_asset_event(dg.AssetMaterialization(PUBLISHED))

    def at(self, moment: datetime) -> str:
        """What the UI shows then."""
        with time_machine.travel(moment, tick=False):
            context = LoadingContextForTest(self.instance)
            return asyncio.run(self.evaluator.evaluate_freshness(context=context, node=self.node)).value


@pytest.mark.parametrize(("zone", "change", "line"), [CHANGES[0], *(slow(*change) for change in CHANGES[1:])])
def test_the_published_file_is_green_while_nights_come_and_red_when_one_is_missed(
    zone: str, change: date, line: str
) -> None:
    """Also on the nights on which the clock changes; the night after the change is the one that is missed."""
    noon = datetime(change.year, change.month, change.day, 12, tzinfo=ZoneInfo(zone)) - timedelta(days=2)
    ticks = dagster_ticks(line, zone, noon, 5)
    with graph(zone, line) as module, dg.DagsterInstance.ephemeral() as instance:
        fresh = Freshness(module, instance)
        assert fresh.at(ticks[0]) == "UNKNOWN"
        shown = []
        for tick, following in pairwise(ticks[:3]):
            fresh.published(tick + timedelta(minutes=1))
            hours = int((following - tick) / timedelta(hours=1))
            shown += [fresh.at(tick + timedelta(minutes=2, hours=h)) for h in range(hours)]
        fresh.published(ticks[2] + timedelta(minutes=1))
        assert set(shown) == {"PASS"}
        missed = ticks[3]
        assert fresh.at(missed + timedelta(minutes=50)) == "PASS"
        assert fresh.at(missed + timedelta(hours=3, minutes=1)) == "FAIL"
        assert fresh.at(missed + timedelta(hours=20)) == "FAIL"
        fresh.published(missed + timedelta(hours=21))
        assert fresh.at(missed + timedelta(hours=21, minutes=1)) == "PASS"


# --- the clock itself ------------------------------------------------------------------------------------------------


def test_a_clock_set_back_by_a_day_syncs_that_day_again_and_history_stays_a_function_of_the_days() -> None:
    with new_house(students(30), classes(1)) as house:
        house.at(1).sync()
        house.service.students[0]["name"] = "Pupil Renamed"
        house.at(2).sync()
        house.at(1).sync()  # the clock says it is the first night again, and so does the service's
        names = house.query("SELECT name, valid_from, valid_to FROM history.students WHERE student_id = 1")
        assert names == [("Pupil Renamed", date(2026, 11, 20), None)]
        house.at(3).sync()
        assert [m.verdict for m in house.rollbook().raw.manifests()] == [Verdict.SYNCED] * 4
