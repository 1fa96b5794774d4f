"""Shared by the tests of recovery: a warehouse of three nights, and what the tables must hold."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.night.recovery.losses import LISTED
from tests.support.nights import Expected, House, new_house
from tests.support.records import classes, students


@pytest.fixture(scope="package")
def three_nights() -> Iterator[Path]:
    """Three nights of sixty students, and another on the third. To be copied, not changed."""
    with new_house(students(60), classes(4)) as house:
        house.night(1)
        house.night(2)
        house.night(3, LISTED)
        yield house.warehouse


@pytest.fixture
def after_three_nights(three_nights: Path) -> Iterator[House]:
    """Those nights, in a warehouse of the test's own, on the fourth."""
    with new_house(LISTED, classes(4)) as house:
        shutil.copytree(three_nights, house.warehouse, symlinks=True)
        yield house.at(4)


@pytest.fixture
def expected() -> Expected:
    expected = Expected().night(1, students(60), classes(4)).night(2, students(60), classes(4))
    return expected.night(3, LISTED, classes(4))
