"""Eight days of the sandbox, landed once, and warehouses made of copies of `raw/`.

A test that wants another order, a lost day or a damaged file works on a copy, so that two warehouses differ only in
what was done.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rollbook.assembly import assemble
from rollbook.errors import HeldError
from rollbook.landing.manifest import Verdict
from rollbook.night import sync
from rollbook.opened import Rollbook
from rollbook.settings import load
from rollbook.tables import TABLES
from tests.support.nights import folder
from tests.support.reading import rows as rows
from tests.support.wire import faults
from tests.support.wire.service import Sandbox

FIRST = date(2026, 9, 14)
DAYS = tuple(FIRST + timedelta(days=n) for n in range(8))
LAST = DAYS[-1]
TWICE, HELD, UNPROVEN = DAYS[2], DAYS[4], DAYS[6]
STUDENTS = 250  # three pages of a list
KEY = "sandbox-key"

DATA = ("main", "history", "spans", "ops")
TOLD = {"spans.version", "ops.publishes", "ops.feed"}


def noon(day: date) -> datetime:
    """Noon of a day, in UTC."""
    return datetime.combine(day, time(12), UTC)


def rollbook(warehouse: Path, base_url: str = "http://127.0.0.1:9", *, today: date = LAST, **over: Any) -> Rollbook:
    """A warehouse to work on, on the last of the days; nobody listens at the address, unless given."""
    values: dict[str, Any] = {"base_url": base_url, "api_key": KEY, "warehouse": warehouse, "first_date": FIRST}
    settings = load(**(values | {"_env_file": None} | over))
    return assemble(settings, clock=lambda: noon(today))


@contextmanager
def landed(days: Sequence[date] = DAYS) -> Iterator[tuple[Path, Sandbox]]:
    """A warehouse that synced the days in order, and the sandbox.

    One day was synced twice, the second time without anybody's classes and with some records refused; one day has a
    held second landing, with other last names; one day an unproven second landing, with some records of
    the day after.
    """
    with folder() as warehouse, Sandbox(STUDENTS, day=FIRST, api_key=KEY) as sandbox:
        for day in days:
            sandbox.day = day
            sync(rollbook(warehouse, sandbox.url, today=day).writer(), day)
            if day == TWICE:
                sandbox.students = [_with_gaps(record) for record in sandbox.students]
                sync(rollbook(warehouse, sandbox.url, today=day).writer(), day)
            elif day == HELD:
                sandbox.students = [record | {"last_name": "Held"} for record in sandbox.students]
                with pytest.raises(HeldError):
                    sync(rollbook(warehouse, sandbox.url, today=day, hold_changed_percent=0).writer(), day)
            elif day == UNPROVEN:
                _sync_unproven(warehouse, sandbox, day)
        yield warehouse, sandbox


def _with_gaps(record: dict[str, Any]) -> dict[str, Any]:
    """A student's record without classes; of every eighth student, a record that is refused."""
    stated = {name: value for name, value in record.items() if name != "classes"}
    return stated if record["id"] % 8 else stated | {"name": 5}


def _sync_unproven(warehouse: Path, sandbox: Sandbox, day: date) -> None:
    """Sync while midnight strikes at the service, in the middle of the only walk."""

    def strike(name: str, page: int, pages: int) -> None:
        if (name, page) == ("students", 2):
            sandbox.day = day + timedelta(days=1)

    sandbox.on(faults.moved_total(1), path="students", page=3)  # the two days may list as many students
    synced = sync(rollbook(warehouse, sandbox.url, today=day, walks=1).writer(strike), day)
    assert synced.manifest.verdict is Verdict.UNPROVEN


def copy(source: Path, target: Path, days: Iterable[date] | None = None) -> Path:
    """Copy a whole warehouse, or of `raw/` alone what was landed on some days; adds to what is there."""
    if days is None:
        return Path(shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True))
    for day in days:
        part = Path("raw", f"snapshot_date={day}")
        shutil.copytree(source / part, target / part)
    return target


def export(published: Path, schemas: Iterable[str] = DATA) -> dict[str, str]:
    """Every table of the schemas as a sorted CSV file and as a sorted Parquet file: the digests of the bytes.

    What tells of publishes is left out.
    """
    digests = {}
    with folder() as out, duckdb.connect(published, read_only=True) as con:
        tables = con.execute("SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
        names = sorted({f"{schema}.{table}" for schema, table in tables if schema in schemas} - TOLD)
        assert len(names) >= len(TABLES)
        for name in names:
            for kind in ("csv", "parquet"):
                path = out / f"{name}.{kind}"
                con.execute(f"COPY (SELECT * FROM {name} ORDER BY ALL) TO '{path}' (FORMAT {kind})")
                digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return digests


def lake(warehouse: Path) -> dict[str, str]:
    """The digest of each file of the lake."""
    root = warehouse / "snapshots"
    paths = (p for p in root.rglob("*") if p.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}
