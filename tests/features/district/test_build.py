"""The district's file against each institution's own: every table and view holds the same rows, side by side."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rollbook.features.district import views as district_views
from rollbook.features.district.build import Built
from rollbook.tables import TABLES
from tests.support.nights import night
from tests.support.reading import rows
from tests.support.warehouses.district import District
from tests.support.warehouses.school import School
from tests.support.warehouses.scripted import (
    LARGE,
    LATER,
    NEVER,
    NIGHTS,
    ODD,
    OTHER,
    SHARING,
    SYNCED,
    scripted_district,
)

# A dozen syncs of three schools, once for all tests.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

# The columns that the rollup by day shares with the view of each institution.
DAILY = (
    "institution, snapshot_date, students, students_added, students_removed, average_completion_rate, average_score,"
    " scored_students, never_logged_in_students"
)


@dataclass(frozen=True)
class Whole:
    """A district and the file that was built of it."""

    district: District
    built: Built

    @property
    def file(self) -> Path:
        return self.district.warehouse / "district.duckdb"

    def own(self, name: str) -> Path:
        return self.district.warehouse / name / "rollbook.duckdb"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return rows(self.file, query)


@pytest.fixture(scope="module")
def whole() -> Iterator[Whole]:
    with scripted_district((1, 6, 7, 11), {n: NIGHTS[n] for n in (2, 11)}) as district:
        yield Whole(district, district.build())


def names() -> list[str]:
    """Every table and view that an institution's own file has, too."""
    tables = [f"{r.schema}.{r.name}" for r in district_views.tables()]
    return [*tables, *(f"main.{v.name}" for v in district_views.views())]


def compare(whole: Whole, name: str, institutions: Iterable[str]) -> dict[str, int]:
    """Compare one table or view of the district's file with that of each institution; returns how many rows each has."""
    counts = {}
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{whole.file}' AS district (READ_ONLY)")
        for institution in institutions:
            con.execute(f"ATTACH '{whole.own(institution)}' AS own (READ_ONLY)")
            here = con.sql(f"SELECT * EXCLUDE (institution) FROM district.{name} WHERE institution = '{institution}'")
            own = con.sql(f"FROM own.{name}")
            assert (here.columns, here.types) == (own.columns, own.types)
            rows = here.fetchall(), own.fetchall()
            counts[institution] = len(rows[0])
            assert_alike(*rows)
            con.execute("DETACH own")
        everything = con.sql(f"FROM district.{name}")
        assert (everything.columns[0], str(everything.types[0])) == ("institution", "VARCHAR")
        assert len(everything.fetchall()) == sum(counts.values()), "rows of nobody"
    return counts


def assert_alike(here: Iterable[tuple[Any, ...]], own: Iterable[tuple[Any, ...]]) -> None:
    """The same rows, up to a hundredth in numbers that are not whole.

    A mean may be halfway between two hundredths. The order in which DuckDB adds up decides then, and it is another one
    in another file.
    """

    def parted(row: tuple[Any, ...]) -> tuple[str, list[float]]:
        exact = [None if isinstance(value, float) else value for value in row]
        return repr(exact), [value for value in row if isinstance(value, float)]

    for mine, theirs in zip(sorted(map(parted, here)), sorted(map(parted, own)), strict=True):
        assert mine[0] == theirs[0]
        assert mine[1] == pytest.approx(theirs[1], abs=0.0101, nan_ok=True)


@pytest.mark.parametrize("name", names())
def test_it_has_of_each_institution_what_its_own_file_has(whole: Whole, name: str) -> None:
    counts = compare(whole, name, SYNCED)
    if name not in EMPTY:
        assert sum(1 for count in counts.values() if count) >= 2, "the test compares nothing"


@pytest.mark.weekly
def test_the_districts_file_equals_the_institutions_own_files(fortnight: School) -> None:
    with scripted_district(NIGHTS, ODD, LARGE) as district:
        shutil.copytree(fortnight.warehouse, district.warehouse / LARGE, symlinks=True, dirs_exist_ok=True)
        whole = Whole(district, district.build())
        for name in names():
            assert compare(whole, name, (*SYNCED, LARGE))[LARGE] or name in {*EMPTY, "main.data_quality"}
        assert_alike(*(whole.rows(f"SELECT {DAILY} FROM {of}") for of in ("institutions_daily", "progress_daily")))


