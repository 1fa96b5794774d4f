"""The sensors that tell of runs: each once, no matter who started the run and what was restarted in between."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import time_machine

from tests.support import graph
from tests.support.graph import SYNC, Job
from tests.support.nights import House, new_house, night
from tests.support.processes.commands import dagster_home, run_command
from tests.support.records import classes, students
from tests.support.wire import faults
from tests.support.wire.listeners import Webhook

pytestmark = pytest.mark.slow


class Watch:
    """The sensors as the daemon evaluates them, each with a cursor."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.cursors: dict[str, str | None] = {}
        self.checks: list[Any] = []

    def look(self) -> None:
        """One tick of each."""
        for sensor in self.job.defs.sensors or ():
            assert isinstance(sensor, dg.SensorDefinition)
            repository, cursor = self.job.defs.get_repository_def(), self.cursors.get(sensor.name)
            with dg.build_sensor_context(self.job.instance, cursor=cursor, repository_def=repository) as context:
                tick = sensor.evaluate_tick(context)
                self.cursors[sensor.name] = tick.cursor
                self.checks += tick.asset_events


@pytest.fixture
def house(hook: Webhook) -> Iterator[House]:
    with new_house(students(60), classes(2), notify=hook.url, first_date="2026-11-01", retry_seconds=0) as house:
        house.service.now = lambda: datetime.now(UTC)
        yield house


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    """Half past two of the first night; the clock goes on."""
    with time_machine.travel(datetime(2026, 11, 20, 2, 30, tzinfo=UTC), tick=True) as traveller:
        yield traveller


@pytest.fixture
def watch(clock: time_machine.Traveller, house: House, tmp_path: Path) -> Iterator[Watch]:
    with graph.job(house, tmp_path / "home") as job:
        watch = Watch(job)
        watch.look()
        yield watch


def heads(hook: Webhook) -> list[str]:
    return [head.partition(": ")[2] for head in hook.heads]


def test_each_run_is_told_once_however_often_it_is_looked_at(watch: Watch, house: House, hook: Webhook) -> None:
    job, before = watch.job, dict(watch.cursors)
    house.service.on(faults.refused(401), path="auth", times=1)
    assert not job.run(night(1), tags=SYNC).success
    watch.look()
    watch.cursors = before  # the daemon was killed before the cursor was noted
    watch.look()
    assert job.run(night(1), tags=SYNC).success
    watch.look()
    assert job.run(night(1), tags=SYNC).success
    assert not job.run(night(-3), night(-1)).success  # a backfill alerts nobody
    watch.look()
    assert heads(hook) == [f"the sync of {night(1)} failed", f"the sync of {night(1)} is good again"]
    assert "key" in hook.texts[0].splitlines()[1]
    assert hook.texts[1].splitlines()[1:] == [
        "Nothing is left to do.",
        f"Readers have what was published last: {night(1)}, 60 students, 2 classes.",
    ]


def test_a_held_run_and_its_approval_by_hand_are_told(watch: Watch, house: House, hook: Webhook, clock: Any) -> None:
    job = watch.job
    assert job.run(night(1), tags=SYNC).success
    house.service.students = house.service.students[:40]
    clock.shift(timedelta(days=1))
    assert not job.run(night(2), tags=SYNC).success
    watch.look()
    assert job.run(night(2), options={"approve": [house.landings(night(2))[-1].hold_digest]}).success
    watch.look()
    assert heads(hook) == [f"the sync of {night(2)} is held", f"the sync of {night(2)} is good again"]
    assert f"`rollbook sync --date {night(2)} --approve`" in hook.texts[0]


def test_unexpected_error_texts_are_not_shown(watch: Watch, hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("Pupil Number7 has no number")

    monkeypatch.setattr("rollbook.defs.night.sync", broken)
    result = watch.job.run(night(1), tags=SYNC)
    watch.look()
    (text,) = hook.texts
    assert text.splitlines()[1] == (
        f"It ended with an unexpected error (ValueError). Its log is in the UI (run {result.run_id})."
    )
    assert "Number7" not in text


@pytest.mark.parametrize(("will_retry", "alerts"), [("true", 0), ("false", 1)])
def test_a_crashed_run_is_told_unless_dagster_tries_it_again(
    watch: Watch, hook: Webhook, will_retry: str, alerts: int
) -> None:
    instance = watch.job.instance
    run = instance.create_run_for_job(
        watch.job.defs.resolve_job_def("nightly_sync"),
        tags={**SYNC, "dagster/partition": str(night(1)), "dagster/will_retry": will_retry},
    )
    instance.report_run_failed(run)
    watch.look()
    assert [t.splitlines()[1] for t in hook.texts] == [
        "It ended before it could say why: its process was killed, or could not start. Its log is in the UI (run"
        f" {run.run_id}). Run `rollbook sync`."
    ] * alerts


def test_a_late_night_and_the_sync_that_follows_are_told_once(watch: Watch, hook: Webhook, clock: Any) -> None:
    assert watch.job.run(night(1), tags=SYNC).success
    clock.move_to(datetime(2026, 11, 21, 4, 14, tzinfo=UTC))
    watch.look()
    assert hook.texts == []
    clock.shift(timedelta(minutes=2))
    watch.look()
    watch.look()
    # The asset's check turns red by itself, once, and a backfill of an older day changes nothing.
    assert [(c.asset_check_key.name, c.passed) for c in watch.checks] == [("is_fresh", False)]
    assert not graph.checks(watch.job.run(night(1)))["published/rollbook:is_fresh"].passed
    good = watch.job.run(night(2), tags=SYNC)
    assert graph.checks(good)["published/rollbook:is_fresh"].passed
    watch.look()
    assert heads(hook) == [f"the sync of {night(2)} is late", f"the sync of {night(2)} is good again"]
    assert hook.texts[0].splitlines()[1:] == [
        "It was due at 02:15 (UTC), and no sync has ended since. If the UI shows none under way or waiting, check that"
        " the machine was on, and that `rollbook serve` runs or `rollbook fleet sync` is started each night. To sync"
        " now, run `rollbook sync`.",
        f"Readers have what was published last: {night(1)}, 60 students, 2 classes.",
    ]


def test_a_commands_run_is_told_once_by_the_command(tmp_path: Path, hook: Webhook) -> None:
    """And a webhook that is down costs the sync nothing but a line on standard error."""
    with new_house(students(60), classes(2), notify=hook.url, retry_seconds=0) as house:
        house.service.now = lambda: datetime.now(UTC)
        dagster_home(tmp_path)
        house.service.on(faults.refused(401), path="auth", times=1)
        env = house.environment() | {"DAGSTER_HOME": str(tmp_path)}
        with graph.loaded(house.environment()) as defs, dg.DagsterInstance.from_config(str(tmp_path)) as instance:
            watch = Watch(Job(defs, instance))
            watch.look()
            failed = run_command("sync", env=env)
            hook.statuses = [503]
            good = run_command("sync", env=env)
            with time_machine.travel(datetime.now(UTC) + timedelta(minutes=2), tick=True):
                watch.look()
                watch.look()
        assert (failed.returncode, good.returncode) == (1, 0)
        undelivered = "An alert was not delivered: address 1 (json) of ROLLBOOK_NOTIFY answered 503"
        assert undelivered in " ".join(good.stderr.split())
    assert [h.split()[-1] for h in heads(hook)] == ["failed", "again"]
