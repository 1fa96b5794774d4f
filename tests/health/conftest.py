"""Shared by the tests of `operations`: a small house, as a command sees it too, and one that changes every night."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nights import ChangingNights, House, new_house
from tests.support.processes.commands import dagster_home
from tests.support.records import classes, students


@pytest.fixture
def school_of_20() -> Iterator[House]:
    with new_house(students(20), classes(3)) as house:
        yield house


@pytest.fixture
def nights() -> Iterator[ChangingNights]:
    with new_house(students(30), classes(3)) as house:
        yield ChangingNights(house)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Dagster home of its own, and a wide terminal."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")
    return dagster_home(tmp_path)


@pytest.fixture
def commanded_school(school_of_20: House, home: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """The house as a command sees it."""
    for name, value in school_of_20.environment().items():
        monkeypatch.setenv(name, value)
    return school_of_20
