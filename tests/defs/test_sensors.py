"""Alerts of runs, each once; and the sensors: what they record, and what they notice, whatever was restarted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import time_machine

from rollbook.defs import runs
from rollbook.defs.component import load
from rollbook.errors import CheckError, HeldError
from rollbook.features.alerts import definitions as alerts
from rollbook.night import sync
from rollbook.night.discard import discard, undo_discard
from rollbook.night.past import always
from rollbook.util import files
from tests.support import graph
from tests.support.graph import SYNC, Job
from tests.support.nights import House, new_house, night
from tests.support.processes.commands import run_command
from tests.support.records import classes, students
from tests.support.warehouses.erasures import erase
from tests.support.wire import faults
from tests.support.wire.listeners import Webhook

pytestmark = pytest.mark.slow


def sending() -> list[threading.Thread]:
    """What sends alerts in the background."""
    return [thread for thread in threading.enumerate() if thread.name == alerts.SENDER]


class Watch:
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
        self.job.defs = load()
        sensor = next(sensor for sensor in self.job.defs.sensors or () if sensor.name == name)
        repository, cursor = self.job.defs.get_repository_def(), self.cursors.get(name)
        with dg.build_sensor_context(self.job.instance, cursor=cursor, repository_def=repository) as context:
            tick = sensor.evaluate_tick(context)
        self.cursors[name] = tick.cursor
        self.recorded += tick.asset_events
        for event in tick.asset_events:
            self.job.instance.report_runless_asset_event(event)
        return tick.skip_message


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


def test_each_sync_tells_its_own_end_once(watch: Watch, house: House, hook: Webhook) -> None:
    """A backfill alerts nobody."""
    job = watch.job
    assert not job.run(night(1), tags={"dagster/backfill": "of a day"}).success  # nothing is landed yet
    house.service.on(faults.refused(401), path="auth", times=1)
    assert not job.run(night(1), tags=SYNC).success
    assert job.run(night(1), tags=SYNC).success
    assert job.run(night(1), tags=SYNC).success
    assert not job.by_hand("approve_held", held=["0" * 12]).success
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
    assert job.run(night(2), tags=SYNC).success
    watch.look()
    assert job.by_hand("approve_held", held=[house.landings(night(2))[-1].hold_digest]).success
    watch.look()
    assert heads(hook) == [f"the sync of {night(2)} is held", f"the sync of {night(2)} is good again"]
    assert f"`rollbook sync --date {night(2)} --approve`" in hook.texts[0]


def test_unexpected_error_texts_are_not_shown(watch: Watch, hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("Pupil Number7 has no number")

    monkeypatch.setattr("rollbook.night.land", broken)
    watch.job.run(night(1), tags=SYNC)
    watch.look()
    (text,) = hook.texts
    assert text.splitlines()[1] == (
        "It ended with an unexpected error (ValueError). The log of the process that synced says where."
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
        f"Its process was killed, or could not start. Its log is in the UI (run {run.run_id}). Run `rollbook sync`."
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
    assert [c.passed for c in watch.recorded if c.asset_check_key.name == "is_fresh"] == [False]
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
            watch = Watch(job)
            watch.look()
            watch.look()
        assert (failed.returncode, good.returncode) == (1, 0)
        undelivered = "An alert was not delivered: address 1 (json) of ROLLBOOK_NOTIFY answered 503"
        assert undelivered in " ".join(good.stderr.split())
        assert not (tmp_path / "home").exists()
    assert [h.split()[-1] for h in heads(hook)] == ["failed", "again"]


def test_a_slow_messenger_does_not_hold_a_tick(watch: Watch, hook: Webhook, clock: Any) -> None:
    """Dagster ends a tick after a minute."""
    assert watch.job.run(night(1), tags=SYNC).success
    clock.move_to(datetime(2026, 11, 21, 4, 16, tzinfo=UTC))
    hook.delay = 2.0
    for _ in range(2):
        assert watch.tick("watch") == "it was checked whether the last night is late"
    (sender,) = sending()
    sender.join()
    assert heads(hook) == [f"the sync of {night(2)} is late"]


# --- what happened without Dagster ------------------------------------------------------------------------------------


def days_of(events: list[Any], *key: str) -> list[tuple[str | None, object]]:
    """The days of an asset's events, each with the landing."""
    return [
        (e.partition, e.metadata["landing"].value)
        for e in events
        if isinstance(e, dg.AssetMaterialization) and e.asset_key == dg.AssetKey(key)
    ]


FILE = ("published", "rollbook")


@pytest.fixture
def played(house: House) -> House:
    """The service keeps the time of the night."""
    house.service.now = lambda: house.now
    return house


