"""Alerts of syncs, each once: of failed and held ones, of a night that never came, of a process that was killed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from tests.support import graph
from tests.support.graph import SYNC, Sensors
from tests.support.nights import House, new_house, night
from tests.support.processes.commands import run_command
from tests.support.records import classes, students
from tests.support.wire import faults
from tests.support.wire.listeners import Webhook

pytestmark = pytest.mark.slow


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
def sensors(clock: time_machine.Traveller, house: House, tmp_path: Path) -> Iterator[Sensors]:
    with graph.job(house, tmp_path / "home") as job:
        sensors = Sensors(job)
        sensors.look()
        yield sensors


def heads(hook: Webhook) -> list[str]:
    return [head.partition(": ")[2] for head in hook.heads]


def test_each_sync_tells_its_own_end_once(sensors: Sensors, house: House, hook: Webhook) -> None:
    """A backfill alerts nobody."""
    job = sensors.job
    assert not job.run(night(1), tags={"dagster/backfill": "of a day"}).success  # nothing is landed yet
    house.service.on(faults.refused(401), path="auth", times=1)
    assert not job.run(night(1), tags=SYNC).success
    assert job.run(night(1), tags=SYNC).success
    assert job.run(night(1), tags=SYNC).success
    assert not job.by_hand("approve_held", held=["0" * 12]).success
    sensors.look()
    assert heads(hook) == [f"the sync of {night(1)} failed", f"the sync of {night(1)} is good again"]
    assert "key" in hook.texts[0].splitlines()[1]
    assert hook.texts[1].splitlines()[1:] == [
        "Nothing is left to do.",
        f"Readers have what was published last: {night(1)}, 60 students, 2 classes.",
    ]


def test_a_held_run_and_its_approval_by_hand_are_told(
    sensors: Sensors, house: House, hook: Webhook, clock: Any
) -> None:
    job = sensors.job
    assert job.run(night(1), tags=SYNC).success
    house.service.students = house.service.students[:40]
    clock.shift(timedelta(days=1))
    assert job.run(night(2), tags=SYNC).success
    sensors.look()
    assert job.by_hand("approve_held", held=[house.landings(night(2))[-1].hold_digest]).success
    sensors.look()
    assert heads(hook) == [f"the sync of {night(2)} is held", f"the sync of {night(2)} is good again"]
    assert f"`rollbook sync --date {night(2)} --approve`" in hook.texts[0]


def test_unexpected_error_texts_are_not_shown(sensors: Sensors, hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("Pupil Number7 has no number")

    monkeypatch.setattr("rollbook.night.land", broken)
    sensors.job.run(night(1), tags=SYNC)
    sensors.look()
    (text,) = hook.texts
    assert text.splitlines()[1] == (
        "It ended with an unexpected error (ValueError). The log of the process that synced says where."
    )
    assert "Number7" not in text


@pytest.mark.parametrize(("will_retry", "alerts"), [("true", 0), ("false", 1)])
def test_a_crashed_run_is_told_unless_dagster_tries_it_again(
    sensors: Sensors, hook: Webhook, will_retry: str, alerts: int
) -> None:
    instance = sensors.job.instance
    run = instance.create_run_for_job(
        sensors.job.defs.resolve_job_def("nightly_sync"),
        tags={**SYNC, "dagster/partition": str(night(1)), "dagster/will_retry": will_retry},
    )
    instance.report_run_failed(run)
    sensors.look()
    assert [t.splitlines()[1] for t in hook.texts] == [
        f"Its process was killed, or could not start. Its log is in the UI (run {run.run_id}). Run `rollbook sync`."
    ] * alerts


def test_a_late_night_and_the_sync_that_follows_are_told_once(sensors: Sensors, hook: Webhook, clock: Any) -> None:
    assert sensors.job.run(night(1), tags=SYNC).success
    clock.move_to(datetime(2026, 11, 21, 4, 14, tzinfo=UTC))
    sensors.look()
    assert hook.texts == []
    clock.shift(timedelta(minutes=2))
    sensors.look()
    sensors.look()
    # The asset's check turns red by itself, once, and a backfill of an older day changes nothing.
    assert [c.passed for c in sensors.recorded if c.asset_check_key.name == "is_fresh"] == [False]
    assert not graph.checks(sensors.job.run(night(1)))["published/rollbook:is_fresh"].passed
    good = sensors.job.run(night(2), tags=SYNC)
    assert graph.checks(good)["published/rollbook:is_fresh"].passed
    sensors.look()
    assert heads(hook) == [f"the sync of {night(2)} is late", f"the sync of {night(2)} is good again"]
    assert hook.texts[0].splitlines()[1:] == [
        "It was due at 02:15 (UTC), and no sync has ended since. If the UI shows none under way or waiting, check that"
        " the machine was on, and that `rollbook serve` runs or `rollbook district sync` is started each night. To sync"
        " now, run `rollbook sync`.",
        f"Readers have what was published last: {night(1)}, 60 students, 2 classes.",
    ]


def test_a_command_tells_its_own_end_without_dagster(tmp_path: Path, hook: Webhook) -> None:
    """A webhook that is down costs the sync nothing but a line on standard error."""
    with new_house(students(60), classes(2), notify=hook.url, retry_seconds=0) as house:
        house.service.now = lambda: datetime.now(UTC)
        env = house.environment() | {"DAGSTER_HOME": str(tmp_path / "home")}
        house.service.on(faults.refused(401), path="auth", times=1)
        failed = run_command("sync", env=env)
        hook.statuses = [503]
        good = run_command("sync", env=env)
        with graph.job(house, tmp_path) as job, time_machine.travel(datetime.now(UTC) + timedelta(minutes=2)):
            sensors = Sensors(job)
            sensors.look()
            sensors.look()
        assert (failed.returncode, good.returncode) == (1, 0)
        undelivered = "An alert was not delivered: address 1 (json) of ROLLBOOK_NOTIFY answered 503"
        assert undelivered in " ".join(good.stderr.split())
        assert not (tmp_path / "home").exists()
    assert [h.split()[-1] for h in heads(hook)] == ["failed", "again"]


def test_a_slow_messenger_does_not_hold_a_tick(sensors: Sensors, hook: Webhook, clock: Any) -> None:
    """Dagster ends a tick after a minute."""
    assert sensors.job.run(night(1), tags=SYNC).success
    clock.move_to(datetime(2026, 11, 21, 4, 16, tzinfo=UTC))
    hook.delay = 2.0
    for _ in range(2):
        assert sensors.tick("watch") == "it was checked whether the last night is late"
    (sender,) = graph.sending()
    sender.join()
    assert heads(hook) == [f"the sync of {night(2)} is late"]
