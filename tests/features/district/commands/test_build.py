"""`rollbook district build`, `sql`, `export` and `report`, as they are typed."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollbook.cli import app
from rollbook.errors import NothingLandedError, RollbookError
from rollbook.landing.formats import FORMAT
from tests.support.processes.commands import run_command
from tests.support.records import classes, student, students
from tests.support.warehouses.district import District, new_district

pytestmark = pytest.mark.nights

ASH, BIRCH, CEDAR = "ash", "birch", "cedar"


@pytest.fixture(scope="module")
def drifting_district() -> Iterator[District]:
    """Two institutions of one night, one of them with a field that nobody declared; a third that never synced."""
    with new_district([ASH, BIRCH], CEDAR) as district:
        drifting = [student(i, house="red") for i in range(1, 7)]
        district.house(ASH).night(1, [*drifting, student(7, **{"of Zebedee": 1})], classes(1))
        district.house(BIRCH).night(1, students(3), classes(1))
        yield district


def run(district: District, *arguments: str) -> str:
    """The command in this process; returns what it prints, and raises its errors."""
    with district.in_environment():
        done = CliRunner().invoke(app, ["district", *arguments], env={"COLUMNS": "300"}, catch_exceptions=False)
    if done.exit_code:
        raise SystemExit(done.exit_code)
    return " ".join(done.output.split())


def test_one_file_is_built_and_asked(drifting_district: District, tmp_path: Path) -> None:
    with pytest.raises(NothingLandedError, match="run `rollbook district build` first"):
        run(drifting_district, "sql", "FROM students")
    assert "district.duckdb holds 2 institutions and 10 students, up to 2026-11-20." in run(drifting_district, "build")
    answer = run(drifting_district, "sql", "SELECT institution, COUNT(*) AS n FROM students GROUP BY ALL ORDER BY ALL")
    assert re.search(r"ash . 7 birch . 3", answer)
    with pytest.raises(RollbookError, match="read-only"):
        run(drifting_district, "sql", "DELETE FROM students")
    target = tmp_path / "roster.csv"
    assert "Wrote 10 rows" in run(drifting_district, "export", "roster", "--out", str(target))
    assert target.read_text("utf-8-sig").splitlines()[0].startswith("institution,class_title,name")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    log = next((drifting_district.warehouse / "district" / "private").glob("access-*.jsonl"))
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(e["kind"], e["students"]) for e in entries][-1] == ("export", 10), (
        "the ids are shared, the students are not"
    )


def test_the_page_says_who_is_current_and_what_drifts(drifting_district: District) -> None:
    run(drifting_district, "build")
    state = drifting_district.warehouse / "district" / "state"
    state.mkdir(exist_ok=True)
    last = {"kind": "failed", "at": f"{datetime.now(UTC):%FT%TZ}", "message": "It is <down>"}
    (state / "birch.json").write_text(json.dumps({"format": FORMAT, "last": last}))
    printed = run(drifting_district, "report")
    assert "0 of 3 institutions up to date; 1 failed, 1 late, 1 never." in printed
    file = drifting_district.warehouse / "district-report.html"
    page = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for text in (
        "It is &lt;down&gt;",
        "was not synced: run `rollbook district sync`",
        "house",
        "a field of single records",
        "cedar",
    ):
        assert text in page
    assert "Zebedee" not in page
    assert "Pupil" not in page
    (state / "birch.json").unlink()


@pytest.mark.slow
def test_a_build_that_leaves_somebody_out_says_so_and_exits_1(drifting_district: District) -> None:
    (drifting_district.warehouse / ASH / "rollbook.duckdb").resolve().write_bytes(b"")
    done = run_command("district", "build", env=drifting_district.environment())
    assert done.returncode == 1, done.stdout + done.stderr
    assert "ash was left out: its file is damaged" in " ".join(done.stderr.split())
    assert "1 institution and 3 students" in " ".join(done.stdout.split())
