"""`rollbook erase` as it is typed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from rollbook.cli import app
from rollbook.errors import ArgumentError, HeldError
from rollbook.reading import access
from tests.support.nights import House, new_house
from tests.support.records import classes, students

pytestmark = pytest.mark.nights


@pytest.fixture(scope="module")
def night_of_9() -> Iterator[House]:
    with new_house(students(9), classes(2)) as house:
        house.night(1)
        yield house


def typed(house: House, *arguments: str) -> Result:
    environment = house.environment() | {"DAGSTER_HOME": "", "COLUMNS": "2000"}
    return CliRunner(env=environment).invoke(app, arguments)


def test_it_counts_refuses_asks_and_certifies(night_of_9: House) -> None:
    """In the order of a person's work; the certificate is shown, and says where it is kept."""
    counted = typed(night_of_9, "erase", "7", "--dry-run")
    assert counted.exit_code == 0, counted.output
    assert "Would be erased" in counted.output
    assert night_of_9.query("SELECT COUNT(*) FROM students WHERE student_id = 7") == [(1,)]
    assert typed(night_of_9, "erase", "7", "--hold", "--reason", "court, case 3").exit_code == 0
    refused = typed(night_of_9, "erase", "7", "--reason", "case 12", "--yes")
    assert isinstance(refused.exception, ArgumentError)
    assert "under a legal hold" in str(refused.exception)
    assert typed(night_of_9, "erase", "7", "--lift").exit_code == 0
    answer = typed(night_of_9, "erase", "7", "--reason", "case 12")
    assert isinstance(answer.exception, HeldError)
    assert "Will be erased" in answer.output
    assert [e.kind for e in access.entries(night_of_9.warehouse)[0]] == ["erase --dry-run", "erase"]
    assert night_of_9.query("SELECT COUNT(*) FROM students WHERE student_id = 7") == [(1,)]
    done = typed(night_of_9, "erase", "7", "--reason", "case 12", "--yes")
    assert done.exit_code == 0, done.exception
    assert "Reason: case 12" in done.output
    assert "Backups of the warehouse" in done.output
    assert "kept as private/erasures/certificate-1.md" in done.output
    assert night_of_9.query("SELECT COUNT(*) FROM students") == [(8,)]
    again = typed(night_of_9, "erase", "7", "--reason", "case 12", "--yes")
    assert "nothing to do" in str(again.exception)


@pytest.mark.parametrize(
    "arguments", [("erase", "7"), ("erase", "7", "--hold"), ("erase", "7", "--reason", " ", "--yes")]
)
def test_a_reason_is_asked_for(night_of_9: House, arguments: tuple[str, ...]) -> None:
    done = typed(night_of_9, *arguments)
    assert isinstance(done.exception, ArgumentError)
    assert "Say why" in str(done.exception)
