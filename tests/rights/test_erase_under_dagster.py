"""Whole nights under Dagster: one before an erasure, one after it, and one that an erasure waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import graph
from tests.support.nights import new_house, night
from tests.support.processes import canary
from tests.support.records import classes, students
from tests.support.warehouses.erasures import erase

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

OTHERS = 30
# More completed than given: a contradiction, which a check of data quality reports.
TOO_MANY = {"total_assignments": 2, "completed_assignments": 9, "completion_rate": 100.0, "average_score": 12.0}


def test_nights_around_an_erasure_are_green_and_hold_nothing_of_the_student(tmp_path: Path) -> None:
    home = tmp_path / "home"
    everybody = [*students(OTHERS), canary.canary(summary=TOO_MANY)]
    with (
        new_house(everybody, classes(2), hold_changed_percent="75") as house,
        graph.job(house, home) as job,
    ):
        assert job.nightly(house, 1).success
        # An erasure may not reach all of Dagster's records, so no id gets there. The name of an unknown field does.
        assert canary.found(home) == {}
        erase(house, home=home)
        assert job.nightly(house, 2).success
        assert canary.found(house.warehouse) == {}
        assert {k: v for k, v in house.examined().items() if v} == {}
        # An erased student does not count as received, on the nights before and after alike.
        received = house.query(
            "SELECT snapshot_date, received FROM ops.sync_sets WHERE set_name = 'students' ORDER BY 1"
        )
        assert received == [(night(n), OTHERS) for n in (1, 2)]
