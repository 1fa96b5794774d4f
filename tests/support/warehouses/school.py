"""A fortnight of the sandbox across the turn of a month, synced once for all tests that read what is published.

Dates, size and seed are fixed: the cookbook's questions name a class, a student and a day. Tests that write work on a
copy.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from rollbook.assembly import assemble
from rollbook.night import sync
from rollbook.night.stages import merge
from rollbook.opened import Rollbook
from rollbook.sandbox.institution import terms
from rollbook.settings import load
from rollbook.views import editable
from rollbook.views.editable import Term
from tests.support.reading import rows
from tests.support.warehouses.begun import made_once
from tests.support.wire.service import Sandbox

FIRST = date(2026, 9, 24)
DAYS = tuple(FIRST + timedelta(days=n) for n in range(14))
LAST = DAYS[-1]
KEY = "sandbox-key"


class School:
    """A warehouse, with a sandbox where needed."""

    def __init__(self, warehouse: Path, sandbox: Sandbox | None = None) -> None:
        self.warehouse = warehouse
        self.sandbox = sandbox

    @property
    def published(self) -> Path:
        """The published file."""
        return self.warehouse / "rollbook.duckdb"

    def rollbook(self, today: date = LAST, **over: Any) -> Rollbook:
        """The warehouse, at a quarter past two of a night."""
        base_url = self.sandbox.url if self.sandbox else "http://127.0.0.1:9"
        given = {"base_url": base_url, "api_key": KEY, "warehouse": self.warehouse, "first_date": FIRST}
        values: dict[str, Any] = {**given, "_env_file": None, **over}
        settings = load(**values)
        return assemble(settings, clock=lambda: datetime(today.year, today.month, today.day, 2, 15, tzinfo=UTC))

    def sync(self, day: date, **over: Any) -> None:
        """One night."""
        if self.sandbox is not None:
            self.sandbox.day = day
        sync(self.rollbook(day, **over).writer(), day)

    def frame(self, query: str) -> pd.DataFrame:
        """The rows of an analyst's query, as a frame."""
        with duckdb.connect(self.published, read_only=True) as con:
            frame: pd.DataFrame = con.sql(query).df()
        return frame

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of an analyst's query."""
        return rows(self.published, query)

    def copy(self, target: Path) -> School:
        """A copy to write to, published again so that the views name the copy's files."""
        scratch = shutil.ignore_patterns("aside-*")  # of another test that reads it, and soon gone
        shutil.copytree(self.warehouse, target, symlinks=True, dirs_exist_ok=True, ignore=scratch)
        mine = School(target)
        with mine.rollbook().writer().writing():
            mine.rollbook().writer().publish(merge(mine.rollbook().place))
        return mine


@contextmanager
def small_school(synced: Path, target: Path) -> Iterator[School]:
    """A small school that goes on from a copy of what was synced."""
    with Sandbox(60, day=FIRST, api_key=KEY) as sandbox:
        shutil.copytree(synced, target, symlinks=True)
        yield School(target, sandbox)


@pytest.fixture
def small(small_synced: Path, tmp_path: Path) -> Iterator[School]:
    """A small school after a first night. Until the next, the views lead to the first lake."""
    with small_school(small_synced, tmp_path / "w") as school:
        yield school


@pytest.fixture(scope="session")
def small_synced() -> Path:
    """The small school's first night. To be copied, not changed."""

    def play(warehouse: Path) -> None:
        with Sandbox(60, day=FIRST, api_key=KEY) as sandbox:
            School(warehouse, sandbox).sync(FIRST)

    return made_once("small", play)


@pytest.fixture(scope="session")
def fortnight() -> School:
    """The fortnight, synced night by night, with the terms that the demo gives. For reading only."""

    def play(warehouse: Path) -> None:
        with Sandbox(day=FIRST, api_key=KEY) as sandbox:
            school = School(warehouse, sandbox)
            warehouse.mkdir()
            year = timedelta(days=365)
            editable.ensure(warehouse, terms=(Term(*term) for term in terms(LAST - year, LAST + year)))
            for day in DAYS:
                school.sync(day)

    return School(made_once("fortnight", play))
