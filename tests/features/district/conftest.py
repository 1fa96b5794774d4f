"""Shared by the district's tests; a file about something else has a `played` of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.warehouses.coded_district import coded_district
from tests.support.warehouses.district import District, copied
from tests.support.warehouses.pseudonyms import Secrets


@pytest.fixture(autouse=True)
def _no_settings_from_outside() -> None:
    """Keep the settings of a district that is made once for a module: the common fixture would clear them."""


@pytest.fixture(scope="module")
def secrets() -> Secrets:
    """Every id that the district's services ever sent."""
    return Secrets()


@pytest.fixture(scope="module")
def played(secrets: Secrets) -> Iterator[District]:
    """Three institutions, of which two make pseudonymous files. For copying."""
    with coded_district(secrets) as district:
        yield district


@pytest.fixture
def district_copy(played: District, tmp_path: Path) -> Iterator[District]:
    """A copy of the played district."""
    with copied(played, tmp_path) as district:
        yield district
