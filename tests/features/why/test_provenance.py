"""Where a row or a value comes from: `rollbook why`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from rollbook.errors import ArgumentError
from rollbook.features.why.provenance import Provenance, trace
from rollbook.night.discard import discard, undo_discard
from rollbook.night.past import always
from rollbook.reading import access
from rollbook.util import machine
from tests.support.nights import (
    SET_OF,
    STUDENT_TABLES,
    TRACKED,
    House,
    class_rows,
    new_house,
    night,
    student_rows,
)
from tests.support.processes.commands import run_at
from tests.support.records import classes, school_class, student, students, within
from tests.support.warehouses.begun import begin
from tests.support.warehouses.erasures import erase
from tests.support.warehouses.holds import first_night, is_held
from tests.support.wire import faults

pytestmark = pytest.mark.nights


@pytest.fixture(scope="module")
def eventful() -> Iterator[House]:
    """Names and figures change, a day has two landings, records are refused, silent, gone and back."""
    with new_house(students(120), classes(3), hold_changed_percent=100) as house:
        house.night(1)
        renamed = student(1, name="New Name", **within("summary", completed_assignments=16))
        house.night(2, [renamed, *students(118, first=3)], [*classes(2), school_class(503, class_room="C 3")])
        again = [student(1, name=None), student(2, activity_tracking=None), *students(118, first=3)]
        house.night(2, again, fresh=True)
        house.night(3, [student(1, classes=[]), *students(119, first=2)], classes(3))
        yield house


def source(provenance: Provenance) -> dict[str, str]:
    """The lines by heading."""
    return dict(provenance.lines)


def without_bodies(provenance: Provenance) -> list[Any]:
    """The lines; of requests and bodies, which have times and digests, only the headings."""
    return [line[0] if line[0] in ("request", "body") else line for line in provenance.lines]


def received(house: House, provenance: Provenance) -> Any:
    """The record that it names, read from the landing's bodies by what it says of them."""
    shown = source(provenance)
    (start, end), (length, at) = (
        [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", shown[line].rpartition(";")[2])[:2]]
        for line in ("record", "body")
    )
    folder = shown["landing"].partition(",")[0]
    frame = (house.warehouse / folder / "bodies.zst").read_bytes()[at : at + length]
    with pa.input_stream(pa.py_buffer(frame), compression="zstd") as stream:
        record = stream.read()[start:end]
    assert record.decode() == shown["received"]
    return json.loads(record)


@pytest.mark.parametrize("table", SET_OF)
def test_each_version_leads_to_the_record_that_first_stated_it(eventful: House, table: str) -> None:
    keys = 2 if table == "student_classes" else 1
    stated = student_rows if table in STUDENT_TABLES else class_rows
    versions = eventful.query(
        f"SELECT * FROM history.{table} WHERE {'student' if table in STUDENT_TABLES else 'class'}_id < 505"
    )
    assert {row[-2] for row in versions} >= {night(1)}
    for row in versions:
        key, values, since, until = row[:keys], row[keys:-2], row[-2], row[-1]
        if key[0] not in (1, 2, 120, 501, 503):
            continue
        provenance = trace(eventful.warehouse, table, key, on=since, show=True)
        assert (stated(received(eventful, provenance))[table] or {})[key] == values
        assert source(provenance)["landing"].startswith(f"raw/snapshot_date={since}/")
        for column, value in zip(TRACKED[table], values, strict=True) if until or key[0] == 120 else ():
            cell = trace(eventful.warehouse, table, key, column, since, show=True)
            assert source(cell)["value"] == f"{column}: {value}"


def test_a_value_leads_to_its_first_day_and_shows_no_name(eventful: House) -> None:
    provenance = trace(eventful.warehouse, "student_summaries", (1,), "completed_assignments", night(2))
    assert without_bodies(provenance) == [
        ("row", "student_summaries 1: since 2026-11-21, until 2026-11-22"),
        ("landing", "raw/snapshot_date=2026-11-21/landing=1, synced at 2026-11-21 02:15 UTC"),
        ("proof", "walk 1 was complete: 119 ids on 2 pages, as total_count said"),
        "request",
        "body",
        ("record", "bytes 24 to 749 of the body, number 1 in it"),
        ("value", "completed_assignments: 16"),
    ]
    assert source(provenance)["request"].startswith("GET /svcapi/v1/students?page=1, answered at 20")
    assert re.fullmatch(
        r"100 records, [\d,]+ bytes, SHA-256 [0-9a-f]{64}; [\d,]+ bytes from 170 on in bodies.zst",
        source(provenance)["body"],
    )
    assert provenance.changes == [
        (night(2), "changed", "completed_assignments", "15", "16"),
        (night(1), "added", None, None, None),
    ]
    name = trace(eventful.warehouse, "students", (1,), "name", night(2))
    assert source(name)["value"] == "name: (not shown)"
    assert name.changes[0] == (night(2), "changed", "name", "(not shown)", "(not shown)")
    assert "New Name" not in str(name) + str(provenance)
    shown = trace(eventful.warehouse, "students", (1,), "name", night(2), show=True)
    assert source(shown)["value"] == "name: New Name"
    assert shown.changes[0] == (night(2), "changed", "name", "Pupil Number1", "New Name")


def test_an_unchanged_value_leads_past_the_other_changes_of_its_row(eventful: House) -> None:
    rooms = [source(trace(eventful.warehouse, "classes", (503,), "class_room", night(n)))["row"] for n in (1, 2, 3)]
    assert rooms == [
        "classes 503: since 2026-11-20, until 2026-11-21",
        "classes 503: since 2026-11-21, until 2026-11-22",
        "classes 503: since 2026-11-22",
    ]
    assert source(trace(eventful.warehouse, "classes", (503,), "teacher_id"))["row"] == "classes 503: since 2026-11-20"


def test_a_value_without_history_leads_to_the_last_day_that_stated_it(eventful: House) -> None:
    for number, landing in ((1, 1), (2, 1), (3, 1)):
        provenance = trace(
            eventful.warehouse, "student_activity", (1,), "days_since_last_activity", night(number), show=True
        )
        assert source(provenance)["landing"].startswith(f"raw/snapshot_date={night(number)}/landing={landing},")
        assert source(provenance)["value"] == "days_since_last_activity: 1"


def test_a_removed_row_leads_to_the_proof_and_the_searches(eventful: House) -> None:
    with new_house(students(8), classes(1)) as house:
        begin(house)
        house.night(2, students(7))
        provenance = trace(house.warehouse, "student_classes", (8, 501))
        assert without_bodies(provenance) == [
            ("row", "student_classes 8,501: removed on 2026-11-21"),
            ("landing", "raw/snapshot_date=2026-11-21/landing=1, synced at 2026-11-21 02:15 UTC"),
            ("proof", "walk 1 was complete: 7 ids on 1 page, as total_count said"),
            ("searched", "by reference_id, email: removed"),
            *["request", "body"] * 2,
        ]
        assert provenance.changes == [(night(2), "removed", None, None, None), (night(1), "added", None, None, None)]
        # Asked of another day, it was there.
        assert source(trace(house.warehouse, "student_classes", (8, 501), on=night(1)))["row"].endswith(
            "since 2026-11-20, until 2026-11-21"
        )
    provenance = trace(eventful.warehouse, "student_classes", (1, 501), show=True)
    assert source(provenance)["row"] == "student_classes 1,501: removed on 2026-11-22"
    assert json.loads(source(provenance)["received"])["classes"] == []  # the record itself no longer lists the class


def test_it_says_who_approved_discarded_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "login", lambda: "sam")
    with new_house(students(12), classes(1)) as house:
        first_night(house, students(12))
        is_held(house, 2, students(2))
        house.at(3).approve()
        monkeypatch.setattr(machine, "login", lambda: "kim")
        discard(house.at(4).rollbook().writer(), night(2), reason="too early", confirm=always)
        undo_discard(house.at(5).rollbook().writer(), night(2), confirm=always)
        provenance = trace(house.warehouse, "students", (7,))
    landing = "landing 1 of 2026-11-21"
    assert [line for line in provenance.lines if line[0] in ("approved", "discarded", "put back")] == [
        ("approved", f"{landing}, at 2026-11-22 02:15 UTC by sam; held because {HELD}"),
        ("discarded", f"{landing}, at 2026-11-23 02:15 UTC by kim; too early"),
        ("put back", f"{landing}, at 2026-11-24 02:15 UTC by kim"),
    ]


