"""Building the district's file: never half a file, one build at a time, and one institution's damage stays its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from rollbook.errors import BusyError, EngineError, NothingLandedError
from rollbook.features.district import build as building
from rollbook.landing.formats import FORMAT
from rollbook.store.district import DistrictFile
from tests.support.nights import night
from tests.support.processes import canary
from tests.support.processes.commands import run_command
from tests.support.reading import rows
from tests.support.records import classes, students
from tests.support.tiers import daily
from tests.support.warehouses.district import District, new_district, two_schools
from tests.support.warehouses.erasures import erase

pytestmark = pytest.mark.nights

ASH, BIRCH, CEDAR = "ash", "birch", "cedar"


@pytest.fixture(scope="module")
def played() -> Iterator[District]:
    """For copying."""
    with two_schools(CEDAR) as district:
        yield district


def counts(district: District) -> dict[str, int]:
    """How many students of each institution readers see."""
    query = "SELECT institution, COUNT(*) FROM district.students GROUP BY ALL"
    return dict(rows(district.warehouse / "district.duckdb", query))


def listed(district: District, columns: str) -> list[tuple[Any, ...]]:
    return rows(district.warehouse / "district.duckdb", f"SELECT {columns} FROM institutions ORDER BY institution")


def test_readers_get_the_new_file_whole_or_keep_the_old(district_copy: District) -> None:
    built = district_copy.build()
    assert (built.institutions, built.students, built.newest_day, built.left_out) == (2, 7, night(1), {})
    with duckdb.connect(str(district_copy.warehouse / "district.duckdb"), read_only=True) as con:
        district_copy.house(ASH).night(2, students(9))
        assert district_copy.build().students == 12
        assert con.execute("SELECT COUNT(*) FROM students").fetchall() == [(7,)]
        assert counts(district_copy) == {ASH: 9, BIRCH: 3}, "who connects again gets the new one, in this process, too"
    district_copy.build()
    versions = list((district_copy.warehouse / "published").iterdir())
    assert len(versions) == 2, "the newest one, and the one that somebody may just be opening"


def test_a_build_that_fails_leaves_the_last_one(district_copy: District, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(building, "PUBLISHED", "nothing.duckdb")
        with pytest.raises(NothingLandedError, match="district sync"):
            district_copy.build()
    district_copy.build()
    district_copy.house(ASH).night(2, students(9))

    def broken(*_: object) -> None:
        raise EngineError("it does not answer")

    with monkeypatch.context() as patch:
        patch.setattr("rollbook.features.district.views.create_rollups", broken)
        with pytest.raises(EngineError):
            district_copy.build()
    assert counts(district_copy) == {ASH: 4, BIRCH: 3}
    assert district_copy.left_by_builds() == [], "half a file, or rows that would keep an erased student"
    with (
        DistrictFile(district_copy.warehouse / "district").building(),
        pytest.raises(BusyError, match="district.duckdb"),
    ):
        district_copy.build()


@pytest.mark.parametrize("harm", daily(["scrambled", "lost", "cut", "empty", "another shape"], "scrambled"))
def test_an_institution_whose_file_is_damaged_is_left_out_by_name(district_copy: District, harm: str) -> None:
    district_copy.build()
    path = (district_copy.warehouse / ASH / "rollbook.duckdb").resolve()
    content = path.read_bytes()
    if harm == "lost":
        path.unlink()
    elif harm == "another shape":
        with duckdb.connect(str(path)) as con:
            con.execute("ALTER TABLE ops.syncs DROP COLUMN landing CASCADE")
    else:
        half = content[: len(content) // 2]
        path.write_bytes({"scrambled": half + bytes(len(half)), "cut": half, "empty": b""}[harm])
    assert district_copy.build().left_out == {ASH: building.DAMAGED}
    assert counts(district_copy) == {BIRCH: 3}
    assert listed(district_copy, "institution, newest_day, left_out IS NULL") == [
        (ASH, None, False), (BIRCH, night(1), True), (CEDAR, None, True),
    ]  # fmt: skip
    path.write_bytes(content)
    assert district_copy.build().left_out == {}
    assert counts(district_copy) == {ASH: 4, BIRCH: 3}


@pytest.mark.slow
def test_an_institution_that_publishes_meanwhile_is_taken_as_it_was(
    district_copy: District, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, about = district_copy.house(ASH), building.about_file
    nights = iter([2, 3, 4, 5, 6])  # after the last, the version that was opened is removed

    def meanwhile(*arguments: Any) -> dict[str, Any]:
        contents = about(*arguments)
        for number in nights:
            house.night(number, students(8), classes(2))
        return contents

    monkeypatch.setattr(building, "about_file", meanwhile)
    assert district_copy.build().left_out == {}
    assert counts(district_copy) == {ASH: 4, BIRCH: 3}
    assert listed(district_copy, "newest_day")[0] == (night(1),)


def test_the_last_night_is_told_without_unregistered_institutions(district_copy: District) -> None:
    folder = district_copy.warehouse / "district" / "state"
    district_copy.pause(CEDAR, "holidays")
    last = {"kind": "failed", "at": "2036-11-21T03:00:00+01:00", "day": "2036-11-21", "message": "It is down"}
    (folder / "ash.json").write_text(json.dumps({"format": FORMAT, "last": last}))
    district_copy.rename(BIRCH, "dogwood")
    assert district_copy.build().institutions == 1
    columns = "institution, last_outcome, CAST(last_at AS VARCHAR), description, paused, newest_day"
    assert listed(district_copy, columns) == [
        (ASH, "failed", "2036-11-21 02:00:00", "It is down", None, night(1)),
        (CEDAR, "never", None, None, "holidays", None),
        ("dogwood", "never", None, None, None, None),
    ]


@pytest.mark.slow
def test_an_erased_student_is_in_no_file_of_the_district() -> None:
    with new_district([ASH, BIRCH]) as district:
        house = district.house(ASH)
        house.night(1, [*students(4), canary.canary()], classes(1))
        district.house(BIRCH).night(1, students(3), classes(1))
        district.build()
        house.night(2, [*students(4), canary.canary(registration_date="2025-09-02")])
        district.build()
        assert len(canary.found(district.warehouse / "published")) == 2, "both versions of the district's file"
        certificate = erase(house)
        assert certificate.counts["district"] == 2
        assert "versions of district.duckdb" in certificate.text
        assert canary.found(district.warehouse) == {}
        assert not (district.warehouse / "district.duckdb").exists()
        district.build()
        assert counts(district) == {ASH: 4, BIRCH: 3}
        assert canary.found(district.warehouse) == {}


@pytest.mark.slow
def test_the_command_makes_the_file_again_without_the_student(district_copy: District) -> None:
    arguments = ("--institution", ASH, "erase", "2", "--reason", "case 12", "--yes")
    district_copy.build()
    done = run_command(*arguments, env=district_copy.environment())
    assert done.returncode == 0, done.stderr
    assert "Built. district.duckdb holds 2 institutions" in done.stdout
    assert counts(district_copy) == {ASH: 3, BIRCH: 3}
