"""The nights of the soak: what happens in each, and the landings that count.

Those landings are kept aside as they arrive, so that at the end the slow model can say what every table must hold. The
machine's faults are real ones (`tests.support.processes.machines`).
"""

from __future__ import annotations

import copy
import os
import random
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pipelines.errors import (
    ArgumentError,
    DamagedError,
    HeldError,
    MachineError,
    OtherInstitutionError,
    RollbookError,
    ServiceError,
)
from pipelines.operations.diff import diff
from pipelines.sandbox import Institution
from tests.support.nights import FIRST, Expected, House, night
from tests.support.processes.machines import MB, Disk, in_another_process, no_file_above, open_below
from tests.support.wire import faults
from tests.support.wire.service import Asked, Bend

NIGHTS = int(os.environ.get("SOAK_NIGHTS", "40"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
STUDENTS = 120
CAP = 25  # records a page, so that a walk has several
KEPT = 20  # days, from the middle of the soak on
PATHS = ("students", "classes")


class Soak:
    """The nights, one after the other: what is done in each, and the landings that count."""

    def __init__(self, house: House, mounted: Disk | None, kept: Path, seed: int) -> None:
        self.house = house
        self.service = house.service
        self.mounted = mounted
        self.kept = kept
        self.random = random.Random(seed)
        self.institution = Institution(STUDENTS, seed)
        self.seen: set[tuple[date, int]] = set()
        self.played: Counter[str] = Counter()
        self.number = 0

    # -- a night ---------------------------------------------------------------------------------------------------

    def night(self, number: int) -> None:
        """One night: something happens, and in most nights a sync gets through in the end."""
        self.number = number
        self.house.at(number)
        if number == NIGHTS // 2:
            self.house.over["keep_days"] = KEPT
        self.truth()
        kinds = sorted(k.removeprefix("do_") for k in dir(self) if k.startswith("do_"))
        # Each kind comes up once; after that, by chance.
        kind = kinds[number - 2] if 2 <= number < len(kinds) + 2 else self.random.choice(kinds)
        if number in (1, NIGHTS):
            kind = "nothing"
        self.played[kind] += 1
        getattr(self, f"do_{kind}")()
        self.service.mend()
        self.truth()
        if number != NIGHTS and self.random.random() < 0.6:
            self.sync()
        self.capture()
        self.readable()

    def truth(self) -> None:
        """Give the service the sandbox's records of today."""
        day = self.institution.on(night(self.number))
        self.service.students = copy.deepcopy(day.students)
        self.service.classes = copy.deepcopy(day.classes)

    def sync(self) -> None:
        """A sync that must succeed. It may first find damage, repair it and say so; then the next one succeeds."""
        self.attempt(self.house.sync, DamagedError)

    def attempt(self, work: Callable[[], Any], *may: type[RollbookError]) -> None:
        """Do something that may fail in these ways only; readers keep a whole file in any case."""
        before = self.published()
        try:
            work()
        except may as error:
            assert error.message
            if isinstance(error, DamagedError):
                work()
                return
            assert self.published() == before
        finally:
            assert open_below(self.house.warehouse) == []
            self.capture()

    def published(self) -> bytes:
        return self.house.published.read_bytes() if self.house.published.exists() else b""

    def readable(self) -> None:
        assert self.house.query("SELECT COUNT(*) > 0 FROM students") == [(True,)]

    def capture(self) -> None:
        """Keep the landings that count, before retention deletes them."""
        raw = self.house.rollbook().raw
        for m in raw.manifests():
            if m.counts_for_its_day and (m.snapshot_date, m.landing) not in self.seen:
                self.seen.add((m.snapshot_date, m.landing))
                shown = {
                    s: [r for b in raw.bodies(m, s) for r in msgspec.json.decode(b.content)["data"]] for s in PATHS
                }
                path = self.kept / f"{m.snapshot_date}-{m.landing:03}.json"
                path.write_bytes(msgspec.json.encode({"proven": {s: bool(m.proof(s)) for s in PATHS}, **shown}))

    # -- the service -----------------------------------------------------------------------------------------------

    def do_nothing(self) -> None:
        """A night like any other."""
        self.sync()

    def do_other_institution(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.service, "school", {"id": 42, "name": "Another", "key": "another"})
            self.attempt(self.house.sync, OtherInstitutionError)

    def do_spoiled_walk(self) -> None:
        """One walk, or every one of them, proves nothing."""
        bends: list[Bend] = [
            faults.moved_total(1),
            faults.short(),
            faults.empty(),
            faults.repeated(self.service, "students", 1),
            faults.stated(total_pages=2),
        ]
        times = self.random.choice([1, None])
        self.service.on(self.random.choice(bends), path="students", page=2, times=times)
        self.attempt(self.house.sync, HeldError, ServiceError)

    def do_changing_while_walked(self) -> None:
        """Somebody leaves and somebody comes in the middle of the first walk."""
        students, left = self.service.students, [3]

        def before(asked: Asked) -> None:
            if asked.path == "students" and asked.page == 2 and left[0]:
                left[0] -= 1
                students.append(students.pop(0) | {"id": 900_000 + self.number * 10 + left[0]})

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.service, "before", before)
            self.sync()

    # -- the machine -----------------------------------------------------------------------------------------------

    def do_full_disk(self) -> None:
        if self.mounted is None:
            return
        size = max(len(self.published()), MB)
        with self.mounted.full(self.random.randint(0, size * 2)):
            self.attempt(self.house.sync, MachineError)

    def do_read_only(self) -> None:
        if self.mounted is None:
            return
        with self.mounted.read_only():
            self.attempt(self.house.sync, MachineError)

    def do_no_large_files(self) -> None:
        refused = in_another_process(self.house.sync, first=no_file_above(self.random.randint(1, 4 * MB)))
        assert isinstance(refused, MachineError), refused

    def do_clock_set_back(self) -> None:
        now, newest = self.house.now, self.house.rollbook().newest()
        assert newest is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.house, "now", newest.started_at - timedelta(days=2))
            patch.setattr(self.service, "now", lambda: now)
            self.attempt(self.house.sync, MachineError, ArgumentError)

    def do_garbage_in_build(self) -> None:
        build = self.house.warehouse / "build"
        for name in ("next.duckdb", "next.duckdb.wal", "spill/duckdb_temp_storage-0.tmp", "stage/x.parquet"):
            (build / name).parent.mkdir(exist_ok=True)
            (build / name).write_bytes(self.random.randbytes(9000))
        self.sync()

    # -- the operator ----------------------------------------------------------------------------------------------

    def do_looked_at(self) -> None:
        """`rollbook diff` before the sync says what the sync does."""
        foreseen = diff(self.house.rollbook())
        if foreseen.outcome == "synced":
            assert self.house.sync().manifest.counts == foreseen.counts

    # -- what must be in it ----------------------------------------------------------------------------------------

    def expected(self) -> Expected:
        expected = Expected()
        for path in sorted(self.kept.glob("*.json")):
            landed = msgspec.json.decode(path.read_bytes())
            expected.night(
                (date.fromisoformat(path.stem[:10]) - FIRST).days + 1,
                landed["students"],
                landed["classes"],
                unproven=[s for s in PATHS if not landed["proven"][s]],
            )
        return expected
