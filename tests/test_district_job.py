"""The nightly job over a district: one institution's run, a run over several, batches, and who is told of what."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from pipelines.cron import due
from pipelines.fleet.nights.runner import Fleet
from pipelines.notify.together import COMPANY
from tests.support import graph
from tests.support.graph import SYNC
from tests.support.processes.commands import run_command
from tests.support.records import students
from tests.support.warehouses.district import District, new_district
from tests.support.warehouses.district_job import DistrictJob, district_job
from tests.support.wire import faults
from tests.support.wire.listeners import Webhook

PUBLISHED = ("published", "rollbook")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def today() -> date:
    return datetime.now(UTC).date()


@pytest.fixture
def district() -> Iterator[District]:
    """Ash and birch share a host."""
    with new_district(["ash", "birch"], ["cedar"]) as made:
        yield made


@pytest.fixture
def job(district: District) -> Iterator[DistrictJob]:
    with district_job(district) as made:
        yield made


@pytest.fixture
def batch(district: District) -> Iterator[DistrictJob]:
    """The same district, in one batch."""
    district.write(top="batches = 1")
    with district_job(district) as made:
        yield made


def outcomes(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str], str]:
    """The outcome of each institution in a run, by partition and name."""
    found = {}
    for event in result.all_events:
        if event.is_asset_observation and event.asset_key == dg.AssetKey(list(PUBLISHED)):
            metadata = event.asset_observation_data.asset_observation.metadata
            values = {k: getattr(v, "value", "") for k, v in metadata.items()}
            if "outcome" in values:
                found[str(event.partition), values["institution"]] = values["outcome"]
    return found


def again(run: dg.ExecuteInProcessResult) -> dict[str, str]:
    """The tags of a re-execution."""
    return {**SYNC, "dagster/parent_run_id": run.run_id, "dagster/root_run_id": run.run_id}


def state(district: District, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((district.warehouse / "fleet" / "state" / f"{name}.json").read_text())
    return found


def test_an_institutions_run_syncs_it_alone_and_marks_its_own_partition(
    district: District, job: DistrictJob, today: date
) -> None:
    result = job.run_for("ash", days=(today,), tags=SYNC)
    assert result.success
    assert district.asked() == {"ash": 3, "birch": 0, "cedar": 0}
    assert job.marked(*PUBLISHED) == job.marked("history", "students") == [f"{today}|ash"]
    assert sorted(p.name for p in district.warehouse.iterdir()) == ["ash", "fleet"]
    tags = job.tags(result)
    assert (tags["rollbook/institution"], tags["rollbook/host"]) == ("ash", district["ash"].url.removeprefix("http://"))
    assert {e.metadata["institution"].value for e in result.get_asset_check_evaluations()} == {"ash"}
    assert state(district, "ash")["last"]["kind"] == "synced"
    page = {a: m for a, _, m in graph.marked(result)}["published/rollbook"]["morning page"]
    assert page == "/report/ash.html"


def test_a_failed_run_names_its_institution_and_keeps_count_of_refused_keys(
    district: District, job: DistrictJob, today: date
) -> None:
    district["birch"].on(faults.refused(401), path="auth", times=None)
    result = job.run_for("birch", days=(today,), tags=SYNC)
    _, says, _ = graph.failure(result)
    assert "does not accept the API key (401)" in str(says)
    assert state(district, "birch")["refused"] == [str(today)]
    district["birch"].mend()
    district["birch"].students = students(60)
    assert job.run_for("birch", days=(today,), tags=SYNC).success
    assert state(district, "birch")["refused"] == []
    district["birch"].students = students(30)
    _, says, metadata = graph.failure(job.run_for("birch", days=(today,), tags=SYNC))
    assert metadata["exit_code"] == 3
    assert f"run `rollbook --institution birch sync --date {today} --approve`" in str(says)
    assert state(district, "birch")["last"]["kind"] == "held"


def test_no_key_is_in_what_dagster_keeps_and_no_others_key_in_a_runs_process(
    district: District, job: DistrictJob, today: date
) -> None:
    seen: list[dict[str, str]] = []
    district["ash"].before = lambda _: seen.append(dict(os.environ))
    assert job.run_for("ash", days=(today,), tags=SYNC).success
    district["cedar"].on(faults.refused(401), path="auth", times=None)
    assert not job.run_for("cedar", days=(today,), tags=SYNC).success
    assert list(district.root.rglob("*.db"))
    assert district.files_with_a_key() == []
    assert "ASH_KEY" in seen[0]
    assert not {"BIRCH_KEY", "CEDAR_KEY"} & set(seen[0])


def test_a_run_over_some_institutions_forgets_the_keys_of_the_others_first(
    district: District, job: DistrictJob, today: date, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines import several

    seen: list[set[str]] = []

    class Seen(Fleet):
        def __post_init__(self) -> None:
            seen.append({name for name in os.environ if name.endswith("_KEY")})
            super().__post_init__()

    monkeypatch.setattr(several, "Fleet", Seen)
    job.run_for("ash", "birch", days=(today,))
    assert seen == [{"ASH_KEY", "BIRCH_KEY"}] * 2


def test_a_backfill_over_institutions_rebuilds_each_by_itself_and_fetches_nothing(
    district: District, job: DistrictJob, today: date
) -> None:
    for name in ("ash", "cedar"):
        assert job.run_for(name, days=(today,), tags=SYNC).success
    asked, yesterday = district.asked(), today - timedelta(days=1)
    result = job.run_for("ash", "cedar", days=(yesterday, today))
    assert district.asked() == asked
    assert outcomes(result) == {
        (f"{yesterday}|ash", "ash"): "skipped",
        (f"{today}|ash", "ash"): "rebuilt",
        (f"{yesterday}|birch", "birch"): "skipped",
        (f"{today}|birch", "birch"): "skipped",
        (f"{yesterday}|cedar", "cedar"): "skipped",
        (f"{today}|cedar", "cedar"): "rebuilt",
    }
    assert result.success
    marked = {(asset, day) for asset, day, _ in graph.marked(result)}
    assert {day for asset, day in marked if asset == "published/rollbook"} == {f"{today}|ash", f"{today}|cedar"}


def test_a_batch_goes_on_after_a_failure_ends_red_naming_it_and_a_retry_repeats_only_that(
    district: District, batch: DistrictJob, today: date
) -> None:
    district["birch"].on(faults.refused(401), path="auth", times=1)
    first = batch.run_for("batch-01", days=(today,), tags=SYNC)
    said, _, metadata = graph.failure(first)
    assert said == (
        "Failed: 1 institution of 3 failed: birch. The table says why; to repeat only these, re-execute this run"
    )
    assert "| birch | failed | The records service at" in metadata["not done"]
    key = f"{today}|batch-01"
    assert outcomes(first) == {(key, "ash"): "synced", (key, "birch"): "failed", (key, "cedar"): "synced"}
    assert batch.marked(*PUBLISHED) == []
    asked = district.asked()

    second = batch.run_for("batch-01", days=(today,), tags=again(first))
    assert second.success
    assert outcomes(second) == {(key, "birch"): "synced"}
    assert district.asked() == {**asked, "birch": asked["birch"] + 3}
    assert batch.marked(*PUBLISHED) == batch.marked("raw", "students") == [key]
    kinds = {name: state(district, name)["last"]["kind"] for name in district.schools}
    assert kinds == dict.fromkeys(district.schools, "synced")
    assert list(district.root.rglob("*.db"))
    assert district.files_with_a_key() == []


def test_a_retry_asks_nothing_of_one_that_was_landed_since_and_whose_run_could_not_say_so(
    district: District, batch: DistrictJob, today: date
) -> None:
    """As after a kill between an institution's publish and the event that says so, or before its publish."""
    district["birch"].on(faults.refused(401), path="auth", times=1)
    first = batch.run_for("batch-01", days=(today,), tags=SYNC)
    assert not first.success
    done = run_command("fleet", "sync", "--only", "birch", env=district.environment())
    assert done.returncode == 0, done.stderr
    asked = district.asked()
    second = batch.run_for("batch-01", days=(today,), tags=again(first))
    assert outcomes(second) == {(f"{today}|batch-01", "birch"): "synced"}
    assert district.asked() == asked
    assert batch.run_for("batch-01", days=(today,), tags=SYNC).success  # another night's run asks everybody
    assert district.asked() == {name: number + 3 for name, number in asked.items()}


