"""What the tests of recovery share: a warehouse of three nights, and what its tables must hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nights import House, Told, folder, plainly
from tests.support.records import classes, student, students
from tests.support.service import Service


@pytest.fixture
def house() -> Iterator[House]:
    """Three nights of sixty students; on the third, number 100 is new."""
    with folder() as root, plainly(), Service(students(60), classes(4)) as service:
        house = House(root / "warehouse", service)
        house.at(1).sync()
        house.at(2).sync()
        service.students = [*students(60), student(100)]
        house.at(3).sync()
        yield house.at(4)


@pytest.fixture
def told() -> Told:
    told = Told().night(1, students(60), classes(4)).night(2, students(60), classes(4))
    return told.night(3, [*students(60), student(100)], classes(4))
