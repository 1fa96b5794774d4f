"""The lake: a day composed from its landings, moved in whole, and read back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from rollbook.errors import DamagedError
from rollbook.landing.manifest import LandedBody
from rollbook.store.lake import Candidate, DayRecord, Lake, Part, Staged, compose, unchanged
from rollbook.store.staging import Staging
from rollbook.tables import SETS, TABLES, WALKED, of_set
from rollbook.util import files
from tests.support.flattening import flatten, page
from tests.support.records import MISSING, entry, school_class, student, students

DAY = date(2026, 11, 20)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def stage(folder: Path, landing: int, *bodies: LandedBody) -> Staged:
    staging = Staging(folder / f"landing={landing}")
    for name in SETS:
        for batch in flatten(name, [b for b in bodies if b.set == name]):
            staging.add(batch.tables)
    staging.close()
    return Staged(staging.folder, landing, landing * 2**40)


def parts(*staged: Staged, proven: tuple[str, ...] = (), students_absent: tuple[int, ...] = ()) -> list[Part]:
    """The parts of a day; its last landing states some students absent."""
    last = staged[-1].landing
    absent = {"students": {last: frozenset(students_absent)}} if students_absent else {}
    return [Part(n, staged, absent.get(n, {}), proven=n in proven) for n in SETS]


def rows(con: duckdb.DuckDBPyConnection, path: Path, columns: str = "*") -> list[tuple[Any, ...]]:
    return con.execute(f"SELECT {columns} FROM read_parquet('{path}') ORDER BY ALL").fetchall()


def digests(day: Candidate) -> list[str]:
    return [files.digest(day.path(name)) for name in (*TABLES, "observed")]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "snapshots")


@pytest.fixture
def file(con: duckdb.DuckDBPyConnection, tmp_path: Path, lake: Lake) -> Path:
    """The file of the students, of a lake of one day."""
    chosen = parts(stage(tmp_path, 1, page(*students(8))), proven=("students",))
    lake.commit(compose(con, DAY, chosen, tmp_path / "day"), (1,), chosen)
    return lake.root / "students" / f"snapshot_date={DAY}" / "part-0.parquet"


def test_ids_that_two_sets_share_stay_apart(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    staged = stage(tmp_path, 1, page(*students(3)), page(school_class(3), school_class(2), set_name="classes"))
    day = compose(con, DAY, parts(staged, proven=("students", "classes")), tmp_path / "day")
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
    first = stage(tmp_path, 1, page(*students(3)))
    changed = student(1, email="new@school.example", classes=None)
    later = stage(tmp_path, 2, page(changed, student(2, name=None), student(4)))
    day = compose(con, DAY, parts(first, later, proven=("students",)), tmp_path / "day")
    assert rows(con, day.path("students"), "student_id, email") == [
        (1, "new@school.example"),
        (2, "pupil.2@school.example"),
        (3, "pupil.3@school.example"),
        (4, "pupil.4@school.example"),
    ]
    assert rows(con, day.path("student_classes"), "student_id, class_id") == [(n, 501) for n in (1, 2, 3, 4)]
    stated = [(n, "stated") for n in (1, 2, 3, 4)]
    assert rows(con, day.path("observed"), "id, state") == [*stated, (None, "proven")]


def test_a_student_stated_absent_is_out_until_a_further_landing_lists_them(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    first = stage(tmp_path, 1, page(*students(4)))
    later = stage(tmp_path, 2, page(student(1)))
    last = stage(tmp_path, 3, page(student(3, classes=None), student(4, name=None)))
    (part, *others) = parts(first, later, last, proven=("students",))
    absent = dataclasses.replace(part, absent={2: frozenset({2, 3, 4})})
    day = compose(con, DAY, [absent, *others], tmp_path / "day")
    assert rows(con, day.path("students"), "student_id") == [(1,), (3,)]
    assert rows(con, day.path("student_classes"), "student_id") == [(1,)]
    assert rows(con, day.path("observed"), "id, state") == [
        (1, "stated"),
        (2, "absent"),
        (3, "empty"),  # of its classes, which it does not state
        (3, "stated"),
        (4, "absent"),
        (None, "proven"),
    ]


def test_a_refused_value_stays_as_an_earlier_landing_stated_it(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    def entries(*titles: object) -> list[dict[str, object]]:
        return [entry(class_id=501 + n, class_title=title) for n, title in enumerate(titles)]

    def composed(*staged: Staged) -> Candidate:
        (part, *others) = parts(*staged)
        return compose(con, DAY, [dataclasses.replace(part, has_refused=True), *others], tmp_path / "day")

    first = stage(tmp_path, 1, page(student(1, reference_id="R", classes=entries("Maths", "Art")), student(2)))
    second = stage(tmp_path, 2, page(student(1, reference_id=[], email=None, classes=entries([], None))))
    third = stage(tmp_path, 3, page(student(1, reference_id=[], email=[], classes=entries("Maths", "Art")[1:])))
    day = composed(first, second, third)
    assert rows(con, day.path("students"), "student_id, reference_id, email") == [
        (1, "R", None),
        (2, "R-2", "pupil.2@school.example"),
    ]
    assert rows(con, day.path("student_classes"), "student_id, class_id, class_title") == [
        (1, 502, "Art"),
        (2, 501, "Algebra 1"),
    ]
    day = composed(first, second)
    assert rows(con, day.path("student_classes"), "student_id, class_id, class_title") == [
        (1, 501, "Maths"),
        (1, 502, None),
        (2, 501, "Algebra 1"),
    ]


def test_records_that_came_once_make_the_files_that_overlaying_makes(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    staged = stage(
        tmp_path,
        1,
        page(student(3), student(1, classes=[]), student(2, classes=MISSING), student(4, name=None)),
        page(school_class(2), set_name="classes"),
    )
    chosen = parts(staged, proven=("students",), students_absent=(7, 8))
    at_once = [dataclasses.replace(part, ids_are_unique=part.set in WALKED) for part in chosen]
    overlaid = compose(con, DAY, chosen, tmp_path / "overlaid")
    came_once = compose(con, DAY, at_once, tmp_path / "once")
    assert digests(overlaid) == digests(came_once)


def test_a_day_is_whole_only_once_all_of_it_is_there(lake: Lake, file: Path) -> None:
    ((day, record),) = lake.days().items()
    assert (day, record.landings, record.proven, record.rows["students"]) == (DAY, (1,), ("students",), 8)
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    assert lake.days() == {}
    file.write_bytes(whole)
    assert lake.days() == {DAY: record}
    file.unlink()
    assert lake.days() == {}


def test_a_file_that_cannot_be_read_names_the_command_that_helps(lake: Lake, file: Path) -> None:
    records = list(lake.days().values())
    file.write_bytes(b"no parquet at all")
    with pytest.raises(DamagedError, match=f"rollbook backfill {DAY} {DAY}"):
        lake.scan(TABLES["students"], records)


def test_a_day_changes_no_table_whose_file_repeats_the_newest_days(file: Path, lake: Lake) -> None:
    assert file.exists()
    record, next_day = lake.days()[DAY], date(2026, 11, 21)
    merged = {DAY: record.digest}

    def again(**differing: dict[str, str]) -> DayRecord:
        return msgspec.structs.replace(record, **differing)

    def left(changed: DayRecord) -> frozenset[str]:
        return frozenset(TABLES) - unchanged(lake.days(), merged, next_day, changed)

    assert left(record) == frozenset()
    assert left(again(digests=record.digests | {"students": "another"})) == {"students"}
    assert left(again(observed=record.observed | {"students": "another"})) == {t.name for t in of_set("students")}
    assert left(again(observed=record.observed | {"details": "some"})) == {"student_details"}
    assert left(again(observed={})) == frozenset(TABLES), "an erasure took the checksums along"
    assert unchanged(lake.days(), {DAY: "another"}, next_day, record) == frozenset(), "what is merged is not this file"
    assert unchanged(lake.days(), merged | {next_day: "a day"}, next_day, record) == frozenset(), "it is merged already"
    assert unchanged({}, merged, next_day, record) == frozenset(), "it has expired"
    assert unchanged(lake.days(), {}, DAY, record) == frozenset(), "it is the first"
