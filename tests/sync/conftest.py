"""What the tests of `sync` share: an empty warehouse whose service has one class, and a night of given records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.nights import House, folder, plainly
from tests.support.records import classes
from tests.support.service import Service

Record = dict[str, Any]


@pytest.fixture
def house() -> Iterator[House]:
    with folder() as root, plainly(), Service(classes=classes(1)) as service:
        yield House(root / "warehouse", service)


def sync(house: House, number: int, students_: list[Record], classes_: list[Record] | None = None) -> None:
    house.service.students = students_
    if classes_ is not None:
        house.service.classes = classes_
    house.at(number).sync()
