"""What the tests of the machine's faults share: a warehouse of two nights, tonight's records, and how it must end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.machines import Disk, disk, left_over, open_below
from tests.support.nights import House, Told, folder
from tests.support.records import classes, student, students
from tests.support.service import Service

# A night of the soak that goes wrong shall say what it compared, as a test does.
pytest.register_assert_rewrite("tests.support.soak")

COUNT = 400
TONIGHT = [
    student(1, name="Another"),
    *students(COUNT // 2 - 2, first=2),
    *students(COUNT // 2, first=COUNT // 2 + 1),
    student(COUNT + 1),
]  # one changed, one gone, one new


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(students(COUNT), classes(3)) as running:
        yield running


@pytest.fixture
def house(service: Service) -> Iterator[House]:
    """A warehouse after two nights of the same, so that there is an older published file as well."""
    with folder() as made:
        yield two_nights(House(made / "w", service))


@pytest.fixture
def small(service: Service) -> Iterator[tuple[House, Disk]]:
    """The same on a disk of its own."""
    with disk() as mounted:
        yield two_nights(House(mounted.path / "w", service)), mounted


def two_nights(house: House) -> House:
    house.at(1).sync()
    house.at(2).sync()
    house.service.students = list(TONIGHT)
    return house.at(3)


@pytest.fixture
def told() -> Told:
    """What must be published after the third night, in the end."""
    first = students(COUNT), classes(3)
    return Told().night(1, *first).night(2, *first).night(3, TONIGHT, classes(3))


def healed(house: House, told: Told) -> None:
    """The next sync needs no hand, and leaves nothing behind."""
    house.sync()
    assert house.tables() == told.tables()
    assert left_over(house.warehouse) == []
    assert open_below(house.warehouse) == []
