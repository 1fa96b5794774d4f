"""The cost of a new field and a new endpoint: lines in `tables.py` alone, tried on a copy of the package."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollbook.settings import ROOT
from tests.support.nights import FIRST, House, night
from tests.support.reading import rows
from tests.support.records import Record, school_class, student
from tests.support.wire.service import Service

PACKAGE = Path(__file__).parent.parent / "pipelines" / "rollbook"
SYNC = """
import sys
from datetime import datetime
from rollbook.settings import load
from rollbook.assembly import assemble
from rollbook.night import sync
now = datetime.fromisoformat(sys.argv[1])
rollbook = assemble(load(_env_file=None), clock=lambda: now)
"""
ENDPOINT = """        Set("teachers", endpoint="staff/teachers", key="teacher_id", id_field="id", walked=True, names=("email",)),
        Set("excuses", endpoint="excuses", key="student_id", id_field="student_id", walked=True, names=("reference",)),
"""
TABLES = """        Table(
            "excuses",
            set="excuses",
            key=("student_id",),
            comment="One row per student who was excused.",
            columns=(
                _STUDENT_ID,
                Column("reference", "VARCHAR", "The institution's own student id.", personal=True),
                Column("excuse", "VARCHAR", "The last excuse.", personal=True),
            ),
        ),
        Table(
            "teachers",
            set="teachers",
            key=("teacher_id",),
            comment="One row per teacher.",
            columns=(
                Column("teacher_id", "BIGINT", "The teacher's id.", source="id", id=True, required=True),
                Column("email", "VARCHAR", "The teacher's email address.", personal=True),
                Column("department", "VARCHAR", "The department.", personal=False),
            ),
        ),
        Table(
            "teacher_subjects",
            set="teachers",
            key=("teacher_id", "subject", "grade"),
            path="subjects[]",
            may_be_unstated=True,
            comment="One row per teacher, subject and grade.",
            columns=(
                Column("teacher_id", "BIGINT", "The teacher's id.", id=True, required=True),
                Column("subject", "VARCHAR", "The subject.", required=True, personal=False),
                Column("grade", "BIGINT", "The grade.", required=True),
                Column("hours", "BIGINT", "Hours a week."),
            ),
        ),
        Table(
            "student_guardians",
            set="students",
            key=("student_id", "guardian_id"),
            path="guardians[]",
            may_be_unstated=True,
            comment="One row per student and guardian.",
            columns=(
                _STUDENT_ID,
                Column("guardian_id", "BIGINT", "The guardian's id.", id=True, required=True),
                Column("guardian_name", "VARCHAR", "The guardian's name.", personal=True),
                Column("relation", "VARCHAR", "Mother, father or other.", personal=False),
            ),
        ),
"""
WORK = """
from pathlib import Path
from rollbook.reading.formats import Format
from rollbook.reading.query import export
from rollbook.health.doctor import Level, examine
from rollbook.night.past import rebuild
from tests.support.nights import findings_of
rebuild(rollbook.writer())
wrong = [found for found in findings_of(rollbook) if found.level is Level.FAILED]
assert {found.what for found in wrong} <= {"clock"}, wrong  # the service's stands still
question = "SELECT teacher_id, department FROM teachers_as_of(DATE '2026-11-22') ORDER BY 1"
export(rollbook.warehouse.published_file, question, Format.CSV, Path("teachers.csv"), scratch=Path("spill"))
"""
DECLARED = ("excuses", "teachers", "teacher_subjects", "student_guardians")


def sync_with(house: House, copy: Path, work: str = "sync(rollbook.writer())") -> None:
    """Sync tonight, or do other work, with another copy of the package, in a process of its own."""
    environment = {**os.environ, **house.environment(), "PYTHONPATH": os.pathsep.join((str(copy), str(ROOT)))}
    command = [sys.executable, "-c", SYNC + work, house.now.isoformat()]
    done = subprocess.run(command, check=False, cwd=copy, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the package."""
    shutil.copytree(PACKAGE, tmp_path / "copy" / "rollbook")
    return tmp_path / "copy"


