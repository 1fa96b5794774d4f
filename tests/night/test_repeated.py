"""A record that the service shows more than once: which copy counts, what that proves, and that no night fails.

All that a service sends has been landed and judged when the file is checked, so no check may trip: the same landing
would fail every night, and so would a rebuild.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rollbook.night import past
from tests.support.nights import Expected, House, new_house, night
from tests.support.records import Record, classes, entry, student, students
from tests.support.tiers import daily
from tests.support.warehouses.begun import begin
from tests.support.wire import faults

pytestmark = pytest.mark.nights


@pytest.fixture
def school_of_9() -> Iterator[House]:
    with new_house(students(9), classes(2)) as house:
        yield house


def twice(*copies: Record) -> Callable[[list[Record]], list[Record]]:
    """The page's records, and more, which `total_count` does not count."""
    return lambda data: [*data, *copies]


RENAMED = student(5, name="Pupil Renamed")
BROKEN = student(5, name=None)
COPIES: dict[str, tuple[list[Record], Record]] = {
    "the same": ([student(5)], student(5)),
    "the same again and again": ([student(5)] * 20, student(5)),
    "another, later": ([RENAMED], RENAMED),
    "another, and the first once more": ([RENAMED, student(5)], student(5)),
    "a refused one after a good one": ([BROKEN], student(5)),
    "a refused one, and a good one after it": ([BROKEN, RENAMED], RENAMED),
}


@pytest.mark.parametrize("name", daily(COPIES, "another, later"))
def test_of_a_record_twice_on_a_page_the_later_readable_copy_counts(school_of_9: House, name: str) -> None:
    copies, counts = COPIES[name]
    everybody = students(9)
    begin(school_of_9)
    expected = Expected().night(1, everybody, classes(2))
    shown = [counts if s["id"] == 5 else s for s in everybody]
    for number in (2, 3):
        school_of_9.service.on(faults.records(twice(*copies)), path="students")
        school_of_9.at(number).sync()
        expected.night(number, shown, classes(2))
        assert school_of_9.tables() == expected.tables()
    school_of_9.at(4).sync()
    expected.night(4, everybody, classes(2))
    assert school_of_9.query(
        "SELECT c.received, c.repeated, c.rejected, c.proven, s.outcome FROM ops.syncs AS s"
        " JOIN ops.sync_sets AS c USING (snapshot_date, landing) WHERE c.set_name = 'students' ORDER BY snapshot_date"
    ) == [
        (9, 0, 0, True, "synced"),
        *[(9 + len(copies), len(copies), copies.count(BROKEN), True, "synced")] * 2,
        (9, 0, 0, True, "synced"),
    ]
    assert {rule: findings for rule, findings in school_of_9.examined().items() if findings} == {}
    past.rebuild(school_of_9.rollbook().writer())
    assert school_of_9.tables() == expected.tables()
    past.backfill(school_of_9.rollbook().writer(), night(1), night(4))
    assert school_of_9.tables() == expected.tables()


ALGEBRA, ART = entry(class_id=501, class_title="Algebra 1"), entry(class_id=502, class_title="Art")
CHESS = entry(class_id=503, class_title="Chess")


@pytest.mark.parametrize("rows_counted", [True, False])
def test_the_classes_of_a_student_listed_once_for_each_class_are_joined(school_of_9: House, rows_counted: bool) -> None:
    """As a join gives the rows: on one page or on two, in every walk, and a day's second landing counts alone."""
    taken = [[ALGEBRA, ART, CHESS], [ART], [], [CHESS, ALGEBRA]]
    everybody = [student(i, classes=taken[i % 4]) for i in range(1, 121)]
    school_of_9.service.on(
        faults.per_enrollment(school_of_9.service, rows_counted=rows_counted), path="students", times=None
    )
    done = school_of_9.night(1, everybody).manifest
    assert not done.proven
    tables = Expected().night(1, everybody, classes(2), unproven=["students"]).tables()
    assert school_of_9.tables() == tables
    assert done.oddities["records listed several times, differently"] == 60
    left = [student(i, classes=taken[i % 4][: -1 if i < 8 else 3]) for i in range(1, 121)]
    school_of_9.service.students = left
    school_of_9.sync(fresh=True)
    assert {row[:2] for row in school_of_9.tables()["main.student_classes"]} == {
        (s["id"], taken["class_id"]) for s in left for taken in s["classes"]
    }
    tables = school_of_9.tables()
    past.rebuild(school_of_9.rollbook().writer())
    assert school_of_9.tables() == tables


def test_a_record_listed_twice_alike_is_nothing_odd(school_of_9: House) -> None:
    school_of_9.service.on(faults.records(twice(student(5), student(6))), path="students")
    assert school_of_9.night(1).manifest.oddities == {}
    school_of_9.service.on(faults.records(twice(student(5), RENAMED)), path="students")
    assert school_of_9.night(2).manifest.oddities == {"records listed several times, differently": 1}
