"""The nightly job over a district: one institution's run, a run over several, and who is told of what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg
import pytest

from rollbook.features.district import nights
from rollbook.features.district.worker import NightKind, NightOutcome
from rollbook.night.discard import discard
from rollbook.night.past import always
from tests.support import graph
from tests.support.graph import SYNC
from tests.support.processes.commands import run_command
from tests.support.records import students
from tests.support.warehouses.district import District, new_district
from tests.support.warehouses.district_job import DistrictJob, district_job
from tests.support.wire import faults
from tests.support.wire.listeners import Webhook

PUBLISHED = ("published", "rollbook")
COMMAND = {"rollbook/sync": "command"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def today() -> date:
    return datetime.now(UTC).date()


@pytest.fixture
def two_hosts() -> Iterator[District]:
    """Ash and birch share a host."""
    with new_district(["ash", "birch"], ["cedar"]) as district:
        yield district


@pytest.fixture
def job(two_hosts: District) -> Iterator[DistrictJob]:
    with district_job(two_hosts) as job:
        yield job


def outcomes(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str], str]:
    """The outcome of each institution in a run, by partition and name."""
    outcomes = {}
    for event in result.all_events:
        if event.is_asset_observation and event.asset_key == dg.AssetKey(list(PUBLISHED)):
            metadata = event.asset_observation_data.asset_observation.metadata
            values = {k: getattr(v, "value", "") for k, v in metadata.items()}
            if "outcome" in values:
                outcomes[str(event.partition), values["institution"]] = values["outcome"]
    return outcomes


def state(district: District, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((district.warehouse / "district" / "state" / f"{name}.json").read_text())
    return content


def test_an_institution_is_synced_by_itself(two_hosts: District, job: DistrictJob, today: date) -> None:
    result = job.run_for("ash", days=(today,), tags=COMMAND)
    assert result.success
    assert two_hosts.asked() == {"ash": 3, "birch": 0, "cedar": 0}
    assert outcomes(result) == {(str(today), "ash"): "synced"}
    assert job.marked(*PUBLISHED) == [], "one institution does not make the day of all"
    assert {e.metadata["institutions"].value for e in result.get_asset_check_evaluations()} == {"ash"}
    assert state(two_hosts, "ash")["last"]["kind"] == "synced"


def test_a_failed_run_names_its_institution_and_keeps_count_of_refused_keys(
    two_hosts: District, job: DistrictJob, today: date
) -> None:
    two_hosts["birch"].on(faults.refused(401), path="auth", times=None)
    result = job.run_for("birch", days=(today,), tags=COMMAND)
    _, says, _ = graph.failure(result)
    assert "does not accept the API key (401)" in str(says)
    assert state(two_hosts, "birch")["refused"] == [str(today)]
    two_hosts["birch"].mend()
    two_hosts["birch"].students = students(60)
    assert job.run_for("birch", days=(today,), tags=COMMAND).success
    assert state(two_hosts, "birch")["refused"] == []
    two_hosts["birch"].students = students(30)
    held_run = job.run_for("birch", days=(today,), tags=COMMAND, fresh=True)
    assert held_run.success
    assert job.tags(held_run)["rollbook/outcome"] == "held"
    (says,) = graph.warnings(job.instance, held_run)
    assert f"run `rollbook --institution birch sync --date {today} --approve`" in says
    assert state(two_hosts, "birch")["last"]["kind"] == "held"

    # It is approved by itself, and that is its outcome of the night.
    held = [two_hosts.house("birch").landings(today)[-1].hold_digest]
    shown = graph.checks(held_run)["published/rollbook:nothing_held"].metadata["paste to approve (birch)"].value
    options = {"held": held, "reason": "", "institution": "birch"}
    assert json.loads(str(shown)) == {"ops": {"approve": {"config": options}}}
    unknown = "institutions.toml has no such institution: it has ash, birch, cedar"
    for wrong, says in (({}, "This is a district: name the institution"), ({"institution": "elm"}, unknown)):
        assert says in str(graph.failure(job.by_hand("approve_held", held=held, **wrong))[1])
    requests = two_hosts.asked()
    assert job.by_hand("approve_held", held=held, institution="birch").success
    assert two_hosts.asked() == requests
    assert state(two_hosts, "birch")["last"]["kind"] == "synced"


@pytest.mark.weekly
def test_a_districts_night_with_a_hold_warns_and_marks_no_day(
    two_hosts: District, job: DistrictJob, today: date
) -> None:
    """A held institution waits for a decision, so nobody has to repair the run; the day is not yet the day of all."""
    two_hosts["birch"].students = students(60)
    assert job.run_for(days=(today,), tags=SYNC).success
    two_hosts["birch"].students = students(20)
    result = job.run_for(days=(today,), tags=SYNC)
    assert result.success
    assert graph.warnings(job.instance, result) == [
        "1 institution of 3 held: birch. The observations of published/rollbook say what to do"
    ]
    assert job.tags(result)["rollbook/outcome"] == "held"
    assert graph.marked(result) == []
    (says,) = [note["says"] for note in graph.notes(result) if note["outcome"] == "held"]
    assert f"run `rollbook --institution birch sync --date {today} --approve`" in says


def test_a_districts_night_ends_red_after_a_failure_which_a_retry_repeats(
    two_hosts: District, job: DistrictJob, today: date
) -> None:
    two_hosts["birch"].on(faults.refused(401), path="auth", times=1)
    first = job.run_for(days=(today,), tags=SYNC)
    message, _, metadata = graph.failure(first)
    assert message == (
        "Failed: 1 institution of 3 failed: birch. The table says why; to repeat only these, re-execute this run"
    )
    assert "| birch | failed | The records service at" in metadata["not_done"]
    day = str(today)
    assert outcomes(first) == {(day, "ash"): "synced", (day, "birch"): "failed", (day, "cedar"): "synced"}
    assert job.marked(*PUBLISHED) == []
    requests = two_hosts.asked()

    again = {**SYNC, "dagster/parent_run_id": first.run_id, "dagster/root_run_id": first.run_id}
    second = job.run_for(days=(today,), tags=again)
    assert second.success
    assert two_hosts.asked() == {**requests, "birch": requests["birch"] + 3}
    assert job.marked(*PUBLISHED) == job.marked("raw", "students") == [day]
    kinds = {name: state(two_hosts, name)["last"]["kind"] for name in two_hosts.schools}
    assert kinds == dict.fromkeys(two_hosts.schools, "synced")
    assert list(two_hosts.root.rglob("*.db"))
    assert two_hosts.files_with_a_key() == []
    assert job.run_for(days=(today,), tags=SYNC).success  # another night's run asks everybody
    assert set(two_hosts.asked().values()) == {6, 7}

    # A backfill rebuilds each by itself, fetches nothing, and passes over the days that one of them has not.
    requests, house = two_hosts.asked(), two_hosts.house("cedar")
    for number in (2, 1):
        discard(house.rollbook().writer(), today, number, reason="a wrong clock", confirm=always)
    result = job.run_for("ash,cedar", days=(today,), tags={"dagster/backfill": "of a day"})
    assert result.success
    assert two_hosts.asked() == requests
    assert outcomes(result) == {(day, "ash"): "rebuilt", (day, "cedar"): "skipped"}
    lines = [e.user_message for e in job.instance.all_logs(result.run_id)]
    assert f"cedar: nothing was landed on {day}, and the service keeps no history" in lines
    assert {d for asset, d, _ in graph.marked(result) if asset == "published/rollbook"} == {day}

    result = job.run_for(days=(today,), tags=SYNC, force=True)
    _, says, metadata = graph.failure(result)
    assert "run that institution by itself, with its name in the tag rollbook/institution" in str(says)
    assert metadata["exit_code"] == 2
    assert two_hosts.asked() == requests


def test_each_institution_is_alerted_of_at_its_own_address(two_hosts: District, hook: Webhook, today: date) -> None:
    """Nobody is told of cedar, which failed, too."""
    two_hosts.write({"ash": {"notify": '{ env = "ASH_NOTIFY" }'}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASH_NOTIFY", hook.url)
        with district_job(two_hosts) as job:
            watch = next(s for s in job.defs.sensors or () if s.name == "watch")
            for name in ("ash", "cedar"):
                two_hosts[name].on(faults.refused(401), path="auth", times=1)
            assert not job.run_for(days=(today,), tags=SYNC).success
            with dg.build_sensor_context(
                instance=job.instance, repository_def=job.defs.get_repository_def()
            ) as context:
                tick = watch.evaluate_tick(context)
            assert tick.skip_message == "no institution is newly late"
    assert [head.partition(": ")[2] for head in hook.heads] == [f"the sync of {today} failed"]


def test_nights_without_dagster_are_recorded_once_a_day_when_all_have_it(
    two_hosts: District, job: DistrictJob, today: date
) -> None:
    """By `district sync`, and by a person's sync of one institution."""

    def look() -> list[Any]:
        record = next(s for s in job.defs.sensors or () if s.name == "record")
        with dg.build_sensor_context(job.instance, repository_def=job.defs.get_repository_def()) as context:
            events = list(record.evaluate_tick(context).asset_events)
        for event in events:
            job.instance.report_runless_asset_event(event)
        return events

    two_hosts["birch"].on(faults.refused(401), path="auth", times=1)
    env = two_hosts.environment()
    assert run_command("district", "sync", env=env).returncode == 1
    notes = [e.metadata for e in look() if isinstance(e, dg.AssetObservation)]
    assert {n["institution"].value: n["outcome"].value for n in notes} == {
        "ash": "synced",
        "birch": "failed",
        "cedar": "synced",
    }
    assert (look(), job.marked(*PUBLISHED)) == ([], [])
    done = run_command("--institution", "birch", "sync", env=env)
    assert (done.returncode, "Synced" in done.stdout) == (0, True), done.stderr
    assert state(two_hosts, "birch")["last"]["kind"] == "synced"
    notes = [e.metadata for e in look() if isinstance(e, dg.AssetObservation)]
    assert [(n["institution"].value, n["outcome"].value) for n in notes] == [("birch", "synced")]
    assert job.marked(*PUBLISHED) == job.marked("tables", "classes") == [str(today)]
    assert look() == []
    # A run records its own outcomes.
    assert job.run_for(days=(today,), tags=SYNC).success
    assert look() == []
    again = run_command("--institution", "birch", "backfill", str(today), str(today), env=env)
    assert (again.returncode, "Rebuilt" in again.stdout) == (0, True), again.stderr


def test_an_outcome_that_was_written_late_is_recorded(two_hosts: District, job: DistrictJob, today: date) -> None:
    """Workers write their outcomes in no order."""
    record = next(s for s in job.defs.sensors or () if s.name == "record")
    cursor, noted = None, list[str]()
    for name, minute in (("birch", 12), ("ash", 10)):
        at = datetime(today.year, today.month, today.day, 2, minute, tzinfo=UTC)
        nights.record(two_hosts.warehouse / "district", name, NightOutcome(kind=NightKind.FAILED, at=at, day=today))
        with dg.build_sensor_context(job.instance, cursor, repository_def=job.defs.get_repository_def()) as context:
            tick = record.evaluate_tick(context)
        cursor = tick.cursor
        for event in tick.asset_events:
            job.instance.report_runless_asset_event(event)
        notes = [event.metadata for event in tick.asset_events if isinstance(event, dg.AssetObservation)]
        noted += [str(note["institution"].value) for note in notes]
    assert noted == ["birch", "ash"]
