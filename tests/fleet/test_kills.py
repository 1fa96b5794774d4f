"""Killed at a step, a publish leaves parts that the next writer puts right, and a build leaves readers a whole file."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import duckdb
import pytest

from pipelines import settings
from pipelines.fleet.build import FleetBuild
from pipelines.settings import ROOT, load
from pipelines.store.parts import Parts, forget
from pipelines.sync import Rollbook
from tests.support.district import District, new_district
from tests.support.nights import without_views
from tests.support.records import classes, students

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # a dozen processes, each of which imports everything

ASH, BIRCH = "ash", "birch"
BUILD = "from pipelines.cli import app; app(['fleet', 'build'])"
PUBLISH = """
from pipelines.settings import load
from pipelines.sync import Rollbook
book = Rollbook(load(institution="ash", fetches=False))
with book.writer():
    book.publish()
"""


@pytest.fixture
def district() -> Iterator[District]:
    with new_district([ASH, BIRCH]) as made, without_views():
        made.house(ASH).night(1, students(4), classes(1))
        made.house(BIRCH).night(1, students(3), classes(1))
        yield made


def die(district: District, work: str, step: int) -> bool:
    """Do some work in a process that kills itself before its n-th step; returns whether it came to that."""
    script = f"from tests.support.kills import die_at_step; die_at_step({step})\n{work}"
    environment = {**district.environment(), "PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def build(district: District) -> None:
    known = settings.registry()
    assert known is not None
    FleetBuild(district.warehouse / "fleet", known).build()


def counts(district: District) -> dict[str, int]:
    with duckdb.connect(str(district.warehouse / "fleet.duckdb"), read_only=True) as con:
        con.execute("SELECT COUNT(*) FROM student_daily").fetchall()
        return dict(con.execute("SELECT institution, COUNT(*) FROM students GROUP BY ALL").fetchall())


def test_a_killed_build_leaves_the_last_file_or_the_new_one(district: District) -> None:
    build(district)
    district.house(ASH).night(2, students(9))
    before, after = {ASH: 4, BIRCH: 3}, {ASH: 9, BIRCH: 3}
    killed, seen = 0, []
    for step in (1, 20, 60, 72, 73, 74, 75, 76):  # the last ones move the version in and lead the link to it
        killed += die(district, BUILD, step)
        seen.append(counts(district))
    assert killed >= 4
    assert all(found in (before, after) for found in seen)
    assert seen[0] == before
    build(district)
    assert counts(district) == after
    assert len(list((district.warehouse / "published").iterdir())) <= 2


def test_a_killed_publish_is_made_up_for_by_the_next_writer(district: District) -> None:
    build(district)
    for step in (2, 4, 6):  # what is published has other views, but no other rows
        assert die(district, PUBLISH, step)
        build(district)
        assert counts(district) == {ASH: 4, BIRCH: 3}
    forget(district.warehouse / "fleet", ASH)
    assert die(district, PUBLISH, 30), "all parts are written, one after the other"
    build(district)
    assert counts(district) == {BIRCH: 3}, "a set that is not whole counts for nothing"
    book = Rollbook(load(institution=ASH, fetches=False))
    with book.writer():
        pass
    assert Parts(book.warehouse).is_current()
    leftovers = [p for p in (district.warehouse / "fleet").rglob("*.partial") if "institution=ash" in str(p)]
    assert leftovers == []
