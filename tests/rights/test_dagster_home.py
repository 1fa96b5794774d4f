"""A student in Dagster's own records, before an erasure and after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rollbook.rights.erasure import cleaned, take_out
from tests.support import graph
from tests.support.nights import new_house, night
from tests.support.processes import canary
from tests.support.records import classes, students
from tests.support.warehouses.erasures import erase

pytestmark = pytest.mark.nights


def gone(student: int) -> bool:
    return student == canary.ID


def test_a_students_id_leaves_logs_and_events_and_the_rest_stays(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        metadata = {"log": f"details of student {canary.ID}: not fetched; students 9 of 8452"}
        instance.report_runless_asset_event(dg.AssetMaterialization(["raw", "students"], metadata=metadata))
    log = tmp_path / "storage" / "a-run" / "compute_logs" / "land.err"
    log.parent.mkdir(parents=True)
    log.write_bytes(f"students {canary.ID}: the search failed \udcff\n".encode(errors="surrogateescape"))
    assert "index.db" in " ".join(canary.found(tmp_path))
    changed, locked = take_out(tmp_path, gone)
    assert (changed >= 2, locked) == (True, 0)
    assert canary.found(tmp_path) == {}
    assert log.read_bytes() == b"students (erased): the search failed \xff\n"
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey(["raw", "students"]))
        assert event is not None
        assert event.asset_materialization is not None
        text = event.asset_materialization.metadata["log"].value
        assert text == "details of student (erased): not fetched; students 9 of 8452"
    assert take_out(tmp_path, gone) == (0, 0)


def test_a_reason_given_in_the_ui_no_longer_names_the_student(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with new_house([*students(9), canary.canary()], classes(1)) as house, graph.job(house, home) as job:
        for number in (1, 2):
            house.night(number)
        reason = f'"Zoë" asked for Zebedee Canarybird, {canary.ID}'
        assert job.by_hand("discard", day=str(night(2)), reason=reason, confirm=True).success
        assert set(canary.found(home)) == {"history/runs.db"}
        erase(house, home=home)
        assert canary.found(tmp_path, house.warehouse) == {}
        ((_, discarded),) = house.rollbook().raw.discarded()
        assert discarded.reason == '"Zoë" asked for (erased), (erased)'
        (run,) = job.instance.get_runs(dg.RunsFilter(job_name="discard"))
        config: Any = run.run_config
        assert config["ops"]["landing"]["config"]["reason"] == discarded.reason


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            f"/svcapi/v1/student/{canary.ID}: the service answered 503",
            "/svcapi/v1/student/(erased): the service answered 503",
        ),
        ("details of student 9: not fetched", "details of student 9: not fetched"),
        (f"student {canary.ID}0 of 7391846205711", f"student {canary.ID}0 of 7391846205711"),
        (f"{canary.ID} rows of something", f"{canary.ID} rows of something"),
        (f"ids more than once, such as 9, {canary.ID}", "ids more than once, such as 9, (erased)"),
    ],
)
def test_only_what_is_said_of_the_student_is_changed(text: str, left: str) -> None:
    assert cleaned(text, gone) == left


@pytest.mark.parametrize(
    ("text", "elsewhere"),
    [
        ("storage:\n  postgres:\n    postgres_db: {}\n", "storage"),
        ("event_log_storage:\n  module: x\ncompute_logs:\n  module: y\n", "event_log_storage, compute_logs"),
        ("# storage: none\ntelemetry:\n  enabled: false\n", ""),
    ],
)
def test_the_certificate_names_what_was_cleaned_and_what_was_not(tmp_path: Path, text: str, elsewhere: str) -> None:
    home = tmp_path / "home"
    with new_house(students(9), classes(1)) as house:
        house.night(1)
        assert "as no folder of Dagster's was found (DAGSTER_HOME)" in erase(house, 7).text
        home.mkdir()
        (home / "dagster.yaml").write_text(text)
        certificate = erase(house, 8, home=home).text
    assert f"those below {home} were cleaned. If Rollbook ran with another DAGSTER_HOME," in certificate
    assert (f"({elsewhere} in its dagster.yaml)" in certificate) == bool(elsewhere)
