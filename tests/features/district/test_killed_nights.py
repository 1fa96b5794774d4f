"""A whole district run is killed at random moments: no warehouse is the worse for it, and nothing is asked for twice."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from rollbook.assembly import assemble
from rollbook.landing.raw import RawStore
from rollbook.night import sync
from rollbook.night.policy import counted
from rollbook.settings import load
from tests.support.nights import House, Tables, folder
from tests.support.processes.commands import COMMAND
from tests.support.records import school_class, students
from tests.support.warehouses.district import District, new_district

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NAMES = ("ash", "birch", "cedar", "elm", "fir")
KILLS = 12


@pytest.fixture
def five_schools() -> Iterator[District]:
    with new_district(NAMES[:3], NAMES[3:]) as district:
        for number, name in enumerate(NAMES):
            district[name].students = students(150 + 30 * number)
            district[name].classes = [school_class(n) for n in range(501, 505)]
        yield district


def run(district: District) -> subprocess.Popen[bytes]:
    """A run in a process group of its own."""
    command, env = [*COMMAND, "district", "sync", "--jobs", "3"], {**os.environ, **district.environment()}
    return subprocess.Popen(
        command, env=env, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def done(district: District) -> set[str]:
    """The institutions whose night counts by now: it may not be fetched again."""
    return {
        name
        for name in NAMES
        for raw in [RawStore(district.warehouse / name / "raw")]
        if any(counted(raw.manifests(day)) for day in raw.days())
    }


@pytest.mark.weekly
def test_a_run_killed_at_any_moment_leaves_every_warehouse_sound(five_schools: District) -> None:
    random, seconds, killed = Random(15), 2.0, 0
    settled: set[str] = set()
    requests: dict[str, int] = {}
    for _ in range(KILLS):
        process = run(five_schools)
        try:
            process.wait(random.uniform(0.2 * seconds, seconds))
        except subprocess.TimeoutExpired:
            killed += 1
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(0.5)  # until the workers' last requests have come
        now = five_schools.asked()
        assert {name: now[name] for name in settled} == {name: requests[name] for name in settled}
        settled, requests = done(five_schools), now
        if settled == set(NAMES):
            break
        seconds *= 1.25
    assert killed
    process = run(five_schools)
    assert process.wait(300) == 0
    now = five_schools.asked()
    assert {name: now[name] for name in settled} == {name: requests[name] for name in settled}
    assert run(five_schools).wait(100) == 0
    assert five_schools.asked() == now
    for name in NAMES:
        expected = never_killed(five_schools, name)  # first: a house shows its own clock from then on
        house = five_schools.house(name)
        assert house.tables() == expected, name
        assert not any(house.examined().values()), name


def test_two_runs_at_once_ask_once(five_schools: District) -> None:
    both = [run(five_schools), run(five_schools)]
    assert [process.wait(400) for process in both] == [0, 0]
    assert five_schools.asked() == {name: 1 + -(-len(five_schools[name].students) // 100) + 1 for name in NAMES}


def never_killed(district: District, name: str) -> Tables:
    """The tables of a warehouse after one sync."""
    with folder() as elsewhere:
        sync(assemble(load(institution=name, warehouse=elsewhere)).writer())
        return House(elsewhere / name, district[name]).tables()
