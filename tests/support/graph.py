"""The definitions as Dagster loads them with given settings, and the job run in this process."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import time_machine

from rollbook import settings
from rollbook.defs.component import load
from rollbook.defs.resources import School
from rollbook.features.alerts.definitions import SENDER
from tests.support.nights import House, night
from tests.support.wire.service import KEY

# The tag of a run that the schedule started.
SYNC = {"rollbook/sync": "nightly"}
QUIET = {"telemetry": {"enabled": False}}
EXAMPLE = {"ROLLBOOK_BASE_URL": "https://records.example.org", "ROLLBOOK_API_KEY": KEY}


@contextmanager
def loaded(env: Mapping[str, str] = EXAMPLE) -> Iterator[dg.Definitions]:
    """The definitions under given settings alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "DOTENV", os.devnull)
        for name, value in env.items():
            patch.setenv(name, value)
        yield load()


@contextmanager
def quarter_past_two(house: House, number: int) -> Iterator[date]:
    """Let it be a quarter past two of a night, here and at the service."""
    house.at(number)
    with time_machine.travel(house.now, tick=True):
        yield night(number)


class Job:
    """The nightly job, run in this process against a new instance."""

    def __init__(self, defs: dg.Definitions, instance: dg.DagsterInstance, school: School | None = None) -> None:
        self.defs = defs
        self.instance = instance
        self.school = school or School()

    def run(
        self,
        *days: date,
        options: dict[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
        launched_from: Sequence[str] = (),
    ) -> dg.ExecuteInProcessResult:
        """One run: of a day, or, given two, of the days from the first to the second; of all assets, or of a single
        asset.
        """
        return self.execute(str(days[0]), str(days[-1]), options or {}, tags or {}, launched_from)

    def execute(
        self,
        first: str,
        last: str,
        options: Mapping[str, Any],
        tags: Mapping[str, str],
        launched_from: Sequence[str] = (),
    ) -> dg.ExecuteInProcessResult:
        """A run of a partition, or from the first to the last; as each run does, it loads the code."""
        self.defs = load(self.school)
        span = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        return self.defs.resolve_job_def(self.school.named("nightly_sync")).execute_in_process(
            partition_key=first if first == last else None,
            instance=self.instance,
            asset_selection=[dg.AssetKey(launched_from)] if launched_from else None,
            raise_on_error=False,
            tags={**({} if first == last else span), **tags},
            run_config={
                "ops": {self.school.named("sync"): {"config": {**options}}},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
        )

    def by_hand(self, name: str, **options: Any) -> dg.ExecuteInProcessResult:
        """A run of an operator's job."""
        self.defs = load(self.school)
        op = {"approve_held": "approve", "discard": "landing"}[name]
        return self.defs.resolve_job_def(self.school.named(name)).execute_in_process(
            instance=self.instance,
            raise_on_error=False,
            run_config={
                "ops": {self.school.named(op): {"config": options}},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
        )

    def record(self) -> list[Any]:
        """A tick of the sensor that marks what happened without the nightly job; returns what it recorded."""
        sensors = Sensors(self)
        sensors.tick("record")
        return sensors.recorded

    def nightly(self, house: House, number: int, **options: Any) -> dg.ExecuteInProcessResult:
        """The run that the schedule starts on a night."""
        with quarter_past_two(house, number) as day:
            return self.run(day, options=options, tags=SYNC)

    def tags(self, result: dg.ExecuteInProcessResult) -> Mapping[str, str]:
        """A run's tags, at the end."""
        (run,) = self.instance.get_runs(dg.RunsFilter([result.run_id]))
        return run.tags

    def marked(self, *key: str) -> list[str]:
        """The days on which an asset is marked as made."""
        return sorted(self.instance.get_materialized_partitions(dg.AssetKey(key)))


class Sensors:
    """The sensors as the daemon evaluates them, each with a cursor."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.cursors: dict[str, str | None] = {}
        self.recorded: list[Any] = []

    def look(self) -> None:
        """One tick of each, until the alerts are sent."""
        for name in ("record", "watch"):
            self.tick(name)
        for thread in sending():
            thread.join()

    def tick(self, name: str) -> str | None:
        """One tick of a sensor; the events are recorded, as the daemon does. Returns why it was skipped."""
        self.job.defs = load(self.job.school)
        name = self.job.school.named(name)
        sensor = next(sensor for sensor in self.job.defs.sensors or () if sensor.name == name)
        repository, cursor = self.job.defs.get_repository_def(), self.cursors.get(name)
        with dg.build_sensor_context(self.job.instance, cursor=cursor, repository_def=repository) as context:
            tick = sensor.evaluate_tick(context)
        self.cursors[name] = tick.cursor
        self.recorded += tick.asset_events
        for event in tick.asset_events:
            self.job.instance.report_runless_asset_event(event)
        return tick.skip_message


def sending() -> list[threading.Thread]:
    """What sends alerts in the background."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(SENDER)]


@contextmanager
def job(house: House, home: Path, **env: str) -> Iterator[Job]:
    """The job over a house, under the house's settings."""
    with definitions(house.environment() | env, home) as (defs, instance):
        yield Job(defs, instance)


@contextmanager
def definitions(env: Mapping[str, str], home: Path) -> Iterator[tuple[dg.Definitions, dg.DagsterInstance]]:
    """The definitions under given settings, and a quiet instance for the runs."""
    home.mkdir(exist_ok=True)
    with loaded(env) as defs, dg.DagsterInstance.local_temp(str(home), overrides=QUIET) as instance:
        yield defs, instance


def failure(result: dg.ExecuteInProcessResult) -> tuple[str, str | None, dict[str, Any]]:
    """A failed run's error: the first line, the description and the metadata."""
    (event,) = [e for e in result.all_events if e.is_step_failure]
    data = event.step_failure_data
    assert data.error is not None
    assert data.user_failure_data is not None
    words = data.user_failure_data
    lines = data.error.message.strip().splitlines()
    return lines[0], words.description, {k: v.value for k, v in words.metadata.items()}


def warnings(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> list[str]:
    """The warnings in a run's log."""
    entries = [log.event_log_entry for log in instance.get_records_for_run(result.run_id).records]
    return [entry.user_message for entry in entries if entry.level == logging.WARNING]


def says(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> tuple[str, str]:
    """What the run of an operator's job says that it changed: a sentence, and a table."""
    (table,) = [e.step_output_data.metadata["what changed"].value for e in result.all_events if e.is_successful_output]
    return removal(instance, result), str(table)


def removal(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> str:
    """What a run says that it removed."""
    said = [log.event_log_entry.user_message for log in instance.get_records_for_run(result.run_id).records]
    (sentence,) = [each for each in said if each.startswith("Readers")]
    return sentence


def notes(result: dg.ExecuteInProcessResult) -> list[dict[str, Any]]:
    """The metadata of a run's observations."""
    seen = [e.asset_observation_data.asset_observation for e in result.all_events if e.is_asset_observation]
    return [{name: value.value for name, value in observation.metadata.items()} for observation in seen]


def marked(result: dg.ExecuteInProcessResult) -> list[tuple[str, str | None, dict[str, Any]]]:
    """The assets that a run marks as made: name, day and metadata of each."""
    return [
        (e.asset_key.to_user_string(), e.partition, {k: v.value for k, v in e.materialization.metadata.items()})
        for e in result.all_events
        if e.is_step_materialization and e.asset_key
    ]


def checks(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """The evaluations of a run, by `asset key:name`."""
    return {f"{e.asset_key.to_user_string()}:{e.check_name}": e for e in result.get_asset_check_evaluations()}