def test_one_of_a_batch_is_synced_by_hand_and_makes_the_batchs_day_when_it_was_the_last(
    district: District, batch: DistrictJob, today: date
) -> None:
    district["birch"].on(faults.refused(401), path="auth", times=1)
    assert not batch.run_for("batch-01", days=(today,), tags=SYNC).success
    asked = district.asked()
    alone = batch.run_for("batch-01", days=(today,), tags={"rollbook/sync": "command", "rollbook/only": "birch"})
    assert alone.success
    assert district.asked() == {**asked, "birch": asked["birch"] + 3}
    assert batch.marked(*PUBLISHED) == [f"{today}|batch-01"]


def test_nothing_is_approved_for_a_whole_batch(district: District, batch: DistrictJob, today: date) -> None:
    result = batch.run_for("batch-01", days=(today,), tags=SYNC, approve=True)
    _, says, metadata = graph.failure(result)
    assert "run that institution by itself, as with rollbook --institution NAME sync --approve" in str(says)
    assert metadata["exit_code"] == 2
    assert set(district.asked().values()) == {0}


def test_each_institution_is_alerted_of_at_its_own_address(district: District, hook: Webhook, today: date) -> None:
    notify = {"notify": '{ env = "ASH_NOTIFY" }'}
    district.write({"ash": notify})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASH_NOTIFY", hook.url)
        with district_job(district) as job:
            from pipelines import schedules

            (sensor,) = job.defs.sensors or ()
            since = datetime.now(UTC) - timedelta(hours=1)
            for name in ("ash", "cedar"):
                district[name].on(faults.refused(401), path="auth", times=1)
                assert not job.run_for(name, days=(today,), tags=SYNC).success
            alerts, problem = schedules.alerts_of_all()
            schedules.report_ended_runs(job.instance, alerts, since)
            assert hook.texts == []  # others may fail, too
            for of_one in alerts.values():
                of_one.clock = lambda: datetime.now(UTC) + COMPANY
            schedules.report_ended_runs(job.instance, alerts, since)
            assert (sorted(alerts), problem) == (["ash"], "")
            district.registry.write_text(district.registry.read_text() + '\n[elm]\nbase_url = "https://elm.example"\n')
            with dg.build_sensor_context(
                instance=job.instance, repository_def=job.defs.get_repository_def()
            ) as context:
                tick = sensor.evaluate_tick(context)
    assert [head.partition(": ")[2] for head in hook.heads] == [f"the sync of {today} failed"]
    assert tick.skip_message == (
        "the runs that ended were checked; elm joined the registry after this code was loaded: reload it on the page"
        " Deployment"
    )


