"""Single students' details: fetched when asked for, kept whole, each failure costing one record."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from rollbook.errors import HeldError
from rollbook.landing.manifest import Verdict
from tests.support.nights import TRIES, House, asked, new_house, night, pages
from tests.support.records import MISSING, Records, classes, entry, student, students, within
from tests.support.wire import faults
from tests.support.wire.service import Reply

pytestmark = pytest.mark.nights

LISTS = ["auth", *pages("students", 1), *pages("classes", 1)]


@pytest.fixture
def school_with_details() -> Iterator[House]:
    with new_house(students(4), classes(1)) as house:
        house.service.details = {i: {"student_id": i, "courses": []} for i in range(1, 10)}
        yield house


def tonight(house: House, number: int, records: Records, details: str) -> list[str]:
    """Sync a night; returns what was asked for after the lists."""
    house.service.requests.clear()
    house.night(number, records, details=details)
    requests = asked(house.service.requests)
    assert requests[:3] == LISTS
    assert {r.connection for r in house.service.requests} == {house.service.connections}
    return requests[3:]


def payloads(house: House) -> dict[int, str]:
    return dict(house.query("SELECT student_id, payload FROM student_details"))


def test_all_are_fetched_in_order_and_kept_whole(school_with_details: House) -> None:
    """The contract does not show their shape, so not a character of it is interpreted."""
    whole = '{"b": 1.0, "a": [1e3, 12345678901234567890, null, true],  "é": "\\u00e9 \\ud83d\\ude00", "a": "twice"}'
    body = f'{{"success":true,"data":{whole}}}'.encode()
    bare = b'{"student_id": 3, "courses": [{"course_id": 70}]}'
    school_with_details.service.on(lambda request, reply: Reply(body=body), path="student/2")
    school_with_details.service.on(lambda request, reply: Reply(body=bare), path="student/3")
    assert tonight(school_with_details, 1, students(4)[::-1], "all") == [
        "student/1",
        "student/2",
        "student/3",
        "student/4",
    ]
    assert payloads(school_with_details) == {
        1: '{"student_id":1,"courses":[]}',
        2: whole,
        3: bare.decode(),
        4: '{"student_id":4,"courses":[]}',
    }
    seen = school_with_details.query(
        "SELECT page, records FROM ops.pages WHERE set_name = 'details' AND kind = 'detail' ORDER BY 1"
    )
    assert seen == [(1, 1), (2, 1), (3, 1), (4, 1)]
    fetched = school_with_details.query("SELECT p.received_at = d.fetched_at FROM student_details AS d JOIN ops.pages AS p"
                          " ON p.set_name = 'details' AND p.page = d.student_id")  # fmt: skip
    assert fetched == [(True,)] * 4


def test_of_the_changed_students_alone_details_are_fetched(school_with_details: House) -> None:
    assert tonight(school_with_details, 1, students(4), "changed") == [f"student/{i}" for i in (1, 2, 3, 4)]
    changed = [student(1, name="Pupil Renamed"), student(2, classes=[entry(), entry(class_id=502)])]
    records = [*changed, student(3, **within("activity_tracking", assignment_missing_count=9)), student(4), student(5)]
    assert tonight(school_with_details, 2, records, "changed") == ["student/1", "student/2", "student/3", "student/5"]
    assert tonight(school_with_details, 3, records, "changed") == []
    assert payloads(school_with_details).keys() == {1, 2, 3, 4, 5}


def test_silence_refusal_and_the_clock_are_not_a_change(school_with_details: House) -> None:
    tonight(school_with_details, 1, [*students(3), *students(7, first=10)], "none")
    clock = within("activity_tracking", days_since_last_activity=77)
    quiet = [student(1, classes=MISSING, activity_tracking=None), student(2, name=None), student(3, **clock)]
    assert tonight(school_with_details, 2, [*quiet, *students(7, first=10)], "changed") == []


def test_each_failure_costs_one_record(school_with_details: House) -> None:
    """The student's known details stay, and the sync is a good one."""
    tonight(school_with_details, 1, students(4), "all")
    school_with_details.service.details = {i: {"student_id": i, "courses": ["new"]} for i in range(1, 10)}
    school_with_details.service.on(faults.status(500), path="student/2", times=None)
    tried = ["student/2"] * TRIES
    assert tonight(school_with_details, 2, students(4), "all") == ["student/1", *tried, "student/3", "student/4"]
    assert [m.verdict for m in school_with_details.landings(night(2))] == [Verdict.SYNCED]
    old, new = '{"student_id":%d,"courses":[]}', '{"student_id":%d,"courses":["new"]}'
    assert payloads(school_with_details) == {1: new % 1, 2: old % 2, 3: new % 3, 4: new % 4}
    history = school_with_details.query(
        "SELECT student_id, payload, valid_from, valid_to FROM history.student_details ORDER BY 1, 3"
    )
    both = [[(i, old % i, night(1), night(2)), (i, new % i, night(2), None)] for i in (1, 3, 4)]
    assert history == [*both[0], (2, old % 2, night(1), None), *both[1], *both[2]]


def test_details_of_a_held_night_come_with_its_approval(school_with_details: House) -> None:
    tonight(school_with_details, 1, students(12), "none")
    school_with_details.service.students = students(4)
    with pytest.raises(HeldError):
        school_with_details.at(2).sync(details="all")
    assert payloads(school_with_details) == {}
    school_with_details.service.requests.clear()
    school_with_details.approve()
    assert school_with_details.service.requests == []
    assert payloads(school_with_details).keys() == {1, 2, 3, 4}


def test_no_log_line_of_a_retried_detail_names_the_student(
    school_with_details: House, caplog: pytest.LogCaptureFixture
) -> None:
    """An erasure cleans Dagster's records of what Rollbook says of students; an address is none of its words."""
    school_with_details.service.on(faults.status(503), path="student/2", times=2)
    with caplog.at_level(logging.INFO):
        tonight(school_with_details, 1, students(4), "all")
    said = [record.getMessage() for record in caplog.records if "retrying" in record.getMessage()]
    assert [text.partition(":")[0] for text in said] == ["/svcapi/v1/student/ID"] * 2
