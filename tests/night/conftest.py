"""Shared by the tests of `night`: a warehouse whose service has one class, empty or with a night that is held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nights import Expected, House, new_house
from tests.support.records import classes, students
from tests.support.warehouses.holds import first_night, is_held


@pytest.fixture
def one_class() -> Iterator[House]:
    with new_house(classes=classes(1)) as house:
        yield house


@pytest.fixture
def held_night(one_class: House) -> Expected:
    """A first night of twelve students, and a second night, of two, that is held. The expected tables."""
    expected = first_night(one_class, students(12))
    is_held(one_class, 2, students(2))
    return expected