def declare(copy: Path, lines: str, *, before: str) -> None:
    """Add lines to the copy's declarations, before the only line that begins like this."""
    tables = copy / "rollbook" / "tables.py"
    declared = tables.read_text()
    assert declared.count(before) == 1
    tables.write_text(declared.replace(before, lines + before))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_field_is_one_line_from_the_service_to_the_history(tmp_path: Path, copy: Path) -> None:
    with Service([student(1, house="Red"), student(2)], [school_class(501)]) as service:
        house = House(tmp_path / "w", service)
        house.at(1).sync()
        line = '                Column("house", "VARCHAR", "The house of the student.", personal=False),\n'
        declare(copy, line, before='                Column("reference_id", "VARCHAR", "The institution')
        service.students[1]["house"] = "Blue"
        house.at(2)
        sync_with(house, copy)
    assert house.query("SELECT student_id, house FROM students ORDER BY 1") == [(1, "Red"), (2, "Blue")]
    assert house.query("SELECT student_id, house, valid_from, valid_to FROM history.students ORDER BY 1, 3") == [
        (1, None, FIRST, night(2)),
        (1, "Red", night(2), None),
        (2, None, FIRST, night(2)),
        (2, "Blue", night(2), None),
    ]
    comments = "SELECT comment FROM duckdb_columns() WHERE column_name = 'house' AND schema_name IN ('main', 'history')"
    assert house.query(comments)[:2] == [("The house of the student.",)] * 2


def teacher(number: int, *subjects: tuple[str, int, int], **over: Any) -> Record:
    """One teacher: the department, and the subjects, each with its grade and hours."""
    listed = [dict(zip(("subject", "grade", "hours"), each, strict=True)) for each in subjects]
    return {"id": number, "email": f"t{number}@school.example", "department": "Science", "subjects": listed} | over


def guardian(number: int, name: str) -> Record:
    return {"guardian_id": number, "guardian_name": name, "relation": "mother"}


