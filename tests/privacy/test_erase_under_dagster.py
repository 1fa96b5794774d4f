"""Whole nights under Dagster: one before an erasure, one after it, and one that an erasure waits for."""

from __future__ import annotations

from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.support import graph
from tests.support.nights import House, new_house, night
from tests.support.processes import canary
from tests.support.processes.kills import killed_or_done
from tests.support.records import classes, students
from tests.support.warehouses.erasures import erase
from tests.support.wire.service import Asked, Reply

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

OTHERS = 30
# More completed than given: a contradiction, which a check of data quality reports.
TOO_MANY = {"total_assignments": 2, "completed_assignments": 9, "completion_rate": 100.0, "average_score": 12.0}


def received(house: House, number: int) -> list[tuple[object, ...]]:
    return house.query(
        f"SELECT set_name, received FROM ops.sync_sets WHERE snapshot_date = '{night(number)}' ORDER BY set_name DESC"
    )


def test_nights_around_an_erasure_are_green_and_hold_nothing_of_the_student(tmp_path: Path) -> None:
    home, waiting = tmp_path / "home", list[BaseProcess]()

    def erase_meanwhile(asked: Asked, reply: Reply) -> Reply:
        waiting.append(canary.started(house.warehouse))
        return reply

    with (
        new_house([*students(OTHERS), canary.canary(summary=TOO_MANY)], classes(2), hold_changed_percent="75") as house,
        graph.job(house, home) as job,
    ):
        assert job.nightly(house, 1).success
        # An erasure may not reach all of Dagster's records, so no id gets there. The name of an unknown field does.
        assert {text for hits in canary.found(home).values() for text in hits} <= {"canary-drift"}
        erase(house, 5, home=home)
        assert job.nightly(house, 2).success
        assert house.query("SELECT COUNT(*), COUNT(*) FILTER (student_id = 5) FROM history.students") == [(OTHERS, 0)]
        house.service.on(erase_meanwhile, path="classes")
        assert job.nightly(house, 3).success
        (process,) = waiting
        assert not killed_or_done(process)
        assert canary.found(house.warehouse) == {}
        assert job.nightly(house, 4).success
        assert canary.found(house.warehouse) == {}
        assert {k: v for k, v in house.examined().items() if v} == {}
        assert house.query("SELECT COUNT(*) FROM students") == [(OTHERS - 1,)]
        # An erased student does not count as received, on the nights before and after alike.
        assert [received(house, n) for n in (1, 2, 3, 4)] == [[("students", OTHERS - 1), ("classes", 2)]] * 4
