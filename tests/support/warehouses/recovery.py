"""A warehouse of two nights whose third meets a fault of the machine, and the end that is due."""

from __future__ import annotations

from tests.support.nights import Expected, House
from tests.support.processes.machines import left_over, open_below
from tests.support.records import student, students
from tests.support.warehouses.begun import begin

COUNT = 400
# A changed student, a student gone, a new student.
TONIGHT = [
    student(1, name="Another"),
    *students(COUNT // 2 - 2, first=2),
    *students(COUNT // 2, first=COUNT // 2 + 1),
    student(COUNT + 1),
]


def two_nights(house: House) -> House:
    """Two equal nights, so that there is an older published file as well; then the third."""
    begin(house, nights=2)
    house.service.students = list(TONIGHT)
    return house.at(3)


def recovered(house: House, expected: Expected) -> None:
    """The next sync needs no help and leaves nothing behind."""
    house.sync()
    assert house.tables() == expected.tables()
    assert left_over(house.warehouse) == []
    assert open_below(house.warehouse) == []
