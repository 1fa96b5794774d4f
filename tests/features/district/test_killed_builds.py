"""Killed at a step, a build leaves readers a whole file, and a rebuild leaves each institution whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollbook.settings import ROOT
from tests.support.reading import rows
from tests.support.warehouses.district import District, two_schools

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(900)]  # a dozen processes, each of which imports everything

ASH, BIRCH = "ash", "birch"


@pytest.fixture
def synced_pair() -> Iterator[District]:
    with two_schools() as district:
        yield district


def die(district: District, step: int, *arguments: str) -> bool:
    """Run a command in a process that kills itself before its n-th step; returns whether it came to that."""
    script = (
        f"from tests.support.processes.kills import die_at_step; die_at_step({step})\n"
        f"from rollbook.cli import app; app({['district', *arguments]})"
    )
    environment = {**district.environment(), "PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def versions(files: list[Path]) -> list[str]:
    """The builds that made these files; each can be read."""
    return [
        str(v) for file in files for (v,) in rows(file, "SELECT id FROM spans.version, (FROM student_weekly LIMIT 1)")
    ]


def test_a_killed_build_leaves_two_whole_files_perhaps_of_different_age(synced_pair: District) -> None:
    for name in (ASH, BIRCH):
        synced_pair.house(name).night(2, over={"pseudonymous": True})
    files = [synced_pair.warehouse / name for name in ("district.duckdb", "district-pseudonymous.duckdb")]
    synced_pair.build()
    seen, step, killed = [versions(files)], 0, True
    while killed:
        step += 1
        killed = die(synced_pair, step, "build")
        seen.append(versions(files))
    assert step > 4, "each of the two is moved in, and its link is led to it"
    assert seen[1] == seen[0]
    assert any(one != other for one, other in seen), "the one was shown, and the other says that it is older"
    assert seen[-1][0] == seen[-1][1] != seen[0][0]
    assert len(list((synced_pair.warehouse / "pseudonymous").iterdir())) <= 2
    assert synced_pair.left_by_builds() == []
