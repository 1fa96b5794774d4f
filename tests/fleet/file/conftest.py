"""What tests of the fleet's pseudonymous file share; files about something else have a `district` of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.warehouses.coded_district import coded_district
from tests.support.warehouses.district import District, copied
from tests.support.warehouses.pseudonyms import Secrets


@pytest.fixture(scope="module")
def secrets() -> Secrets:
    """Every id that the district's services ever sent."""
    return Secrets()


@pytest.fixture(scope="module")
def played(secrets: Secrets) -> Iterator[District]:
    """For copying."""
    with coded_district(secrets) as made:
        yield made


@pytest.fixture
def district(played: District, tmp_path: Path) -> Iterator[District]:
    """Three institutions, of which two make pseudonymous files."""
    with copied(played, tmp_path) as made:
        yield made
