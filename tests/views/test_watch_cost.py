"""What the students to watch cost: a day looks at its own days alone, and many students fit into a night's memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rollbook.features.feed.feed import watched
from rollbook.features.morning.morning import load_morning
from rollbook.sandbox import MadeUpInstitution
from rollbook.store.database import USUAL_MEMORY_LIMIT, Limits, connect, reuse_instances
from tests.support.warehouses.years import school_days, year

STUDENTS, TIMES = 200, 250
DAYS = school_days(date(2026, 9, 7), date(2026, 11, 6))


@pytest.fixture(scope="module")
def two_months(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("months") / "months.duckdb"
    year(path, MadeUpInstitution(STUDENTS), DAYS)
    return path


@pytest.fixture
def many(two_months: Path, tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The same school 250 times over, with the memory that a night usually has."""
    path = tmp_path / "many.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute(f"ATTACH '{two_months}' AS few (READ_ONLY)")
        con.execute("COPY FROM DATABASE few TO many")
        for name in ("students", "student_summaries", "student_activity", "student_classes"):
            ids = "student_id + 1000000 * n AS student_id"
            if name == "student_classes":
                ids += ", class_id + 1000000 * n AS class_id"
            con.execute(f"""
                INSERT INTO history.{name}
                SELECT h.* REPLACE ({ids}) FROM few.history.{name} AS h, RANGE(1, {TIMES}) AS r(n)
                WHERE h.valid_to IS NULL OR h.valid_to > DATE '{DAYS[-16]}'
            """)
        con.execute(
            "INSERT INTO main.students BY NAME SELECT * EXCLUDE (valid_from, valid_to) FROM history.students WHERE valid_to IS NULL"
        )
    with (
        reuse_instances(tmp_path / "spill", Limits(memory=USUAL_MEMORY_LIMIT)),
        connect(path, scratch=tmp_path / "spill", read_only=True) as con,
    ):
        yield con


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return con.execute(query).fetchall()


def rows_handled(con: duckdb.DuckDBPyConnection, query: str) -> int:
    """How many rows all steps of a query handed on."""
    con.execute(query).fetchall()
    told = json.loads(con.get_profiling_information("json"))
    return int(told["query"]["total_intermediate_rows"])


def test_the_rows_of_a_day_are_made_of_few_days(two_months: Path) -> None:
    """Else the morning page, which asks for one, would cost more every night."""
    with duckdb.connect(str(two_months), read_only=True, config={"threads": 1}) as con:
        con.execute("PRAGMA enable_profiling = 'no_output'")
        con.execute("SET tracked_metrics = ['*']")
        every = rows_handled(con, "FROM watch_daily")
        for asked in (f"= DATE '{DAYS[-1]}'", f">= DATE '{DAYS[-1]}'"):
            assert rows_handled(con, f"FROM watch_daily WHERE snapshot_date {asked}") < every / 3, asked


@pytest.mark.slow
def test_a_night_of_many_students_finds_whom_to_watch(two_months: Path, many: duckdb.DuckDBPyConnection) -> None:
    limit = "SELECT current_setting('memory_limit')"
    with duckdb.connect(str(two_months), read_only=True) as con:
        ((listed_of_few,),) = rows(con, "SELECT COUNT(*) FROM students_to_watch")
    assert listed_of_few > 3
    before = rows(many, limit)
    assert watched(many, "").num_rows == TIMES * listed_of_few
    assert load_morning(many).to_watch == TIMES * listed_of_few
    assert rows(many, limit) == before, "only these two may take more"
