"""What Dagster's own records hold of a student, before an erasure and after it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines.assets import preview
from pipelines.landing.manifest import Hold, TableCounts
from pipelines.privacy.erasure.dagster_home import cleaned, take_out
from pipelines.resources import hold_table
from tests.support.processes import canary

ROWS: list[dict[str, Any]] = [
    {"student_id": 1, "registration_date": "2025-09-01", "title": "A | B\nC"},
    {"student_id": canary.ID, "registration_date": "2025-09-01", "title": 'Canary "Algebra" | x'},
    {"student_id": 3, "registration_date": None, "title": str(canary.ID)[:-1]},
]
COUNTS = (TableCounts(table="students", before=9, added=0, changed=0, removed=3, sample=(1, canary.ID, 3)),)


def gone(student: int) -> bool:
    return student == canary.ID


def home_with_records(folder: Path) -> Path:
    """A home in which Dagster itself keeps a preview, the table of a hold, and a log."""
    with dg.DagsterInstance.local_temp(str(folder)) as instance:
        for key, metadata in (
            (["snapshots", "students"], {"preview": preview(ROWS), "count": 8452}),
            (["raw", "students"], {"what would change": hold_table(Hold(reason="", counts=COUNTS))}),
        ):
            instance.report_runless_asset_event(dg.AssetMaterialization(key, partition="2026-11-20", metadata=metadata))
    logs = folder / "storage" / "a-run" / "compute_logs"
    logs.mkdir(parents=True)
    (logs / "land.err").write_bytes(
        f"students {canary.ID}: the search failed \udcff\n".encode(errors="surrogateescape")
    )
    return folder


def texts(home: Path) -> str:
    found = []
    for path in sorted(home.rglob("*.db")):
        with sqlite3.connect(path) as con:
            names = [row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            found += [repr(con.execute(f'SELECT * FROM "{name}"').fetchall()) for name in names]
        con.close()
    return "\n".join(found)


def test_a_students_rows_and_ids_are_taken_out_and_the_rest_stays(tmp_path: Path) -> None:
    home = home_with_records(tmp_path)
    before = canary.found(home)
    assert before
    assert "index.db" in " ".join(before)
    was = texts(home)
    changed, locked = take_out(home, gone)
    assert (changed >= 3, locked) == (True, 0)
    assert canary.found(home) == {}
    left = texts(home)
    for piece in ("| 1 | 2025-09-01 | A", "| 3 |", "1, 3 |", "student_id", "8452"):
        assert left.count(piece) == was.replace("1, 739184620571, 3", "1, 3").count(piece) > 0, piece
    log = home / "storage" / "a-run" / "compute_logs" / "land.err"
    assert log.read_bytes() == b"students (erased): the search failed \xff\n"
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey(["snapshots", "students"]))
        assert event is not None
        assert event.asset_materialization is not None
        shown = event.asset_materialization.metadata["preview"].value
        assert [line.split(" | ")[0] for line in str(shown).splitlines()] == ["| student_id", "| ---", "| 1", "| 3"]
    assert take_out(home, gone) == (0, 0)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("details of student 9: not fetched", "details of student 9: not fetched"),
        (f"no clean answer about id {canary.ID})", "no clean answer about id (erased))"),
        (f"student {canary.ID}0 of 7391846205711", f"student {canary.ID}0 of 7391846205711"),
        (f"{canary.ID} rows of something", f"{canary.ID} rows of something"),
    ],
)
def test_only_what_is_said_of_the_student_is_changed(text: str, left: str) -> None:
    assert cleaned(text, gone) == left
