"""Killed at a step, a publish leaves parts that the next writer repairs, and a build leaves readers a whole file."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines.fleet.engine import DUCKDB
from pipelines.fleet.history.rebuild import FleetRebuild
from pipelines.settings import ROOT, load
from pipelines.store.parts import Parts, forget, note_of
from pipelines.sync import Rollbook
from tests.support.reading import rows
from tests.support.records import students
from tests.support.warehouses.district import District, two_schools

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # a dozen processes, each of which imports everything

ASH, BIRCH = "ash", "birch"
BUILD = "from pipelines.cli import app; app(['fleet', 'build'])"
BUILD_BY_SAIL = "from pipelines.cli import app; app(['fleet', 'build', '--engine', 'sail'])"
REBUILD = "from pipelines.cli import app; app(['fleet', 'rebuild', '--engine', 'sail'])"
PUBLISH = """
from pipelines.settings import load
from pipelines.sync import Rollbook
book = Rollbook(load(institution="ash", fetches=False))
with book.writer():
    book.publish()
"""


@pytest.fixture
def district() -> Iterator[District]:
    with two_schools() as made:
        yield made


def die(district: District, work: str, step: int) -> bool:
    """Do some work in a process that kills itself before its n-th step; returns whether it came to that."""
    script = f"from tests.support.processes.kills import die_at_step; die_at_step({step})\n{work}"
    environment = {**district.environment(), "PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@contextmanager
def started(district: District, work: str) -> Iterator[subprocess.Popen[bytes]]:
    """Do some work in a process that is waited for in the end."""
    environment = {**district.environment(), "PYTHONPATH": str(ROOT), "PATH": ""}
    nowhere = subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-c", work], env=environment, cwd=ROOT, stdout=nowhere, stderr=nowhere) as p:
        yield p


def own(district: District, name: str) -> list[tuple[object, ...]]:
    """The history of the students that readers of an institution's own file see."""
    query = "SELECT student_id, valid_from, valid_to FROM history.students ORDER BY ALL"
    return rows(district.warehouse / name / "rollbook.duckdb", query)


def counts(district: District) -> dict[str, int]:
    file = district.warehouse / "fleet.duckdb"
    rows(file, "SELECT COUNT(*) FROM student_daily")
    return dict(rows(file, "SELECT institution, COUNT(*) FROM students GROUP BY ALL"))


def test_a_killed_build_leaves_the_last_file_or_the_new_one(district: District) -> None:
    district.build()
    district.house(ASH).night(2, students(9))
    before, after = {ASH: 4, BIRCH: 3}, {ASH: 9, BIRCH: 3}
    killed, seen = 0, []
    for step in (1, 20, 60, 72, 73, 74, 75, 76):  # the last ones move the version in and lead the link to it
        killed += die(district, BUILD, step)
        seen.append(counts(district))
    assert killed >= 4
    assert all(found in (before, after) for found in seen)
    assert seen[0] == before
    district.build()
    assert counts(district) == after
    assert len(list((district.warehouse / "published").iterdir())) <= 2


def test_a_build_by_sail_that_is_killed_leaves_the_last_file_or_the_new_one(district: District) -> None:
    """While Sail computes, too: `_build/rollups` is there from then on."""
    district.build()
    district.house(ASH).night(2, students(9))
    before, after = {ASH: 4, BIRCH: 3}, {ASH: 9, BIRCH: 3}
    computing = district.warehouse / "fleet" / "_build" / "rollups"
    for number in range(1, 5):
        with started(district, BUILD_BY_SAIL) as process:
            waited = time.monotonic() + 60
            while process.poll() is None and len(list(computing.glob("*"))) < number and time.monotonic() < waited:
                time.sleep(0.002)
            process.kill()
        assert counts(district) in (before, after)
        assert process.returncode == -signal.SIGKILL
    district.build()
    assert counts(district) == after
    assert district.left_by_builds() == [], "pupils' records are left"


def test_a_rebuild_of_all_that_is_killed_leaves_each_institution_whole(district: District) -> None:
    district.house(ASH).night(2, students(9))
    before = {name: own(district, name) for name in (ASH, BIRCH)}
    killed = 0
    for step in (1, 34, 36, 38, 40, 42, 44):  # the last ones publish the two, one after the other
        killed += die(district, REBUILD, step)
        assert {name: own(district, name) for name in (ASH, BIRCH)} == before
    assert killed >= 5
    done: dict[str, object] = {}
    run = FleetRebuild(district.warehouse / "fleet", district.known, DUCKDB)
    run.rebuild(done.__setitem__)
    assert done == {ASH: None, BIRCH: None}
    assert run.verify().differences == ()
    assert {name: own(district, name) for name in (ASH, BIRCH)} == before


def test_a_killed_publish_is_made_up_for_by_the_next_writer(district: District) -> None:
    district.build()
    for step in (2, 4, 6):  # what is published has other views, but no other rows
        assert die(district, PUBLISH, step)
        district.build()
        assert counts(district) == {ASH: 4, BIRCH: 3}
    forget(district.warehouse / "fleet", ASH)
    assert die(district, PUBLISH, 30), "all parts are written, one after the other"
    district.build()
    assert counts(district) == {BIRCH: 3}, "a set that is not whole counts for nothing"
    book = Rollbook(load(institution=ASH, fetches=False))
    with book.writer():
        pass
    assert Parts(book.warehouse).is_current()
    leftovers = [p for p in (district.warehouse / "fleet").rglob("*.partial") if "institution=ash" in str(p)]
    assert leftovers == []


def test_a_killed_build_leaves_two_whole_files_of_which_one_may_say_that_it_is_older(district: District) -> None:
    for name in (ASH, BIRCH):
        district.house(name).night(2, over={"pseudonymous": True})
    files = [district.warehouse / name for name in ("fleet.duckdb", "fleet-pseudonymous.duckdb")]
    district.build()
    given = [note_of(district.warehouse / "fleet", name) for name in (ASH, BIRCH)]
    # Then the file without names is replaced by its clean copy, where nobody looks for it.
    earlier = sum(len(g.tables) for g in given if g is not None) + 1
    before, seen = versions(files), []
    for step in range(1, 6):  # before and after each of the four that move a version in or lead a link to it
        killed = die(district, BUILD, earlier + step)
        seen.append(versions(files))
        assert killed == (step < 5)
    assert seen[:2] == [before, before], "neither was shown"
    assert len({before[0], seen[2][0], seen[3][0]}) == 3, "the one was shown, and the other says that it is older"
    assert seen[2][1] == seen[3][1] == before[1]
    assert len(set(seen[4])) == 1
    assert len(list((district.warehouse / "pseudonymous").iterdir())) <= 2
    assert district.left_by_builds() == []


def versions(files: list[Path]) -> list[str]:
    """The builds that made these files; each can be read."""
    found = []
    for file in files:
        rows(file, "SELECT COUNT(*) FROM student_daily")
        found += [str(version) for (version,) in rows(file, "SELECT id FROM spans.version")]
    return found
