"""What the tests of `operations` share: nights in which something changes, to be thinned."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from tests.support.nights import House, Told, folder
from tests.support.records import classes, student, students
from tests.support.service import Service


class Nights:
    """A house whose every night something changes, and what must be published of it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.told = Told()
        self.number = 0

    def play(self, count: int, **over: Any) -> Nights:
        """So many nights more: one student's name changes, one comes, one goes; one says nothing of its activity."""
        for _ in range(count):
            self.number += 1
            n = self.number
            listed = [student(i) for i in range(1 + n, 31 + n)]
            listed[3] = student(4 + n, name=f"Night {n}", activity_tracking=None)
            self.house.service.students = listed
            self.house.at(n).sync(over=over)
            self.told.night(n, listed, classes(3))
        return self

    def days(self, where: str) -> list[date]:
        """The days that are on disk."""
        found = (self.house.warehouse / where).glob("snapshot_date=*")
        return sorted(date.fromisoformat(p.name.removeprefix("snapshot_date=")) for p in found)


@pytest.fixture
def nights() -> Iterator[Nights]:
    with folder() as warehouse, Service(students(30), classes(3)) as service:
        yield Nights(House(warehouse / "w", service))
