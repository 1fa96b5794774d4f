"""A copy is proven by restoring it, rebuilding it, and comparing it with what readers have."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rollbook.cli import app
from rollbook.errors import ContractChangedError, HeldError, MirrorError, SettingError
from rollbook.features.mirror import mirror
from rollbook.features.mirror.mirror import Bucket, Mirror
from rollbook.night.discard import discard
from rollbook.night.past import always
from tests.support.nights import House, findings_of, line_of, new_house, night
from tests.support.records import classes, student, students
from tests.support.warehouses.begun import begin, begin_changing
from tests.support.warehouses.erasures import erase

pytestmark = pytest.mark.nights

ADVICE = "Run `rollbook mirror verify`; if it finds nothing, run `rollbook rebuild`, and this again"


@pytest.fixture
def copied_school(tmp_path: Path) -> Iterator[House]:
    with new_house(students(30), classes(2), lake=(tmp_path / "copy").as_uri()) as house:
        yield house


def prove(house: House) -> str:
    """Prove the copy as the command does; returns what is then said of it."""
    rollbook = house.rollbook()
    copy = rollbook.listener(Mirror)
    with rollbook.writer().writing():
        copy.update(house.now)
        copy.prove(house.now)
    return copy.remark()


PROVEN = "The off-site copy was last proven, by restoring and comparing it, on 2026-11-2{} 02:15 UTC"
NEVER = "The off-site copy has not been proven yet, by restoring and comparing it"


def alter(file: Path, statement: str, house: House) -> None:
    """Change a published file so that it still counts as written by the warehouse: a fault of our own."""
    warehouse = house.rollbook().warehouse
    with warehouse.finishing(file) as con:
        con.execute(statement)
    warehouse.replace(file)


def test_a_copy_of_everything_that_may_happen_is_proven(copied_school: House) -> None:
    begin_changing(copied_school, 2)
    (copied_school.warehouse / "own").mkdir()
    (copied_school.warehouse / "own" / "years.csv").write_text("student_id,year\n5,10\n6,11\n")
    copied_school.night(3, [student(1, summary="refused"), *students(29, first=2)])
    copied_school.sync(fresh=True)
    discard(copied_school.rollbook().writer(), night(2), reason="on trial", confirm=always)
    erase(copied_school, 20)
    before = copied_school.state()
    assert copied_school.rollbook().listener(Mirror).remark() == NEVER
    assert prove(copied_school) == PROVEN.format(2)
    assert copied_school.state() == before
    assert [p.name for p in (copied_school.warehouse / "build").glob("aside-*")] == []


def test_unpublished_syncs_do_not_fail_the_proof(copied_school: House) -> None:
    copied_school.over["keep_days"] = 4
    begin(copied_school, [student(1, name=None, summary="refused"), *students(29, first=2)])
    assert copied_school.query("SELECT COUNT(*) FROM ops.rejects") == [(1,)]
    with pytest.raises(HeldError):
        copied_school.night(3, students(10))
    with pytest.raises(ContractChangedError):
        copied_school.night(4, [*students(10), *(student(i, name=None) for i in range(11, 31))])
    prove(copied_school)
    discard(copied_school.rollbook().writer(), night(3), reason="on trial", confirm=always)
    prove(copied_school)
    copied_school.night(5, students(30))
    assert not copied_school.rollbook().landings.expired_days()
    assert copied_school.query("SELECT COUNT(*) FROM ops.rejects WHERE snapshot_date = '2026-11-20'") == [(0,)]
    prove(copied_school)


ALTERED = """
UPDATE main.students SET name = 'Somebody' WHERE student_id = 3;
DELETE FROM history.classes WHERE class_id = 501;
INSERT INTO main.changes FROM main.changes LIMIT 1;
UPDATE ops.pages SET records = 7 WHERE kind = 'auth';
"""
ROWS = "2 rows of main.students, 1 rows of history.classes, 1 rows of main.changes, 2 rows of ops.pages"


def test_each_row_that_readers_have_otherwise_is_found(copied_school: House) -> None:
    begin(copied_school)
    assert prove(copied_school) == PROVEN.format(0)
    alter(copied_school.published, ALTERED, copied_school)
    with pytest.raises(MirrorError) as caught:
        prove(copied_school.at(2))
    wrong = f"What was restored from the copy is not what readers have: {ROWS}. {ADVICE}"
    assert caught.value.message == wrong
    said = f"{PROVEN.format(0)}. On 2026-11-21 that failed: {wrong}"
    assert copied_school.rollbook().listener(Mirror).remark() == said
    assert line_of(copied_school.rollbook(), "copy") == said


def test_a_damaged_copy_is_not_proven(copied_school: House, tmp_path: Path) -> None:
    begin(copied_school)
    bodies = next((tmp_path / "copy").rglob("bodies.zst.*"))
    bodies.write_bytes(bodies.read_bytes()[:-1] + b"x")
    with pytest.raises(MirrorError, match="raw/snapshot_date=2026-11-20/landing=1/bodies.zst is missing in .*, or not"):
        prove(copied_school)
    assert NEVER in copied_school.rollbook().listener(Mirror).remark()


@pytest.mark.slow
def test_with_expired_days_each_file_is_compared_with_the_lake(copied_school: House) -> None:
    copied_school.over["keep_days"] = 2
    begin_changing(copied_school, 6)
    assert len(copied_school.rollbook().landings.expired_days()) == 3
    assert prove(copied_school) == PROVEN.format(5)
    versions = copied_school.rollbook().warehouse.kept()
    alter(versions[0], "UPDATE history.students SET name = 'Somebody' WHERE student_id = 9", copied_school)
    with pytest.raises(
        MirrorError, match=rf"{versions[0].name}: 1 records of students are not what was landed on 2026-11-"
    ):
        prove(copied_school)
    content = versions[1].read_bytes()
    versions[1].write_bytes(content[: len(content) // 3])
    with pytest.raises(MirrorError, match=rf"{versions[1].name} cannot be read"):
        prove(copied_school)


def test_with_expired_days_a_copy_whose_days_are_others_is_found(
    copied_school: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied_school.over["keep_days"] = 2
    begin_changing(copied_school, 6)
    restore = mirror.restore

    def without_a_day(url: str, folder: str, into: Path, *rest: Any) -> Any:
        catalog = restore(url, folder, into, *rest)
        (into / "raw" / f"snapshot_date={night(5)}").rename(into / "elsewhere")
        return catalog

    monkeypatch.setattr(mirror, "restore", without_a_day)
    with pytest.raises(MirrorError, match="What was restored from the copy is not what readers have: 30 rows of stud"):
        prove(copied_school)


@pytest.mark.slow
def test_once_a_week_a_sync_proves_it_within_a_limit(copied_school: House, caplog: pytest.LogCaptureFixture) -> None:
    copied_school.over["mirror_proof_minutes"] = 10
    said = []
    for number in (1, 7, 8, 9):
        copied_school.night(number)
        said.append(copied_school.rollbook().listener(Mirror).remark())
    assert said == [PROVEN.format(0)] * 2 + [PROVEN.format(7)] * 2
    assert f"{PROVEN.format(7)}." in (copied_school.warehouse / "report.html").read_text()
    copied_school.over["mirror_proof_minutes"] = 1e-6
    with caplog.at_level(logging.WARNING):
        copied_school.night(20)
    late = "It took longer than 1e-06 minutes. Raise ROLLBOOK_MIRROR_PROOF_MINUTES, or run `rollbook mirror verify --restore`"
    assert late in caplog.text
    assert (
        copied_school.rollbook().listener(Mirror).remark() == f"{PROVEN.format(7)}. On 2026-12-09 that failed: {late}"
    )
    assert copied_school.query("SELECT MAX(snapshot_date) FROM spans.days") == [(night(20),)]


def test_doctor_names_the_extra_that_a_folder_needs_too(copied_school: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    findings = [(str(f.level), f.says) for f in findings_of(copied_school.rollbook()) if f.what == "copy"]
    says = "ROLLBOOK_LAKE needs the extra mirror, for a folder too: pip install 'rollbook[mirror]'"
    assert findings == [("warning", says)]
    with pytest.raises(SettingError) as refused:
        Bucket("file:///mnt/elsewhere")
    assert refused.value.message == says


def test_the_command_proves_it_and_status_and_doctor_say_when(
    copied_school: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in (copied_school.environment() | {"DAGSTER_HOME": str(tmp_path), "COLUMNS": "300"}).items():
        monkeypatch.setenv(name, value)
    begin(copied_school)

    def told() -> tuple[str, list[tuple[str, str]]]:
        findings = [(str(f.level), f.says) for f in findings_of(copied_school.rollbook()) if f.what == "copy"]
        return CliRunner().invoke(app, ["status"]).stdout, findings

    shown, findings = told()
    assert f"copy        {NEVER}." in shown
    assert findings == [("warning", NEVER)]
    done = CliRunner().invoke(app, ["mirror", "verify", "--restore"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    said = done.stdout.strip().splitlines()[-1]
    assert said.startswith("The off-site copy was last proven, by restoring and comparing it, on 20")
    shown, findings = told()
    assert f"copy        {said}" in shown
    assert findings == [("ok", said.removesuffix("."))]
    there = tmp_path / "copy"
    there.rename(tmp_path / "unplugged")
    there.touch()
    copied_school.sync(fresh=True)
    shown, ((level, says),) = told()
    assert (level, says.startswith("The off-site copy is not up to date: ")) == ("warning", True)
    assert " It was last proven, by restoring and comparing it, on 20" in says
    assert "copy        The off-site copy is not up to date: " in shown
