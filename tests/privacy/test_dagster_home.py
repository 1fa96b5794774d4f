"""What Dagster's own records hold of a student, before an erasure and after it."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from pipelines.privacy.erasure import cleaned, take_out
from tests.support.processes import canary


def gone(student: int) -> bool:
    return student == canary.ID


def test_a_students_id_is_taken_out_of_logs_and_events_and_the_rest_stays(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("details of student 9: not fetched", "details of student 9: not fetched"),
        (f"student {canary.ID}0 of 7391846205711", f"student {canary.ID}0 of 7391846205711"),
        (f"{canary.ID} rows of something", f"{canary.ID} rows of something"),
        (f"ids more than once, such as 9, {canary.ID}", "ids more than once, such as 9, (erased)"),
    ],
)
def test_only_what_is_said_of_the_student_is_changed(text: str, left: str) -> None:
    assert cleaned(text, gone) == left