def test_a_late_night_is_told_of_the_institution_that_is_late_alone(
    district: District, hook: Webhook, today: date
) -> None:
    """Ash was synced, cedar is paused."""
    district.write({"cedar": {"paused": '"a new key is on its way"'}}, defaults='cron = "0 0 * * *"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROLLBOOK_NOTIFY", hook.url)
        with district_job(district) as job:
            from pipelines import schedules

            alerts, _ = schedules.alerts_of_all()
            assert sorted(alerts) == ["ash", "birch", "cedar"]
            for of_one in alerts.values():
                of_one.missed_night()  # alerts are on from now
            assert job.run_for("ash", days=(today,), tags=SYNC).success
            # It is three o'clock of the following night, whose syncs were due at midnight. Ash's has just ended.
            tomorrow = datetime.combine(today, datetime.min.time(), UTC) + timedelta(days=1)
            for of_one in alerts.values():
                of_one.clock = lambda: tomorrow + timedelta(hours=3)
            patch.setattr(schedules, "due", lambda _: replace(due("0 0 * * *"), slack=timedelta(days=2)))
            schedules.report_ended_runs(job.instance, alerts, None)
            for of_one in alerts.values():
                of_one.clock = lambda: tomorrow + timedelta(hours=3) + COMPANY
            schedules.report_ended_runs(job.instance, alerts, None)
    assert [head.partition(": ")[2] for head in hook.heads] == [f"the sync of {tomorrow.date()} is late"]
    assert "To sync now, run `rollbook --institution birch sync`" in hook.texts[0]


def test_the_command_runs_the_job_for_its_institution(district: District) -> None:
    env = district.environment()
    done = run_command("--institution", "birch", "sync", env=env)
    assert (done.returncode, "Synced" in done.stdout) == (0, True), done.stderr
    assert district.asked() == {"ash": 0, "birch": 3, "cedar": 0}
    today = datetime.now(UTC).date()
    again = run_command("--institution", "birch", "backfill", str(today), str(today), env=env)
    assert (again.returncode, "Rebuilt" in again.stdout) == (0, True), again.stderr
    with dg.DagsterInstance.from_config(env["DAGSTER_HOME"]) as instance:
        runs = [{k: v for k, v in run.tags.items() if k.startswith("rollbook/")} for run in instance.get_runs()]
        assert [run["rollbook/institution"] for run in runs] == ["birch", "birch"]
        marked = instance.get_materialized_partitions(dg.AssetKey(list(PUBLISHED)))
    assert marked == {f"{today}|birch"}


def test_an_institution_that_left_keeps_its_marks_and_has_them_again_when_it_is_back(
    district: District, job: DistrictJob, today: date
) -> None:
    assert job.run_for("cedar", days=(today,), tags=SYNC).success
    registry = district.registry.read_text()
    district.registry.write_text(registry.partition("[cedar]")[0])
    with graph.loaded(district.environment()) as module:
        keys = module.defs.resolve_asset_graph().get(dg.AssetKey(list(PUBLISHED))).partitions_def.get_partition_keys()
        assert not [key for key in keys if key.endswith("|cedar")]
    assert job.marked(*PUBLISHED) == [f"{today}|cedar"]
    assert len(job.instance.get_runs(dg.RunsFilter(tags={"rollbook/institution": "cedar"}))) == 1
    assert (district.warehouse / "cedar" / "rollbook.duckdb").exists()