def test_landings_without_dagster_are_marked_once_whatever_is_restarted(played: House, tmp_path: Path) -> None:
    """Those of a run are marked by the run alone."""
    with graph.job(played, tmp_path / "home") as job:
        played.night(1)
        played.night(3)
        assert job.nightly(played, 4).success
        with graph.quarter_past_two(played, 4):
            watch = Watch(job)
            watch.look()
            assert days_of(watch.recorded, "raw", "students") == [(str(night(1)), 1), (str(night(3)), 1)]
            assert days_of(watch.recorded, *FILE) == [(str(night(1)), 1), (str(night(3)), 1)]
            assert job.marked("tables", "classes") == [str(night(n)) for n in (1, 3, 4)]
            names = [c.asset_check_key.name for c in watch.recorded if isinstance(c, dg.AssetCheckEvaluation)]
            assert sorted(names) == sorted(key.name for key in job.defs.resolve_asset_graph().asset_check_keys)
            watch.recorded.clear()
            for lost in ({}, {"record": None}, {"record": "set in the UI"}):
                watch.cursors |= lost
                watch.look()
            assert watch.recorded == []
        # A later landing of the same day, and one that is held.
        played.night(4, students(61))
        played.at(5)
        played.service.students = students(20)
        with pytest.raises(HeldError):
            sync(played.rollbook().writer())
        with graph.quarter_past_two(played, 5):
            watch.look()
        assert days_of(watch.recorded, "raw", "students") == [(str(night(4)), 2), (str(night(5)), 1)]
        assert days_of(watch.recorded, *FILE) == [(str(night(4)), 2)]
        failed = {
            c.asset_check_key.name: c.metadata["found"].value for c in watch.recorded if not getattr(c, "passed", 1)
        }
        assert failed["nothing_held"] == str(night(5))
        (note,) = [e for e in watch.recorded if isinstance(e, dg.AssetObservation)]
        assert note.partition == str(night(5))
        assert note.metadata["held"].value == played.landings(night(5))[-1].hold_digest
        assert "| students | 61 | 0 | 0 | 41 |" in str(note.metadata["what would change"].value)
        watch.recorded.clear()
        watch.cursors.clear()
        with graph.quarter_past_two(played, 5):
            watch.look()
        assert watch.recorded == []


def test_a_landing_that_readers_do_not_have_marks_no_table(
    played: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next night, which publishes it, does."""
    with graph.job(played, tmp_path / "home") as job:
        played.night(1)
        with monkeypatch.context() as patch, pytest.raises(CheckError):
            patch.setattr("rollbook.store.checks.examine", lambda *_, **__: {"a rule": ["it is broken"]})
            played.night(2, students(59))
        with graph.quarter_past_two(played, 2):
            watch = Watch(job)
            watch.look()
            assert days_of(watch.recorded, "raw", "students") == [(str(night(1)), 1), (str(night(2)), 1)]
            assert days_of(watch.recorded, *FILE) == [(str(night(1)), 1)]
        played.night(3)
        with graph.quarter_past_two(played, 3):
            watch.look()
        assert days_of(watch.recorded, *FILE) == [(str(night(n)), 1) for n in (1, 2, 3)]


def test_dagster_is_asked_only_for_newer_events_and_of_changed_months(
    played: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dg.AssetRecordsFilter] = []
    with graph.job(played, tmp_path / "home") as job:
        observations, materializations = job.instance.fetch_observations, job.instance.fetch_materializations

        def fetch(of: dg.AssetRecordsFilter, kind: Any, limit: int, cursor: str | None = None) -> Any:
            asked.append(of)
            return kind(of, limit=limit, cursor=cursor)

        monkeypatch.setattr(job.instance, "fetch_observations", partial(fetch, kind=observations))
        monkeypatch.setattr(job.instance, "fetch_materializations", partial(fetch, kind=materializations))
        played.night(1)
        played.at(2).service.students = students(20)
        with pytest.raises(HeldError):
            sync(played.rollbook().writer())
        with graph.quarter_past_two(played, 2):
            watch = Watch(job)
            watch.tick("record")
        held = observations(dg.AssetKey(FILE), limit=1).records[0].storage_id
        for number in (20, 21):  # in December; the first tick reads the observation of the hold
            played.night(number, students(60))
            asked.clear()
            with graph.quarter_past_two(played, number):
                watch.tick("record")
        assert [of.after_storage_id for of in asked if not of.asset_partitions] == [held]
        assert {*chain.from_iterable(of.asset_partitions or () for of in asked)} == {str(night(20)), str(night(21))}
        assert days_of(watch.recorded, *FILE) == [(str(night(n)), 1) for n in (1, 20, 21)]


def test_while_a_run_is_under_way_nothing_is_recorded(played: House, tmp_path: Path) -> None:
    with graph.job(played, tmp_path / "home") as job:
        played.night(1)
        run = job.instance.create_run_for_job(job.defs.resolve_job_def("nightly_sync"), status=runs.UNDER_WAY[0])
        lock = runs.run_lock(job.instance, run.run_id)
        lock.parent.mkdir(parents=True)
        with graph.quarter_past_two(played, 1):
            watch = Watch(job)
            with files.Lock(lock):
                watch.look()
            assert watch.recorded == []
            watch.look()  # the process is gone: the run is marked as failed
            assert days_of(watch.recorded, *FILE) == [(str(night(1)), 1)]


def test_a_discard_and_an_erasure_are_observed_once_without_names(played: House, tmp_path: Path) -> None:
    with graph.job(played, tmp_path / "home") as job:
        played.night(1)
        played.night(2, students(58))
        discard(played.rollbook().writer(), night(2), 1, reason="a wrong clock", confirm=always)
        erase(played, 7)
        with graph.quarter_past_two(played, 2):
            watch = Watch(job)
            for _ in range(2):
                watch.cursors.clear()
                watch.look()
        notes = [e for e in watch.recorded if isinstance(e, dg.AssetObservation)]
        assert [(n.partition, next(v.value for v in n.metadata.values())) for n in notes] == [
            (str(night(2)), f"landing 1 of {night(2)}"),
            (None, "a student, by erasure 1"),
        ]
        assert days_of(watch.recorded, *FILE) == [(str(night(1)), 1)]
        undo_discard(played.rollbook().writer(), night(2), 1, confirm=always)
        with graph.quarter_past_two(played, 2):
            watch.look()
        assert days_of(watch.recorded, *FILE) == [(str(night(1)), 1), (str(night(2)), 1)]
