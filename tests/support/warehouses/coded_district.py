"""A district of three schools, two of which make pseudonymous files, and what readers of the district's see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from rollbook import settings
from rollbook.cli import app
from rollbook.features.pseudonymous.pseudonymous import Codes
from tests.support import reading
from tests.support.processes import canary, machines
from tests.support.records import within
from tests.support.warehouses.district import District, new_district
from tests.support.warehouses.pseudonyms import Secrets, pupil, pupils, taught

ASH, BIRCH, CEDAR = "ash", "birch", "cedar"
WITHOUT_NAMES = {n: {"pseudonymous": "true", "pseudonymous_mode": '"644"'} for n in (ASH, BIRCH)}


@contextmanager
def coded_district(secrets: Secrets) -> Iterator[District]:
    """The schools share the students' ids; in one school, names changed on the second night. For copying."""
    with new_district([ASH, BIRCH], CEDAR) as district:
        district.write(WITHOUT_NAMES)
        renamed = [
            pupil(1, "Q"),
            pupil(2, "Q", **within("summary", completed_assignments=19)),
            *pupils(8)[2:],
            canary.canary(),
        ]
        secrets.add(renamed)
        district.house(ASH).night(1, [*pupils(8), canary.canary()], taught())
        district.house(ASH).night(2, renamed)
        for name, count in ((BIRCH, 6), (CEDAR, 3)):
            district.house(name).night(1, pupils(count), taught())
        yield district


def file_of(district: District) -> Path:
    """The file under test."""
    return district.warehouse / "district-pseudonymous.duckdb"


def rows(district: District, query: str) -> list[tuple[Any, ...]]:
    """The rows of an analyst's query."""
    return reading.rows(file_of(district), query)


def codes(district: District, name: str) -> dict[int, int]:
    """An institution's codes in use, by the students' ids."""
    release = Codes(district.warehouse / name).load()
    assert release is not None
    return release.codes


def counts(district: District) -> dict[str, int]:
    """How many students of each institution readers see."""
    return dict(rows(district, 'SELECT institution, COUNT(*) FROM "district-pseudonymous".students GROUP BY ALL'))


def run(*arguments: str, exits: int = 0) -> str:
    """The command in this process; returns the output."""
    # --institution sets this variable. A variable named here is taken back afterwards.
    env = {"COLUMNS": "300", settings.INSTITUTION: None}
    done = CliRunner().invoke(app, [*arguments], env=env, catch_exceptions=False)
    assert done.exit_code == exits, done.output
    return " ".join(done.output.split())


def write(district: District, name: str) -> None:
    """Let an institution's writer bring everything up to date."""
    with district.house(name).rollbook().writer().writing():
        pass


def version(file: Path) -> str:
    """The build that made a file."""
    ((rows,),) = reading.rows(file, "SELECT id FROM spans.version")
    return str(rows)


def texts(district: District) -> set[str]:
    """The canary's texts in the file, by bytes and rows."""
    return {text for texts in canary.found(file_of(district).resolve().parent).values() for text in texts}


def reached(warehouse: Path) -> set[str]:
    """The files of the common folder that can be opened by accounts that are not in the group."""
    return machines.reached(warehouse, 0o004) - {ASH, BIRCH, CEDAR}
