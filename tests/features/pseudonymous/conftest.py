"""Shared by the tests of the pseudonymous file; files about something else have a school of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nights import House, new_house
from tests.support.warehouses.pseudonyms import pupils, taught


@pytest.fixture
def coded_school() -> Iterator[House]:
    """A school of eight students that makes the pseudonymous file."""
    with new_house(pupils(8), taught(), pseudonymous=True) as house:
        yield house
