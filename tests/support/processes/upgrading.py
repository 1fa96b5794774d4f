"""`python -m tests.support.processes.upgrading RELEASE FOLDER STEP...`: the version of Rollbook on the path upgrades a
release's warehouse, killed before each of these steps, and another writer finishes it.

`facts.json` in FOLDER names what is wanted of readers' tables, as a release's facts do. Prints a line of JSON for each
step: whether the writer was killed, the formats of the published files, and these tables. With STEP 0 nothing is
killed, the school goes on, and FOLDER gets its warehouse.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import duckdb

from tests.support.nights import House
from tests.support.processes.kills import die_at_step
from tests.support.warehouses import released


def upgrade(house: House) -> None:
    """What the first writer does before anything else."""
    with house.rollbook().writer().writing():
        pass


def formats_of(house: House) -> list[int]:
    """The formats of the published files."""
    numbers = set()
    for file in (house.warehouse / "published").glob("rollbook.*.duckdb"):
        with duckdb.connect(file, read_only=True) as con:
            numbers |= {row[0] for row in con.execute("SELECT format FROM spans.version").fetchall()}
    return sorted(numbers)


def is_killed(house: House, step: int) -> bool:
    """Upgrade in a process that dies before a step; returns whether it came so far."""

    def dying() -> None:
        die_at_step(step)
        upgrade(house)

    process = multiprocessing.get_context("fork").Process(target=dying)
    process.start()
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0


def tried(release: str, folder: Path, step: int) -> dict[str, Any]:
    """What comes of it."""
    facts = json.loads((folder / "facts.json").read_text("utf-8"))
    with released.opened(release) as house:
        killed = step > 0 and is_killed(house, step)
        upgrade(house)
        said = {"killed": killed, "formats": formats_of(house), "kept": released.told(house, facts["kept"])}
        if step == 0:
            released.go_on(house)
            said["gone_on"] = released.told(house, facts["gone_on"])
            shutil.copytree(house.warehouse, folder / "warehouse", symlinks=True)
        return said


if __name__ == "__main__":
    for number in map(int, sys.argv[3:]):
        print(json.dumps(tried(sys.argv[1], Path(sys.argv[2]), number)), flush=True)  # noqa: T201
