"""What the tests of recovery share: a warehouse of three nights, and what its tables must hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nights import Expected, House, new_house, without_views
from tests.support.records import classes, student, students


@pytest.fixture
def house() -> Iterator[House]:
    """Three nights of sixty students; on the third, number 100 is new."""
    with without_views(), new_house(students(60), classes(4)) as made:
        made.night(1)
        made.night(2)
        made.night(3, [*students(60), student(100)])
        yield made.at(4)


@pytest.fixture
def expected() -> Expected:
    expected = Expected().night(1, students(60), classes(4)).night(2, students(60), classes(4))
    return expected.night(3, [*students(60), student(100)], classes(4))
