"""Forty nights of the sandbox's school in a row, with faults of the machine: nothing is lost, and nothing piles up.

The institution is the sandbox's; it is served by the service that can be told to misbehave (`tests.support.wire.service`).
What happens in a night is in `tests.support.warehouses.soak`. At the end the slow model says what every table must hold, and the
last night's truth is the sandbox's own.

SOAK_SEED=n plays other nights, SOAK_NIGHTS=n more or fewer of them.
"""

from __future__ import annotations

import gc
import os
import shutil
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from pipelines import machine
from pipelines.landing.manifest import Manifest
from pipelines.operations import capacity
from pipelines.sync import Rollbook
from tests.support.nights import SET_OF, House, class_rows, folder, night, student_rows
from tests.support.processes.machines import MB, disk, left_over, open_below
from tests.support.warehouses.soak import CAP, NIGHTS, SEED, Soak
from tests.support.wire.service import Service

pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def soak(tmp_path: Path) -> Iterator[Soak]:
    with Service(cap=CAP) as service:
        if os.getuid() == 0:
            with disk(400 * MB) as mounted:
                house = House(mounted.path / "w", service, hold_changed_percent=100)
                yield Soak(house, mounted, tmp_path, SEED)
        else:
            warnings.warn("not root: the soak has no disk to fill up or to make read-only", stacklevel=1)
            with folder() as made:
                yield Soak(House(made / "w", service, hold_changed_percent=100), None, tmp_path, SEED)


def resident() -> float:
    """Megabytes of memory that this process holds, after a collection."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / MB


def test_nights_with_faults_of_the_machine_end_with_the_sandboxs_truth(soak: Soak) -> None:
    memory, handles, foretold = [], [], 0
    for number in range(1, NIGHTS + 1):
        soak.night(number)
        memory.append(resident())
        handles.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208
        if number == 10:
            night_ = capacity.last_night(soak.house.rollbook())
            assert night_ is not None
            foretold = capacity.predict(soak.house.rollbook(), night_, nights=NIGHTS - 10).year
    house = soak.house
    assert tuple_of(house) == truth_of(soak), f"SOAK_SEED={SEED}"
    assert house.tables() == soak.expected().tables(), f"SOAK_SEED={SEED}"
    nothing_left(house.rollbook(), house.warehouse)
    # Between nights, memory goes up and down by 25 MB: the last nights are held against the most of the first ones.
    assert median(memory[-10:]) - max(memory[9:29]) < 15, memory
    assert median(handles[-10:]) <= median(handles[:10]) + 2, handles
    assert machine.size(house.warehouse) <= foretold
    missing = {k.removeprefix("do_") for k in dir(soak) if k.startswith("do_")} - soak.played.keys()
    assert not missing or NIGHTS < 40


def tuple_of(house: House) -> dict[str, list[Any]]:
    """What is published of the last night: current rows, without what a record may be silent about."""
    published = house.tables()
    return {t: published[f"main.{t}"] for t in SET_OF if t not in ("student_activity", "student_classes")}


def truth_of(soak: Soak) -> dict[str, list[Any]]:
    """The same from the sandbox itself, by rows written out by hand."""
    day = soak.institution.on(night(NIGHTS))
    found: dict[str, list[Any]] = {t: [] for t in SET_OF if t not in ("student_activity", "student_classes")}
    for records, rows_of in ((day.students, student_rows), (day.classes, class_rows)):
        for record in records:
            for table, rows in rows_of(record).items():
                if table in found:
                    found[table] += [(*key, *values) for key, values in (rows or {}).items()]
    return {table: sorted(rows, key=repr) for table, rows in found.items()}


def nothing_left(book: Rollbook, warehouse: Path) -> None:
    """No handle, lock, thread or temporary file."""
    assert open_below(warehouse) == []
    assert left_over(warehouse) == []
    began = time.monotonic()
    with book.writer():
        assert time.monotonic() - began < 5
    manifests: list[Manifest] = book.raw.manifests()
    assert manifests
    assert len(book.warehouse.kept()) <= 3
    assert [t.name for t in threading.enumerate() if t.name.startswith(("staging", "rollbook"))] == []
    assert shutil.disk_usage(warehouse).free > 0
