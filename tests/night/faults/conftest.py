"""Shared by the tests of the machine's faults: a warehouse of two nights, on a small disk too, and what must follow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nights import Expected, House, folder
from tests.support.processes.machines import MB, Disk, disk
from tests.support.records import classes, students
from tests.support.warehouses.recovery import COUNT, TONIGHT, two_nights
from tests.support.wire.service import Service


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(students(COUNT), classes(3)) as running:
        yield running


@pytest.fixture
def after_two_nights(service: Service) -> Iterator[House]:
    with folder() as root:
        yield two_nights(House(root / "w", service))


@pytest.fixture
def small_disk(service: Service) -> Iterator[tuple[House, Disk]]:
    """The same on a small disk, which has room for the kept versions."""
    with disk(96 * MB) as mounted:
        yield two_nights(House(mounted.path / "w", service)), mounted


@pytest.fixture
def expected() -> Expected:
    """The expected tables after the third night, in the end."""
    first = students(COUNT), classes(3)
    return Expected().night(1, *first).night(2, *first).night(3, TONIGHT, classes(3))
