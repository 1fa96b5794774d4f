"""A batch's run under a real daemon, killed while it syncs the second of three: what is missing is done, once."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines.several import outcomes_of
from tests.support.processes.servers import Served, serving, until
from tests.support.records import school_class, students
from tests.support.warehouses.district import District, new_district
from tests.support.wire import faults

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NAMES = ("ash", "birch", "cedar")
SELECTOR = {"repositoryLocationName": "rollbook", "repositoryName": "__repository__", "jobName": "nightly_sync"}
LAUNCH = """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
    ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
AGAIN = """mutation ($params: ReexecutionParams!) { launchRunReexecution(reexecutionParams: $params) {
    ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""


def statuses(served: Served) -> dict[str, str]:
    """The status of each run, the newest first."""
    return {run["runId"]: run["status"] for run in served.runs()}


def ended(home: Path, run_id: str) -> dict[str, str]:
    """The outcome of each institution in a run."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        return outcomes_of(instance, run_id)


def launch(served: Served, day: str) -> str:
    """Launch the night of the batch, as its schedule does; returns the run's id."""
    key = f"{day}|batch-01"
    tags = {
        "dagster/partition": key,
        "dagster/partition/date": day,
        "dagster/partition/institution": "batch-01",
        "rollbook/sync": "nightly",
    }
    metadata = {"tags": [{"key": k, "value": v} for k, v in tags.items()]}
    params: dict[str, Any] = {"selector": SELECTOR, "runConfigData": {}, "executionMetadata": metadata}
    run_id: str = served.ask(LAUNCH, params=params)["launchRun"]["run"]["runId"]
    return run_id


def once(district: District) -> dict[str, int]:
    """How many requests a night of each school takes."""
    return {name: 2 + -(-len(school.students) // 100) for name, school in district.schools.items()}


def test_a_batch_killed_in_its_second_institution_does_only_what_is_missing(tmp_path: Path) -> None:
    home, today = tmp_path / "home", str(datetime.now(UTC).date())
    with new_district(NAMES[:2], NAMES[2:]) as district:
        district.write(defaults='cron = "0 0 1 1 *"', top="batches = 1")
        for name in NAMES:
            district[name].students = students(250)
            district[name].classes = [school_class(501)]
        district["birch"].on(faults.hang(20), path="students", page=2)
        with serving(home, district.environment()) as served:
            killed = launch(served, today)
            until(lambda: any(asked.page == 2 for asked in district["birch"].asked("students")), 240)
            number = served.worker_of(killed)
            assert number is not None
            os.kill(number, signal.SIGKILL)
            asked = district.asked()
            assert (asked["ash"], asked["cedar"]) == (once(district)["ash"], 0)

            # It is seen as failed, and Dagster starts it again: that is for crashes only.
            until(lambda: statuses(served)[killed] == "FAILURE", 180)
            assert ended(home, killed) == {"ash": "synced"}
            until(lambda: len(statuses(served)) == 2, 180)
            (again,) = statuses(served).keys() - {killed}
            until(lambda: statuses(served)[again] not in ("QUEUED", "STARTING", "STARTED", "NOT_STARTED"), 240)
            assert statuses(served)[again] == "SUCCESS"
            assert ended(home, again) == {"birch": "synced", "cedar": "synced"}
            full = once(district)
            assert district.asked() == {**full, "birch": asked["birch"] + full["birch"]}

            # A person who executes it once more finds nothing to do.
            asked = district.asked()
            params = {"parentRunId": killed, "strategy": "ALL_STEPS"}
            third = served.ask(AGAIN, params=params)["launchRunReexecution"]["run"]["runId"]
            until(lambda: statuses(served)[third] == "SUCCESS", 240)
            assert ended(home, third) == {}
            assert district.asked() == asked
        with dg.DagsterInstance.from_config(str(home)) as instance:
            marked = instance.get_materialized_partitions(dg.AssetKey(["published", "rollbook"]))
        assert marked == {f"{today}|batch-01"}
        for name in NAMES:
            house = district.house(name)
            assert len(house.tables()["main.students"]) == 250, name
            assert not any(house.examined().values()), name