HELD = "10 of 12 students (83.3 %) would be removed, more than ROLLBOOK_HOLD_REMOVED_PERCENT=10"


def test_a_source_that_expired_or_was_erased_is_said_to_be_gone() -> None:
    with new_house(students(12), classes(1), keep_days=1) as house:
        begin(house, nights=4)
        provenance = trace(house.warehouse, "students", (7,), show=True)
        assert provenance.lines == [
            ("row", "students 7: since 2026-11-20"),
            ("source", "what was landed on 2026-11-20 has expired (ROLLBOOK_KEEP_DAYS), and only the history has it"),
        ]
    with new_house(students(12), classes(1)) as house:
        begin(house)
        erase(house, 7)
        with pytest.raises(ArgumentError, match="Student 7 was erased: neither the values nor their source are kept"):
            trace(house.warehouse, "students", (7,))
        assert "1 erased record" in source(trace(house.warehouse, "students", (8,)))["body"]


UNREADABLE = {
    "half an emoji": {b"Pupil Number2": rb"Pupil \ud83d"},
    "nested without end": {b'"id":2,': b'"id":2,"deep":%s,' % (b"[" * 5000 + b"]" * 5000)},
}


@pytest.mark.parametrize("pieces", UNREADABLE.values(), ids=UNREADABLE)
def test_its_bytes_are_right_behind_a_record_that_cannot_be_read(pieces: dict[bytes, bytes]) -> None:
    with new_house([student(1), student(2), student(3)], classes(1)) as house:
        house.service.on(faults.rewritten(pieces), path="students")
        house.night(1)
        provenance = trace(house.warehouse, "students", (3,), show=True)
        assert received(house, provenance)["id"] == 3
        with pytest.raises(ArgumentError, match="There is no row students 2, nor was there one before"):
            trace(house.warehouse, "students", (2,))


