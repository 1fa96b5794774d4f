"""A record that the service shows more than once: which copy counts, what that proves, and that no night fails.

All that a service sends has been landed and judged when the file is checked, so no check may trip: the same landing
would fail every night, and so would a rebuild.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rollbook.night import past
from tests.support.nights import Expected, House, new_house, night
from tests.support.records import Record, classes, student, students
from tests.support.tiers import daily
from tests.support.warehouses.begun import begin
from tests.support.wire import faults


@pytest.fixture
def house() -> Iterator[House]:
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
def test_of_a_record_twice_on_a_page_the_later_readable_copy_counts(house: House, name: str) -> None:
    copies, counts = COPIES[name]
    everybody = students(9)
    begin(house)
    expected = Expected().night(1, everybody, classes(2))
    shown = [counts if s["id"] == 5 else s for s in everybody]
    for number in (2, 3):
        house.service.on(faults.records(twice(*copies)), path="students")
        house.at(number).sync()
        expected.night(number, shown, classes(2))
        assert house.tables() == expected.tables()
    house.at(4).sync()
    expected.night(4, everybody, classes(2))
    assert house.query(
        "SELECT c.received, c.repeated, c.rejected, c.proven, s.outcome FROM ops.syncs AS s"
        " JOIN ops.sync_sets AS c USING (snapshot_date, landing) WHERE c.set_name = 'students' ORDER BY snapshot_date"
    ) == [
        (9, 0, 0, True, "synced"),
        *[(9 + len(copies), len(copies), copies.count(BROKEN), True, "synced")] * 2,
        (9, 0, 0, True, "synced"),
    ]
    assert {rule: findings for rule, findings in house.examined().items() if findings} == {}
    past.rebuild(house.rollbook())
    assert house.tables() == expected.tables()
    past.backfill(house.rollbook(), night(1), night(4))
    assert house.tables() == expected.tables()
