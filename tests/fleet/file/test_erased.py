"""A student erased in one institution: in no file of the fleet, and nobody else is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.store.parts import Parts
from tests.support.nights import without_views
from tests.support.processes import canary
from tests.support.processes.commands import run_command
from tests.support.reading import rows
from tests.support.records import classes, students
from tests.support.warehouses.district import District, new_district
from tests.support.warehouses.erasures import erase

ASH, BIRCH = "ash", "birch"


@pytest.fixture
def district() -> Iterator[District]:
    """The canary in one of two institutions, changed once, and a fleet's file of both nights."""
    with new_district([ASH, BIRCH]) as made, without_views():
        house = made.house(ASH)
        house.night(1, [*students(4), canary.canary()], classes(1))
        made.house(BIRCH).night(1, students(3), classes(1))
        made.build()
        house.night(2, [*students(4), canary.canary(registration_date="2025-09-02")])
        made.build()
        yield made


def shared(district: District) -> dict[str, list[str]]:
    """Where the canary is in what the institutions share, and in the fleet's files."""
    return canary.found(district.warehouse / "fleet", district.warehouse / "published")


def students_of(file: Path) -> dict[str, int]:
    return dict(rows(file, "SELECT institution, COUNT(*) FROM fleet.students GROUP BY ALL"))


def test_an_erased_student_is_in_no_file_of_the_fleet(district: District) -> None:
    file = district.warehouse / "fleet.duckdb"
    assert students_of(file) == {ASH: 5, BIRCH: 3}
    before = shared(district)
    assert any(name.startswith("students/") for name in before)
    assert sum(name.endswith(".duckdb") for name in before) == 2, "both versions of the fleet's file"
    house = district.house(ASH)
    certificate = erase(house)
    assert certificate.counts["fleet"] == 2
    assert "versions of fleet.duckdb" in certificate.text()
    assert canary.found(district.warehouse) == {}
    assert not file.exists()
    district.build()
    house.night(3)
    district.build()
    assert students_of(file) == {ASH: 4, BIRCH: 3}
    assert canary.found(district.warehouse) == {}


@pytest.mark.slow
def test_parts_that_cannot_be_written_without_the_student_are_removed(
    district: District, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    house = district.house(ASH)
    with monkeypatch.context() as patch:
        patch.setattr(Parts, "_part", full)
        erase(house)
    assert shared(district) == {}
    district.build()
    assert students_of(district.warehouse / "fleet.duckdb") == {BIRCH: 3}
    with house.rollbook().writer():
        pass
    district.build()
    assert students_of(district.warehouse / "fleet.duckdb") == {ASH: 4, BIRCH: 3}


@pytest.mark.slow
def test_the_name_that_the_school_had_before_is_cleared_too(district: District) -> None:
    house = district.move(ASH, "rowan")
    with house.rollbook().writer():
        pass
    assert any("institution=ash" in name for name in shared(district))
    erase(house)
    assert canary.found(district.warehouse) == {}


@pytest.mark.slow
def test_the_command_makes_the_file_again_without_the_student(district: District) -> None:
    arguments = ("--institution", ASH, "erase", str(canary.ID), "--reason", "case 12", "--yes")
    done = run_command(*arguments, env=district.environment())
    assert done.returncode == 0, done.stderr
    assert "fleet.duckdb was built again" in done.stdout
    assert students_of(district.warehouse / "fleet.duckdb") == {ASH: 4, BIRCH: 3}
    assert canary.found(district.warehouse) == {}
