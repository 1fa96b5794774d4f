"""OneRoster 1.2: the files have the specification's fields, what is required is there, and every reference is met."""

from __future__ import annotations

import csv
import stat
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from rollbook.errors import ArgumentError, NothingLandedError
from rollbook.features.export.oneroster import ABSENT, write
from rollbook.reading import access
from tests.support.nights import FIRST, House, new_house, night
from tests.support.processes.commands import run_at
from tests.support.records import MISSING, classes, school_class, student, students
from tests.support.warehouses.school import DAYS, School

pytestmark = pytest.mark.nights

# The tables of fields of the specification's CSV binding (1.2, rostering), in their order; required ones are marked.
# `status` and `dateLastModified` are required of a delta, and blank in a bulk file.
SPECIFICATION = {
    "academicSessions": "sourcedId* status dateLastModified title* type* startDate* endDate* parentSourcedId schoolYear*",
    "classes": "sourcedId* status dateLastModified title* grades courseSourcedId* classCode classType* location"
    " schoolSourcedId* termSourcedIds* subjects subjectCodes periods",
    "courses": "sourcedId* status dateLastModified schoolYearSourcedId title* courseCode grades orgSourcedId* subjects"
    " subjectCodes",
    "enrollments": "sourcedId* status dateLastModified classSourcedId* schoolSourcedId* userSourcedId* role* primary"
    " beginDate endDate",
    "orgs": "sourcedId* status dateLastModified name* type* identifier parentSourcedId",
    "roles": "sourcedId* status dateLastModified userSourcedId* roleType* role* beginDate endDate orgSourcedId*"
    " userProfileSourcedId",
    "users": "sourcedId* status dateLastModified enabledUser* username userIds givenName* familyName* middleName"
    " identifier email sms phone agentSourcedIds grades password userMasterIdentifier resourceSourcedIds"
    " preferredGivenName preferredMiddleName preferredFamilyName primaryOrgSourcedId pronouns",
}
REFERENCES = {
    ("academicSessions", "parentSourcedId"): "academicSessions",
    ("classes", "courseSourcedId"): "courses",
    ("classes", "schoolSourcedId"): "orgs",
    ("classes", "termSourcedIds"): "academicSessions",
    ("courses", "orgSourcedId"): "orgs",
    ("enrollments", "classSourcedId"): "classes",
    ("enrollments", "schoolSourcedId"): "orgs",
    ("enrollments", "userSourcedId"): "users",
    ("roles", "userSourcedId"): "users",
    ("roles", "orgSourcedId"): "orgs",
    ("users", "primaryOrgSourcedId"): "orgs",
}
Row = dict[str, str]
BEFORE = DAYS[-2]


def read(folder: Path) -> dict[str, list[Row]]:
    """The files of a folder, of which each has the specification's heading."""
    there = {}
    for name, fields in SPECIFICATION.items():
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            assert rows.fieldnames == [field.strip("*") for field in fields.split()], name
            there[name] = list(rows)
    return there


def manifest(folder: Path) -> dict[str, str]:
    with (folder / "manifest.csv").open(encoding="utf-8", newline="") as file:
        return {row["propertyName"]: row["value"] for row in csv.DictReader(file)}


def missing(files: dict[str, list[Row]]) -> list[str]:
    """The required values that are blank."""
    return [
        f"{name}: {row}"
        for name, fields in SPECIFICATION.items()
        for row in files[name]
        if not all(row[field.strip("*")] for field in fields.split() if field.endswith("*"))
    ]


@pytest.fixture
def three_nights() -> Iterator[House]:
    """Three nights: a student, a class and a course leave, a student is renamed and one joins a class."""
    with new_house(students(9), classes(4)) as house:
        house.night(1)
        here = [student(1, name="Ada Maria King", first_name=None, last_name=None), *students(6, first=2)]
        house.night(2, here, classes(3))
        house.night(3, [*here, student(20)])
        yield house


