"""Rules for a file before readers see it: each rule finds a breach, and complains of nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from rollbook.errors import CheckError
from rollbook.landing.manifest import Verdict
from rollbook.night import past
from rollbook.store import schema
from rollbook.views import catalog
from tests.support.nights import House, new_house, night
from tests.support.reading import writable
from tests.support.records import MISSING, classes, school_class, student, students
from tests.support.wire import faults

pytestmark = pytest.mark.nights

HOLDS: dict[str, list[str]] = {
    "keys_are_unique": [],
    "versions_do_not_overlap": [],
    "landed_is_rows_and_rejects": [],
    "rebuilt_is_live": [],
    "views_are_readable": [],
}


@pytest.fixture(scope="module")
def six_nights() -> Iterator[House]:
    """Six nights in which everything happens that history has a rule for; one night is held and approved."""
    with new_house(students(40), classes(3)) as house:
        service, everybody = house.service, students(40)
        house.at(1).sync()
        # Somebody leaves, somebody changes, somebody leaves parts out, somebody is refused.
        service.students = everybody[1:]
        service.students[0] = student(2, name="Pupil Other")
        service.students[1] = student(3, classes=MISSING, activity_tracking=None)
        service.students[2] = student(4, name=None)
        service.classes.append(school_class(504))
        house.at(2).sync()
        # Unproven: only adds and updates; and again the same day, proven.
        service.on(faults.moved_total(1), path="students", times=None)
        service.students.append(student(41))
        house.at(3).sync()
        service.mend()
        house.sync()
        # The leaver is back, without some parts; an empty list; a class is gone.
        service.students = [student(1, classes=MISSING), student(2, classes=[]), *everybody[2:]]
        service.classes = service.classes[:2]
        house.at(4).sync()
        service.students = [student(i, name=f"Renamed {i}") for i in range(1, 36)]
        house.at(5).sync(over={"hold_removed_percent": 50, "hold_changed_percent": 100})
        house.at(6).sync()
        yield house


@pytest.fixture
def lived_copy(six_nights: House, tmp_path: Path) -> House:
    """A copy, to be spoiled."""
    shutil.copytree(six_nights.warehouse, tmp_path / "warehouse", symlinks=True)
    copy = House(tmp_path / "warehouse", six_nights.service)
    return copy.at(6)


def spoil(house: House, statement: str) -> None:
    """Change the published file behind Rollbook's back."""
    with duckdb.connect(writable(house.published)) as con:
        con.execute(statement)


def test_all_rules_hold_of_a_warehouse_that_has_lived(lived_copy: House) -> None:
    assert lived_copy.examined() == HOLDS
    synced, unproven = Verdict.SYNCED, Verdict.UNPROVEN
    verdicts = [m.verdict for n in range(1, 7) for m in lived_copy.landings(night(n))]
    assert verdicts == [synced, synced, unproven, synced, synced, synced, synced]


@pytest.mark.parametrize(
    ("statement", "rule", "found"),
    [
        (
            "INSERT INTO main.classes SELECT * FROM main.classes WHERE class_id = 501",
            "keys_are_unique",
            "1 keys of classes are not unique",
        ),
        (
            "UPDATE history.students SET valid_to = NULL WHERE student_id = 2 AND valid_to IS NOT NULL",
            "versions_do_not_overlap",
            "versions of students overlap",
        ),
        (
            "UPDATE history.students SET valid_to = valid_from WHERE student_id = 2 AND valid_to IS NOT NULL",
            "versions_do_not_overlap",
            "versions of students overlap",
        ),
        (
            "UPDATE history.students SET valid_to = valid_to + 2 WHERE student_id = 2 AND valid_to IS NOT NULL",
            "versions_do_not_overlap",
            "versions of students overlap",
        ),
        (
            "UPDATE ops.sync_sets SET received = received + 1 WHERE snapshot_date = DATE '2026-11-25' AND set_name = 'students'",
            "landed_is_rows_and_rejects",
            "38 records landed on 2026-11-25, 37 became rows and 0 rejects",
        ),
        (
            "UPDATE main.students SET name = 'Somebody Else' WHERE student_id = 9",
            "rebuilt_is_live",
            "1 current records of students are not those of its history",
        ),
        (
            "DELETE FROM history.student_summaries WHERE student_id = 9",
            "rebuilt_is_live",
            "1 records of student_summaries are not what was landed on 2026-11-25",
        ),
        (
            "UPDATE history.students SET valid_to = NULL WHERE student_id = 40 AND valid_to IS NOT NULL",
            "rebuilt_is_live",
            "1 records of students are not what was landed on 2026-11-25",
        ),
        (
            "INSERT INTO history.student_classes SELECT 9, 502, 'Made up', 'Made up', DATE '2026-11-20', NULL",
            "rebuilt_is_live",
            "1 records of student_classes are not what was landed on 2026-11-25",
        ),
    ],
)
def test_each_rule_finds_what_breaks_it(lived_copy: House, statement: str, rule: str, found: str) -> None:
    spoil(lived_copy, statement)
    found_now = lived_copy.examined()[rule]
    assert any(sentence.endswith(found) for sentence in found_now), found_now


def test_a_spoiled_file_is_not_published_and_a_rebuild_repairs_it(lived_copy: House) -> None:
    spoil(lived_copy, "UPDATE main.students SET name = 'Somebody Else' WHERE student_id = 9")
    lived_copy.rollbook().warehouse.own.register(lived_copy.published)  # as if Rollbook had written that
    before = lived_copy.state()
    with pytest.raises(CheckError) as caught:
        lived_copy.sync()
    assert caught.value.message == (
        "1 current records of students are not those of its history. Nothing was published; run `rollbook rebuild`"
    )
    assert {name: len(sentences) for name, sentences in caught.value.findings.items()} == {
        n: n == "rebuilt_is_live" for n in HOLDS
    }
    assert lived_copy.state()["rollbook.duckdb"] == before["rollbook.duckdb"]
    past.rebuild(lived_copy.rollbook().writer())
    assert lived_copy.examined() == HOLDS


def test_a_view_that_cannot_be_bound_is_not_published(lived_copy: House, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "CREATE OR REPLACE MACRO main.odd() AS (SELECT nothing FROM main.students)"
    odd = catalog.Macro("odd", (), "It reads a column that is not there.", sql, kind="MACRO")
    made = catalog.macros
    monkeypatch.setattr(catalog, "macros", lambda *of: (*made(*of), odd))
    monkeypatch.setattr(schema, "noted", lambda *_: None)
    with pytest.raises(CheckError, match=r"A view or macro cannot be made \(Binder Error: .*nothing") as caught:
        lived_copy.at(7).sync()
    assert [*caught.value.findings] == ["views_are_readable"]
