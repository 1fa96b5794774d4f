"""The fleet's file without names: the institutions' own pseudonymous files side by side, and nothing that names anybody."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from pipelines import settings
from pipelines.cli import app
from pipelines.fleet.build import Built, FleetBuild
from pipelines.operations import erase as erasing
from pipelines.privacy.codes import Codes
from tests.support import canary
from tests.support.district import District, new_district
from tests.support.nights import night, without_views
from tests.support.pseudonyms import Secrets, pupil, pupils, taught
from tests.support.records import within

ASH, BIRCH, CEDAR = "ash", "birch", "cedar"


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with without_views():
        yield


@pytest.fixture
def secrets() -> Secrets:
    return Secrets()


@pytest.fixture
def district(secrets: Secrets) -> Iterator[District]:
    """Three institutions that share their students' ids, two of which make pseudonymous files; in one, names changed."""
    with new_district([ASH, BIRCH], CEDAR) as made:
        made.write({n: {"pseudonymous": "true", "pseudonymous_mode": '"644"'} for n in (ASH, BIRCH)})
        renamed = [
            pupil(1, "Q"),
            pupil(2, "Q", **within("summary", completed_assignments=19)),
            *pupils(8)[2:],
            canary.canary(),
        ]
        secrets.add(renamed)
        made.house(ASH).night(1, [*pupils(8), canary.canary()], taught())
        made.house(ASH).night(2, renamed)
        for name, count in ((BIRCH, 6), (CEDAR, 3)):
            made.house(name).night(1, pupils(count), taught())
        yield made


def build(district: District) -> Built:
    known = settings.registry()
    assert known is not None
    return FleetBuild(district.warehouse / "fleet", known).build()


def file_of(district: District) -> Path:
    return district.warehouse / "fleet-pseudonymous.duckdb"


def rows(district: District, query: str) -> list[tuple[Any, ...]]:
    return of(file_of(district), query)


def of(file: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(file, read_only=True) as con:
        return con.execute(query).fetchall()


def codes(district: District, name: str) -> dict[int, int]:
    release = Codes(district.warehouse / name).load()
    assert release is not None
    return release.codes


def counts(district: District) -> dict[str, int]:
    return dict(rows(district, 'SELECT institution, COUNT(*) FROM "fleet-pseudonymous".students GROUP BY ALL'))


def run(district: District, *arguments: str) -> str:
    with district.in_environment():
        done = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "300"}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_who_needs_no_names_asks_about_all_institutions_that_make_a_file_without_them(
    district: District, secrets: Secrets
) -> None:
    built = build(district)
    assert (built.left_out, built.failed) == ({}, "")
    assert built.pseudonymous == Built(2, 15, night(2), {}, makes_none=(CEDAR,))
    assert counts(district) == {ASH: 9, BIRCH: 6}
    assert rows(district, "SELECT institution, newest_day, left_out FROM institutions") == [
        (ASH, night(2), None),
        (BIRCH, night(1), None),
        (CEDAR, None, "it makes no pseudonymous file (ROLLBOOK_PSEUDONYMOUS)"),
    ]
    version = "SELECT id, published_at FROM spans.version"
    assert rows(district, version) == of(district.warehouse / "fleet.duckdb", version)

    # Nothing names anybody, in the file or in what it was made of; each code is its own institution's.
    assert secrets.in_bytes(file_of(district)) == set()
    assert secrets.in_rows(file_of(district)) == []
    assert set(canary.TEXTS) & texts(district) <= {"Canary Algebra", "Canary Course"}
    assert [p.name for p in (district.warehouse / "fleet" / "_build").rglob("*") if p.is_file()] == ["lock"]
    for name in (ASH, BIRCH):
        known = {code for (code,) in rows(district, f"SELECT student_id FROM students WHERE institution = '{name}'")}
        assert known == set(codes(district, name).values())
    assert not set(codes(district, ASH).values()) & set(codes(district, BIRCH).values())

    # Others may read it, and nothing else of the fleet.
    assert stat.S_IMODE(file_of(district).stat().st_mode) == 0o644
    assert reached(district.warehouse) == {"fleet-pseudonymous.duckdb", "pseudonymous"}

    # An erased student is gone from both at once, and stays away.
    house = district.house(ASH)
    certificate = erasing.erase(house.rollbook(), canary.ID, reason="case 12", confirm=lambda _: True)
    assert certificate.counts["fleet"] == 2
    assert not file_of(district).exists()
    assert not (district.warehouse / "pseudonymous").exists()
    assert build(district).pseudonymous == Built(2, 14, night(2), {}, makes_none=(CEDAR,))
    assert texts(district) == set()


def texts(district: District) -> set[str]:
    """The canary's texts in the file, by its bytes and its rows."""
    return {text for found in canary.found(file_of(district).resolve().parent).values() for text in found}


def reached(warehouse: Path) -> set[str]:
    """What lies in the common folder and can be opened by accounts that are not in the group."""
    found = set()
    for path in (p for p in warehouse.rglob("*") if p.is_file()):
        first = path.relative_to(warehouse).parts[0]
        real = path.resolve()
        above = [p for p in real.parents if p == warehouse or warehouse in p.parents]
        if (
            first not in (ASH, BIRCH, CEDAR)
            and real.stat().st_mode & 0o004
            and all(p.stat().st_mode & 1 for p in above)
        ):
            found.add(first)
    return found