def test_a_school_has_every_required_field_and_meets_every_reference(fortnight: School, tmp_path: Path) -> None:
    counts = write(fortnight.published, tmp_path / "roster")
    files = read(tmp_path / "roster")
    assert {name: len(rows) for name, rows in files.items()} == counts
    assert missing(files) == []
    ids = {name: [row["sourcedId"] for row in rows] for name, rows in files.items()}
    for name, given in ids.items():
        assert len(given) == len(set(given)), name
    for (name, field), of in REFERENCES.items():
        assert {each for row in files[name] for each in row[field].split(",")} <= {"", *ids[of]}, (name, field)
    students_of = {row["userSourcedId"] for row in files["roles"] if row["role"] == "student"}
    assert students_of == {f"student-{i}" for (i,) in fortnight.rows("SELECT student_id FROM students")}
    pairs = {(row["userSourcedId"], row["classSourcedId"]) for row in files["enrollments"] if row["role"] == "student"}
    active = "SELECT student_id, class_id FROM student_classes SEMI JOIN (FROM classes WHERE class_status = 1) USING (class_id)"
    assert pairs == {(f"student-{s}", f"class-{c}") for s, c in fortnight.rows(active)}
    assert {row["status"] for rows in files.values() for row in rows} == {""}
    shown = manifest(tmp_path / "roster")
    assert (shown["oneroster.version"], shown["file.users"], shown["file.results"]) == ("1.2", "bulk", "absent")
    assert len(shown) == len(SPECIFICATION) + len(ABSENT) + 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "roster").iterdir()} == {0o600}


def test_a_delta_brings_another_system_from_one_day_to_the_next(fortnight: School, tmp_path: Path) -> None:
    """A consumer that knows the specification alone ends with what a whole file of the new day says."""
    write(fortnight.published, tmp_path / "whole")
    write(fortnight.published, tmp_path / "delta", BEFORE)
    whole, delta = read(tmp_path / "whole"), read(tmp_path / "delta")
    assert missing(delta) == []
    assert manifest(tmp_path / "delta")["file.enrollments"] == "delta"
    for name, rows in delta.items():
        here = {row["sourcedId"]: row for row in whole[name]}
        for row in rows:
            assert row["dateLastModified"] > f"{BEFORE}T24"
            if row["status"] == "active":
                assert here[row["sourcedId"]] | {"status": "active", "dateLastModified": row["dateLastModified"]} == row
            else:
                assert (row["status"], row["sourcedId"] in here) == ("tobedeleted", False)
    assert {row["status"] for row in delta["enrollments"]} == {"active", "tobedeleted"}


def test_what_left_is_to_be_deleted_and_what_came_begins(three_nights: House, tmp_path: Path) -> None:
    write(three_nights.published, tmp_path, FIRST)
    delta = read(tmp_path)
    users = {row["sourcedId"]: row for row in delta["users"]}
    assert {name for name, row in users.items() if row["status"] == "tobedeleted"} >= {"student-8", "student-9"}
    assert (users["student-1"]["givenName"], users["student-1"]["familyName"]) == ("Ada Maria", "King")
    assert users["student-20"]["dateLastModified"] == f"{night(3)}T00:00:00.000Z"
    assert {row["sourcedId"]: row["status"] for row in delta["classes"]}["class-504"] == "tobedeleted"
    new = [row for row in delta["enrollments"] if row["userSourcedId"] == "student-20"]
    assert {(row["status"], row["beginDate"]) for row in new} == {("active", str(night(3)))}
    gone = [row for row in delta["enrollments"] if row["userSourcedId"] == "student-9"]
    assert {(row["status"], row["endDate"]) for row in gone} == {("tobedeleted", str(night(2)))}