# Tables with rows of at most one of these schools.
EMPTY = {
    *(f"{schema}.student_details" for schema in ("main", "history", "spans")),
    "main.terms", "main.active_days", "main.transfers", "main.possible_duplicates", "ops.rejects", "ops.refused_values",
    "ops.drift",
}  # fmt: skip


def test_the_macros_answer_for_each_institution_as_its_own_file_does(whole: Whole) -> None:
    calls = [f"{table}_as_of(DATE '{night(7)}')" for table in TABLES]
    calls += [f"changes_between(DATE '{night(1)}', DATE '{night(11)}')"]
    compared = 0
    for institution in SYNCED:
        for call in calls:
            own = rows(whole.own(institution), f"FROM {call}")
            here = whole.rows(f"SELECT * EXCLUDE (institution) FROM {call} WHERE institution = '{institution}'")
            assert sorted(here, key=repr) == sorted(own, key=repr), f"{institution}: {call}"
            compared += bool(own)
    assert compared > 20


def test_each_institution_is_listed_with_the_day_of_what_it_has(whole: Whole) -> None:
    rows = whole.rows("SELECT institution, school_id, newest_day, version IS NULL FROM institutions")
    assert rows == [  # the name of one looks like a number
        (LATER, 102, night(7), False),
        (OTHER, 101, night(11), False),
        (SHARING, 100, night(11), False),
        (NEVER, None, None, True),
    ]
    assert whole.built.institutions == len(SYNCED)


def test_the_rollups_say_the_same_as_the_views_of_each_institution(whole: Whole) -> None:
    daily = whole.rows(f"SELECT {DAILY} FROM institutions_daily ORDER BY ALL")
    assert daily == whole.rows(f"SELECT {DAILY} FROM progress_daily ORDER BY ALL")
    assert len({row[0] for row in daily}) == len(SYNCED)
    weekly = "institution, week_begins, snapshot_date, landed_days, students, average_completion_rate, average_score"
    assert whole.rows(f"SELECT {weekly} FROM institutions_weekly ORDER BY ALL") == whole.rows(
        f"SELECT {weekly} FROM progress_weekly ORDER BY ALL"
    )
    counted = "SELECT institution, snapshot_date, COUNT(*), COUNT(*) FILTER (is_active) FROM class_daily GROUP BY ALL"
    classes_daily = "SELECT institution, snapshot_date, classes, active_classes FROM institutions_daily"
    assert whole.rows(f"{counted} ORDER BY ALL") == whole.rows(f"{classes_daily} ORDER BY ALL")


def test_a_student_counts_once_per_institution_by_the_last_day(whole: Whole) -> None:
    last = f"SELECT * FROM district_daily WHERE snapshot_date = DATE '{night(11)}'"
    ((_, institutions, landed, oldest, listed, *_),) = whole.rows(last)
    by_institution = dict(whole.rows("SELECT institution, COUNT(*) FROM students GROUP BY ALL"))
    assert (institutions, landed, listed) == (len(SYNCED), 2, sum(by_institution.values()))
    assert oldest == night(7)
    first = whole.rows(f"SELECT institutions FROM district_daily WHERE snapshot_date = DATE '{night(1)}'")
    assert first == [(1,)], "who begins later does not count yet"


def test_the_comparison_ranks_institutions_each_counted_once(whole: Whole) -> None:
    rows = whole.rows(
        "SELECT institution, average_completion_rate, completion_rank, institutions FROM institutions_compared"
    )
    assert [row[0] for row in rows] == list(SYNCED)
    by_rank = sorted(rows, key=lambda row: -row[1])
    assert [row[2] for row in by_rank] == [1 + sum(other[1] > row[1] for other in by_rank) for row in by_rank]
    mean = sum(row[1] for row in rows) / len(rows)
    ((rate,),) = whole.rows("SELECT DISTINCT institutions_completion_rate FROM institutions_compared")
    assert rate == pytest.approx(mean, abs=0.005)


def test_everything_in_it_has_a_comment(whole: Whole) -> None:
    uncommented = """
        SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL
        UNION ALL SELECT table_name, NULL FROM duckdb_tables() WHERE NOT internal AND comment IS NULL
        UNION ALL SELECT view_name, NULL FROM duckdb_views() WHERE NOT internal AND comment IS NULL
    """
    assert whole.rows(uncommented) == []
    assert {row[0] for row in whole.rows("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'")} >= {
        *district_views.ROLLUPS, "institutions", "students", "changes", "thresholds",
    }  # fmt: skip
