"""The end of `rollbook serve`: with it ends each process that a run has started."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.support.processes.launching import LAUNCH, below, is_running, launch
from tests.support.processes.servers import Served, free_port, served_bare, until
from tests.support.tiers import weekly
from tests.support.warehouses.district import new_district
from tests.support.wire import faults

pytestmark = [pytest.mark.timeout(600), pytest.mark.nights]


def kill(served: Served) -> None:
    os.kill(served.process.pid, signal.SIGKILL)
    served.process.wait(10)


@pytest.mark.parametrize("end", [Served.stop, weekly(kill)])
def test_a_run_and_its_children_end_with_serve(end: Callable[[Served], None]) -> None:
    """The run's worker waits for a service that does not answer."""
    with new_district(["ash"], ["birch"]) as district:
        district.play(datetime.now(UTC))
        district.write(defaults='cron = "0 0 1 1 *"')
        district["ash"].on(faults.hang(300), path="auth", times=None)
        with served_bare({**os.environ, **district.environment()}, free_port()) as served:
            tags = {"dagster/partition": f"{datetime.now(UTC):%Y-%m-%d}", "rollbook/sync": "hand"}
            given = [{"key": key, "value": value} for key, value in tags.items()]
            run = launch(served, LAUNCH, job="nightly_sync", config={}, tags=given)
            until(lambda: district.asked()["ash"], 120)
            of_run = below(until(lambda: served.worker_of(run), 10))
            running = below(served.process.pid) | of_run
            assert len(of_run) > 1
            end(served)
            until(lambda: not [number for number in running if is_running(number)], 30)