def test_a_full_name_is_cut_and_keeps_what_stands_behind_it(tmp_path: Path) -> None:
    names = {
        "Ada Maria King": ("Ada Maria", "King"),
        "van den Berg, Anna": ("Anna", "van den Berg"),
        "O'Brien,Ida": ("Ida", "O'Brien"),
        "Li, Ma": ("Ma", "Li"),
        "Khan, Md": ("Md", "Khan"),
        "Berg, I.": ("I.", "Berg"),
        "Robert Downey, Jr.": ("Robert", "Downey, Jr."),
        "Robert Downey Jr": ("Robert", "Downey Jr"),
        "Downey, Robert III": ("Robert", "Downey III"),
        "John Smith, M.Ed.": ("John", "Smith, M.Ed."),
        "Jo Smith Sr., PhD, MBA": ("Jo", "Smith Sr., PhD, MBA"),
        "Berg, Jr.": ("Berg", "Berg, Jr."),
        "Madonna": ("Madonna", "Madonna"),
        "Anna\u00a0\u00a0Berg": ("Anna", "Berg"),
    }
    listed = [student(i, name=name, first_name=MISSING, last_name=None) for i, name in enumerate(names, 1)]
    with new_house(listed, classes(1)) as house:
        house.night(1)
        write(house.published, tmp_path)
    users = {row["sourcedId"]: (row["givenName"], row["familyName"]) for row in read(tmp_path)["users"]}
    assert [users[f"student-{i}"] for i in range(1, len(names) + 1)] == [*names.values()]


def test_an_email_that_siblings_share_is_nobodys_username(tmp_path: Path) -> None:
    shared = ["Parent@home.example", "parent@home.example", None, "own@home.example", "own@home.example"]
    with new_house() as house:
        house.night(1, [student(i, email=email) for i, email in enumerate(shared, 1)], classes(1))
        house.night(2, [student(i, email=email) for i, email in enumerate(shared[:4], 1)])
        write(house.published, tmp_path)
        write(house.published, tmp_path / "delta", night(1))
    users = {user["sourcedId"]: user for user in read(tmp_path)["users"]}
    named = {key: user["username"] for key, user in users.items() if key.startswith("student-")}
    assert named == {f"student-{n}": f"student-{n}" for n in (1, 2, 3)} | {"student-4": "own@home.example"}
    assert [users[f"student-{n}"]["email"] for n in (1, 2)] == shared[:2]
    told = {row["sourcedId"]: (row["status"], row["username"]) for row in read(tmp_path / "delta")["users"]}
    assert told == {f"student-{n}": (how, "own@home.example") for n, how in ((4, "active"), (5, "tobedeleted"))}


def test_an_id_that_was_given_to_another_person_is_another_user(three_nights: House, tmp_path: Path) -> None:
    """An LMS would else show the new pupil the work of the former one. The class stays, and so does its line."""
    other = {"name": "Grace Hopper", "email": "grace@example.org", "reference_id": "SIS-NEW"}
    three_nights.night(4, [student(n) | (other if n == 5 else {}) for n in range(1, 8)])
    write(three_nights.published, tmp_path / "delta", night(3))
    write(three_nights.published, tmp_path / "whole")
    delta, whole, new = read(tmp_path / "delta"), read(tmp_path / "whole"), f"student-5-{night(4)}"
    users = {row["sourcedId"]: (row["status"], row["email"]) for row in delta["users"]}
    assert (users["student-5"][0], users[new]) == ("tobedeleted", ("active", "grace@example.org"))
    assert {row["userSourcedId"]: row["status"] for row in delta["roles"]}.items() >= {
        ("student-5", "tobedeleted"),
        (new, "active"),
    }
    of = {"student-5": ("tobedeleted", "", str(night(4))), new: ("active", str(night(4)), "")}
    theirs = [row for row in delta["enrollments"] if row["userSourcedId"] in of]
    assert {row["userSourcedId"] for row in theirs} == {*of}
    for row in theirs:
        assert (row["status"], row["beginDate"], row["endDate"]) == of[row["userSourcedId"]]
    assert new in {row["sourcedId"] for row in whole["users"]}
    assert not [row for rows in whole.values() for row in rows if "student-5" in row.values()]
    write(three_nights.published, tmp_path / "later", night(4))
    later = read(tmp_path / "later")
    assert [name for name in later if later[name]] == ["academicSessions"]


