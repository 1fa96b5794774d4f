"""The lake: a day composed from its landings, moved in whole, and read back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from pipelines import files
from pipelines.errors import DamagedError
from pipelines.flatten import flatten
from pipelines.landing.manifest import Landed, Proof
from pipelines.store.lake import Lake, Part, Staged, compose
from pipelines.store.staging import Staging
from pipelines.tables import SETS, TABLES, WALKED
from tests.flatten.test_rows import page
from tests.support.records import MISSING, school_class, student

DAY = date(2026, 11, 20)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def stage(folder: Path, landing: int, *bodies: Landed) -> Staged:
    staging = Staging(folder / f"landing={landing}")
    for name in SETS:
        for batch in flatten(name, [b for b in bodies if b.set == name]):
            staging.add(batch.tables)
    staging.close()
    return Staged(staging.folder, landing * 2**40)


def proof(name: str, count: int) -> Proof:
    return Proof(set=name, walk=1, total_count=count, unique_ids=count, pages=1, limit=100)


def parts(*staged: Staged, **proofs: int) -> list[Part]:
    return [Part(n, staged, proof(n, proofs[n]) if n in proofs else None) for n in SETS]


def rows(con: duckdb.DuckDBPyConnection, path: Path, columns: str = "*") -> list[tuple[Any, ...]]:
    return con.execute(f"SELECT {columns} FROM read_parquet('{path}') ORDER BY ALL").fetchall()


def test_ids_that_two_sets_share_stay_apart(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    staged = stage(
        tmp_path,
        1,
        page(student(1), student(2), student(3)),
        page(school_class(3), school_class(2), set_name="classes"),
    )
    day = compose(con, DAY, parts(staged, students=3, classes=2), tmp_path / "day")
    assert rows(con, day.path("observed")) == [
        ("classes", 2, "stated", None),
        ("classes", 3, "stated", None),
        ("classes", None, "proven", None),
        ("students", 1, "stated", None),
        ("students", 2, "stated", None),
        ("students", 3, "stated", None),
        ("students", None, "proven", None),
    ]
    assert rows(con, day.path("students"), "student_id") == [(1,), (2,), (3,)]
    assert rows(con, day.path("classes"), "class_id") == [(2,), (3,)]


def test_a_later_landing_adds_and_updates_and_takes_nothing_away(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    first = stage(tmp_path, 1, page(student(1), student(2), student(3)))
    later = stage(
        tmp_path,
        2,
        page(student(1, email="new@school.example", classes=None), student(2, email=None), student(4)),
    )
    day = compose(con, DAY, parts(first, later, students=3), tmp_path / "day")
    assert rows(con, day.path("students"), "student_id, email") == [
        (1, "new@school.example"),
        (2, "pupil.2@school.example"),
        (3, "pupil.3@school.example"),
        (4, "pupil.4@school.example"),
    ]
    assert rows(con, day.path("student_classes"), "student_id, class_id") == [(n, 501) for n in (1, 2, 3, 4)]
    assert rows(con, day.path("observed"), "id, state") == [
        (1, "stated"),
        (2, "stated"),
        (3, "stated"),
        (4, "stated"),
        (None, "proven"),
    ]


def test_the_same_id_twice_keeps_the_later_record(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    staged = stage(tmp_path, 1, page(student(1), student(1, name="Later")))
    day = compose(con, DAY, parts(staged), tmp_path / "day")
    assert rows(con, day.path("students"), "student_id, name") == [(1, "Later")]


def test_equal_statements_make_equal_files_whatever_their_order(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    digests = []
    for number, order in enumerate(([1, 2, 3], [3, 1, 2]), 1):
        staged = stage(tmp_path, number, page(*(student(i) for i in order)))
        day = compose(con, DAY, parts(staged, students=3), tmp_path / f"day{number}")
        digests.append([files.digest(day.path(name)) for name in (*TABLES, "observed")])
    assert digests[0] == digests[1]


def test_records_that_came_once_make_the_files_that_overlaying_makes(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    staged = stage(
        tmp_path,
        1,
        page(student(3), student(1, classes=[]), student(2, classes=MISSING), student(4, email=None)),
        page(school_class(2), set_name="classes"),
    )
    chosen = parts(staged, students=4)
    digests = []
    for number, once in enumerate((False, True), 1):
        as_told = [dataclasses.replace(part, once=once and part.set in WALKED) for part in chosen]
        day = compose(con, DAY, as_told, tmp_path / f"day{number}")
        digests.append({name: files.digest(day.path(name)) for name in (*TABLES, "observed")})
    assert digests[0] == digests[1]


def test_a_day_is_whole_only_once_all_of_it_is_there(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "snapshots")
    staged = stage(tmp_path, 1, page(student(1)))
    chosen = parts(staged, students=1)
    record = lake.commit(compose(con, DAY, chosen, tmp_path / "day"), [1], chosen)
    assert lake.days() == {DAY: record}
    assert (record.landings, record.proven, record.rows["students"]) == ((1,), ("students",), 1)
    file = tmp_path / "snapshots" / "students" / f"snapshot_date={DAY}" / "part-0.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    assert lake.days() == {}
    file.write_bytes(whole)
    assert lake.days() == {DAY: record}
    file.with_name("part-0.parquet").unlink()
    assert lake.days() == {}


def test_a_file_that_cannot_be_read_names_the_command_that_mends_it(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "snapshots")
    chosen = parts(stage(tmp_path, 1, page(student(1))), students=1)
    record = lake.commit(compose(con, DAY, chosen, tmp_path / "day"), [1], chosen)
    file = tmp_path / "snapshots" / "students" / f"snapshot_date={DAY}" / "part-0.parquet"
    file.write_bytes(b"no parquet at all")
    with pytest.raises(DamagedError, match=f"rollbook backfill {DAY} {DAY}"):
        lake.scan(TABLES["students"], [record])


def test_the_files_are_zstd_and_a_preview_shows_nothing_personal(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "snapshots")
    chosen = parts(stage(tmp_path, 1, page(*(student(i) for i in range(1, 9)))), students=8)
    lake.commit(compose(con, DAY, chosen, tmp_path / "day"), [1], chosen)
    file = tmp_path / "snapshots" / "students" / f"snapshot_date={DAY}" / "part-0.parquet"
    assert pq.read_metadata(file).row_group(0).column(0).compression == "ZSTD"
    shown = lake.preview(TABLES["students"], DAY)
    assert [r["student_id"] for r in shown] == [1, 2, 3, 4, 5]
    assert set(shown[0]) == {"student_id", "registration_date", "is_registered"}


@pytest.mark.parametrize(
    "facts",
    [
        {"total_count": 3, "unique_ids": 2},
        {"total_count": 300, "unique_ids": 300},
        {"pages": 0},
        {"limit": 0},
    ],
)
def test_a_proof_cannot_be_made_of_facts_that_prove_nothing(facts: dict[str, int]) -> None:
    sound = {"walk": 1, "total_count": 3, "unique_ids": 3, "pages": 1, "limit": 100}
    Proof(set="students", **sound)
    with pytest.raises(ValueError, match=r"prove|hold"):
        Proof(set="students", **(sound | facts))