@pytest.fixture
def declared(tmp_path: Path, copy: Path) -> Iterator[House]:
    """Five nights of a school: the first before teachers and guardians are declared, the others after."""
    algebra, physics = ("Algebra", 7, 3), ("Physics", 8, 4)
    with Service([student(1), student(2)], [school_class(501)]) as service:
        house = House(tmp_path / "w", service, pseudonymous=True, hold_changed_percent=100)
        house.at(1).sync()
        declare(copy, ENDPOINT, before='        Set(\n            "auth",\n')
        declare(copy, TABLES, before='        Table(\n            "student_details",\n')
        for number, ann, teachers in (
            (2, "Ann", [teacher(9, algebra, ("Algebra", 8, 2)), teacher(10, physics), teacher(11)]),
            # One gives a grade away and changes department; one has left; one lists a subject and grade twice, differently.
            (3, "Ann Lee", [teacher(9, algebra, department="Maths"), teacher(11, physics, ("Physics", 8, 5))]),
            # One leaves out the subjects; one is back.
            (4, "Ann Lee", [teacher(9, department="Maths", subjects=None), teacher(10, physics), teacher(11)]),
        ):
            service.students = [student(1, guardians=[guardian(90, ann)]), student(2, guardians=[])]
            service.others["staff/teachers"] = teachers
            service.others["excuses"] = [{"student_id": 1, "reference": "R-1", "excuse": f"{ann} called"}]
            house.at(number)
            sync_with(house, copy)
        yield house


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_endpoint_is_a_set_and_its_tables(declared: House, copy: Path) -> None:
    house = declared
    searched = [r.search for r in house.service.asked("staff/teachers", search=True)]
    assert searched == ["t10@school.example"]
    assert house.query("FROM teachers ORDER BY 1") == [
        (9, "t9@school.example", "Maths"),
        (10, "t10@school.example", "Science"),
        (11, "t11@school.example", "Science"),
    ]
    subjects = [
        (9, "Algebra", 7, 3, night(2), None),
        (9, "Algebra", 8, 2, night(2), night(3)),
        (10, "Physics", 8, 4, night(2), night(3)),
        (10, "Physics", 8, 4, night(4), None),
        (11, "Physics", 8, 5, night(3), night(4)),
    ]
    assert house.query("FROM history.teacher_subjects ORDER BY ALL") == subjects
    assert house.query("FROM history.student_guardians ORDER BY ALL") == [
        (1, 90, "Ann", "mother", night(2), night(3)),
        (1, 90, "Ann Lee", "mother", night(3), None),
    ]
    query = "SELECT snapshot_date, table_name, student_id, teacher_id, subject, grade, guardian_id, change, column_name"
    assert house.query(f"{query} FROM changes WHERE snapshot_date > '{night(2)}' ORDER BY ALL") == [
        (night(3), "excuses", 1, None, None, None, None, "changed", "excuse"),
        (night(3), "student_guardians", 1, None, None, None, 90, "changed", "guardian_name"),
        (night(3), "teacher_subjects", None, 9, "Algebra", 8, None, "removed", None),
        (night(3), "teacher_subjects", None, 10, "Physics", 8, None, "removed", None),
        (night(3), "teacher_subjects", None, 11, "Physics", 8, None, "added", None),
        (night(3), "teachers", None, 9, None, None, None, "changed", "department"),
        (night(3), "teachers", None, 10, None, None, None, "removed", None),
        (night(4), "teacher_subjects", None, 10, "Physics", 8, None, "returned", None),
        (night(4), "teacher_subjects", None, 11, "Physics", 8, None, "removed", None),
        (night(4), "teachers", None, 10, None, None, None, "returned", None),
    ]
    assert house.query("SELECT * FROM snapshots.teacher_subjects ORDER BY snapshot_date, teacher_id, grade") == [
        *((*row[:4], night(2)) for row in subjects[:3]),
        (*subjects[0][:4], night(3)),
        (*subjects[4][:4], night(3)),
        (*subjects[3][:4], night(4)),
    ]
    assert house.query("SELECT set_name, id, table_name, column_name, reason FROM ops.refused_values") == [
        ("teachers", 11, "teacher_subjects", "subject", "listed twice, differently")
    ]
    assert house.query(
        "SELECT received, proven FROM ops.sync_sets WHERE set_name = 'teachers' ORDER BY snapshot_date"
    ) == [
        (3, True),
        (2, True),
        (3, True),
    ]
    assert house.query("SELECT teacher_id, class_count FROM teacher_overview") == [(9, 1)]
    findings = house.query(
        "SELECT kind, about, since, last_seen FROM data_quality WHERE kind <> 'count mismatch' ORDER BY 1"
    )
    assert findings == [
        ("not stated", "teacher_subjects", night(4), night(4)),
        ("refused value", "teacher_subjects", night(3), night(3)),
    ]
    before = house.tables(*DECLARED)
    sync_with(house, copy, WORK)
    assert house.tables(*DECLARED) == before
    with (copy / "teachers.csv").open(encoding="utf-8-sig", newline="") as exported:
        assert [*csv.reader(exported)] == [["teacher_id", "department"], ["9", "Maths"], ["11", "Science"]]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_personal_column_of_an_endpoint_is_declared_once(declared: House, copy: Path) -> None:
    """It stays out of the pseudonymous file; an erasure and a subject access file find it."""
    house = declared
    coded = house.warehouse / "rollbook-pseudonymous.duckdb"
    assert rows(coded, "SELECT teacher_id, email, department FROM teachers ORDER BY 1") == [
        (9, None, "Maths"),
        (10, None, "Science"),
        (11, None, "Science"),
    ]
    # Neither a value nor that one changed: guardian 90 was renamed.
    ((code,),) = rows(coded, "SELECT student_id FROM student_guardians")
    assert rows(coded, "FROM history.student_guardians") == [(code, 90, None, "mother", night(2), None)]
    assert rows(coded, "SELECT change FROM changes WHERE table_name = 'student_guardians'") == [("added",)]
    assert rows(coded, "FROM spans.student_guardians WHERE span_state = 'stated'") == []
    work = """
from rollbook.rights.erasure import erase
from rollbook.rights.processing import render
from rollbook.rights.subject import gather
from rollbook.views import dictionary
from pathlib import Path
held = {section.name: section.rows for section in gather(rollbook.warehouse.root, 1).sections}
assert held["main.student_guardians"] == [(1, 90, "Ann Lee", "mother")], held["main.student_guardians"]
erase(rollbook.writer(), 1, reason="asked", confirm=lambda found: True)
Path("record.md").write_text(render(rollbook.settings, at=now))
dictionary.write(Path("dictionary.md"))
"""
    sync_with(house, copy, work)
    for file in (house.published, coded):
        assert rows(file, "SELECT (SELECT COUNT(*) FROM history.student_guardians), COUNT(*) FROM excuses") == [(0, 0)]
    raw = house.rollbook().raw
    landings = [raw.open(manifest) for manifest in raw.manifests()]
    bodies = [content for landing in landings for _, content in landing.contents(landing.pages())]
    assert len(bodies) > 9
    assert b"Ann Lee" not in b"".join(bodies)
    record = (copy / "record.md").read_text()
    assert "| `guardian_name` | VARCHAR | identifies | The guardian's name. |" in record
    assert "| `grade` | BIGINT | about a person | The grade. |" in record
    dictionary = (copy / "dictionary.md").read_text()
    assert "teachers ||--o{ teacher_subjects : teacher_id" in dictionary
    assert "Key: `teacher_id`, `subject`, `grade`." in dictionary