def test_a_replaced_teacher_is_deleted_from_the_class_then_the_school(three_nights: House, tmp_path: Path) -> None:
    old = school_class(502)["teacher"]
    person = f"teacher-{old['teacher_id']}"
    new = old | {"teacher_id": 77, "teacher_name": "New Teacher"}
    others = [school_class(501), school_class(503)]
    three_nights.night(4, classes=[*others, school_class(502, teacher=new)])
    for day, classes_left in ((night(3), others), (night(4), [])):
        if not classes_left:
            three_nights.night(5, classes=[school_class(n, teacher=new) for n in (501, 502, 503)])
        write(three_nights.published, tmp_path / str(day), day)
        delta = read(tmp_path / str(day))
        gone = {row["classSourcedId"] for row in delta["enrollments"] if row["userSourcedId"] == person}
        assert gone == ({"class-502"} if classes_left else {"class-501", "class-503"})
        assert {r["status"] for r in delta["enrollments"] if r["userSourcedId"] == person} == {"tobedeleted"}
        assert [r["status"] for r in delta["users"] if r["sourcedId"] == person] == [
            "active" if classes_left else "tobedeleted"
        ]
    write(three_nights.published, tmp_path / "whole")
    assert missing(read(tmp_path / "whole")) == []
    assert person not in {row["sourcedId"] for row in read(tmp_path / "whole")["users"]}


def test_inactive_classes_and_terms(three_nights: House, tmp_path: Path) -> None:
    (three_nights.warehouse / "terms.csv").write_text(
        f"name,first_day,last_day\nAutumn,{date(2026, 9, 1)},{date(2026, 12, 18)}\n"
    )
    three_nights.night(4, classes=[school_class(501, class_status=2), school_class(502, course={}), school_class(503)])
    write(three_nights.published, tmp_path)
    files = read(tmp_path)
    assert missing(files) == []
    assert [row["sourcedId"] for row in files["classes"]] == ["class-502", "class-503"]
    assert {row["termSourcedIds"] for row in files["classes"]} == {"term-2026-09-01"}
    columns = ("type", "parentSourcedId", "schoolYear")
    sessions = {row["sourcedId"]: tuple(row[column] for column in columns) for row in files["academicSessions"]}
    assert sessions == {"year-2027": ("schoolYear", "", "2027"), "term-2026-09-01": ("term", "year-2027", "2027")}
    assert "class-501" not in {row["classSourcedId"] for row in files["enrollments"]}


def test_the_command_notes_it_and_says_what_is_blank(three_nights: House, tmp_path: Path) -> None:
    folder = tmp_path / "roster"
    done = run_at(three_nights.warehouse, "export", "--oneroster", str(folder), "--since", str(FIRST))
    assert done.returncode == 0, done.stderr
    assert "enrollments" in done.stdout
    assert "for systems that take OneRoster, not for Excel" in done.stdout
    assert "Left blank, since the service does not state it: grades" in done.stdout
    entry = access.entries(three_nights.warehouse)[0][-1]
    assert (entry.kind, entry.students) == (
        "export --oneroster",
        len([u for u in read(folder)["users"] if "student" in u["sourcedId"]]),
    )
    for wrong in (("--since", str(FIRST)), ("roster", "--oneroster", str(folder)), ()):
        refused = run_at(three_nights.warehouse, "export", *wrong)
        assert (refused.returncode, "a folder with --oneroster" in refused.stderr) == (2, True)
    with pytest.raises(ArgumentError, match=f"the newest landed day is {night(3)}"):
        write(three_nights.published, folder, night(4))
    with pytest.raises(ArgumentError, match="own files"):
        write(three_nights.published, three_nights.warehouse / "raw")
    with pytest.raises(NothingLandedError):
        write(tmp_path / "rollbook.duckdb", folder)