@pytest.mark.parametrize(("arguments", "says"), [
    (("nobody", "1"), "There is no table nobody: choose from students,"),
    (("students", "x"), "x is not a key: write an id such as 7, or two such as 7,501"),
    (("students", "1,2"), "The key of students is student_id; its columns are student_id, email"),
    (("students", "1", "shoe_size"), "The key of students is student_id; its columns are student_id, email"),
    (("students", "999"), "There is no row students 999, nor was there one before"),
    (("students", "1", "--on", "2026-11-19"), "There is no row students 1 on 2026-11-19, nor was there one before"),
])  # fmt: skip
def test_unknown_values_are_refused_in_a_sentence(eventful: House, arguments: tuple[str, ...], says: str) -> None:
    done = run_at(eventful.warehouse, "why", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in " ".join(done.stderr.split())


def test_the_command_prints_no_name_unless_asked_and_is_logged(eventful: House) -> None:
    done = run_at(eventful.warehouse, "why", "students", "1", "name", "--on", str(night(2)))
    assert (done.returncode, done.stderr) == (0, "")
    assert "students 1: since 2026-11-21, until 2026-11-22" in done.stdout
    assert "(not shown)" in done.stdout
    assert "New Name" not in done.stdout
    shown = run_at(eventful.warehouse, "why", "students", "1", "name", "--on", str(night(2)), "--show")
    assert '"name":"New Name"' in shown.stdout
    logged = [(e.kind, e.students, e.what) for e in access.entries(eventful.warehouse)[0] if "why" in e.kind]
    assert logged[-2:] == [("why", 1, "students"), ("why --show", 1, "students")]
