"""Shared by the tests of `health`: a school that changes every night."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nights import ChangingNights, new_house
from tests.support.records import classes, students


@pytest.fixture
def nights() -> Iterator[ChangingNights]:
    with new_house(students(30), classes(3)) as house:
        yield ChangingNights(house)
