"""Every engine gives the same rows, of odd records in random lakes, as each institution has by itself."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event, Thread

import duckdb
import pytest

from rollbook.errors import EngineError
from rollbook.fleet import engine as engines
from rollbook.fleet.build import Difference, Histories, compute_rollups
from rollbook.fleet.engine import Engine
from rollbook.settings import DUCKDB, SAIL, engine_name
from rollbook.store.database import literal
from rollbook.tables import TABLES
from rollbook.views import fleet as views
from tests.support.tiers import slow
from tests.support.warehouses.lakes import NAMES, lakes
from tests.support.wire.spark import spark_server

pytestmark = pytest.mark.timeout(900)

SPARK = "spark"
# An engine other than DuckDB, and a seed of the lakes.
CASES = [(SAIL, 0), slow((SAIL, 1)), slow((SAIL, 2)), slow((SPARK, 0))]


@dataclass
class Case:
    """Linked lakes, and what their institutions gave, as an engine reads them."""

    engine: Engine
    folder: Path

    def __post_init__(self) -> None:
        self.given = self.folder / "given"

    @cached_property
    def histories(self) -> Histories:
        """Computed by the engine."""
        found = Histories(self.engine, self.folder)
        found.compute()
        return found


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    name, seed = request.param
    folder = tmp_path_factory.mktemp("engine")
    with ExitStack() as stack:
        address = name if name != SPARK else stack.enter_context(spark_server(folder))
        found = Case(stack.enter_context(engines.of(address, folder)), folder)
        (folder / "own").mkdir()
        links = Histories(found.engine, folder)
        for name, made in lakes(folder / "own", seed, nightly=seed > 0).items():
            made.give(found.given, name)
            links.link_days(made.lake, name, made.lake.days())
        assert set(links.days) == set(NAMES)
        yield found


def rows(folder: Path) -> Counter[str]:
    """The rows of a folder of Parquet files, with their types."""
    with duckdb.connect() as con:
        found = con.sql(
            f"FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
        )
        columns = sorted(found.columns)
        return Counter(map(repr, found.project(", ".join(columns)).fetchall()))


def test_the_histories_are_those_that_each_institution_has(case: Case, tmp_path: Path) -> None:
    with engines.of(DUCKDB, tmp_path) as duck:
        for each in (Case(duck, case.folder), case):
            assert each.histories.compare(case.given, NAMES) == [], each.engine.name
            for name in ("spans.students", "history.students", "history.student_classes", "main.changes"):
                assert len(each.engine.rows(f"SELECT * FROM {name}")) > 20, "the test compares nothing"


def test_a_row_that_differs_is_found(case: Case, tmp_path: Path) -> None:
    """One value of one version, one row too many, and one too few: in the tables of one institution."""
    given = tmp_path / "given"
    spoil = {
        "history.students": "SELECT * REPLACE (first_name || 'x' AS first_name) FROM {} WHERE institution = 'ash'",
        "main.student_classes": "SELECT * FROM {0} UNION ALL (FROM {0} LIMIT 1)",
        "main.changes": "FROM {} OFFSET 1",
    }
    with duckdb.connect() as con:
        for table in case.given.iterdir():
            (given / table.name).mkdir(parents=True)
            for file in table.iterdir():
                query = spoil.get(table.name, "FROM {}") if file.stem == "ash" else "FROM {}"
                con.execute(f"COPY ({query.format(literal(file))}) TO {literal(given / table.name / file.name)}")
    found = {d.table: d for d in case.histories.compare(given, NAMES)}
    assert set(found) == {table.removeprefix("main.") for table in spoil}
    assert {d.institution for d in found.values()} == {"ash"}
    assert found["history.students"].lacking == found["history.students"].surplus > 0
    assert found["student_classes"] == Difference("ash", "student_classes", lacking=0, surplus=1)
    assert found["changes"] == Difference("ash", "changes", lacking=1, surplus=0)


def test_the_rollups_are_the_same(case: Case, tmp_path: Path) -> None:
    with engines.of(DUCKDB, tmp_path / "scratch") as duck:
        for number, engine in enumerate((duck, case.engine)):
            compute_rollups(engine, case.given, tmp_path / str(number))
    for name in views.ROLLUPS:
        mine, theirs = rows(tmp_path / "0" / name), rows(tmp_path / "1" / name)
        assert mine == theirs, name
        assert mine, "the test compares nothing"


def test_a_column_that_a_file_lacks_is_null_and_a_missing_table_has_no_rows(case: Case, tmp_path: Path) -> None:
    table = TABLES["students"]
    folder = tmp_path / "some"
    folder.mkdir()
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT 7 AS student_id, 'a' AS email) TO '{folder / 'one.parquet'}'")
    with engines.of(DUCKDB, tmp_path / "scratch") as duck:
        for engine in (duck, case.engine):
            engine.read("main.some", folder, table.columns)
            engine.read("main.none", tmp_path / "none", table.columns)
            assert engine.rows("SELECT student_id, email, last_name FROM main.some") == [(7, "a", None)]
            assert engine.rows("SELECT * FROM main.none") == []


@pytest.mark.parametrize("name", ["spark", "sc://", "sc://host:99999", "sc://[", "sc://ho\x1bst", ""])
def test_a_name_that_is_not_an_engines_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be duckdb, sail, or the address"):
        engine_name(name)


def test_what_does_not_fit_into_memory_goes_to_the_folder_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to the machine's folder for temporary files, and nothing of it is left."""
    monkeypatch.setenv("SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE", "60000000")
    monkeypatch.delenv("SAIL_RUNTIME__TEMPORARY_FILES__PATHS", raising=False)  # of the other tests' session
    scratch, seen, ended = tmp_path / "scratch", set[Path](), Event()
    scratch.mkdir()

    def watch() -> None:
        while not ended.wait(0.005):
            with suppress(FileNotFoundError):  # it removes what it no longer needs
                seen.update(scratch.rglob("*"))

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        with engines.of(SAIL, scratch) as engine:
            wide = "SELECT id, CAST(id AS STRING) || REPEAT('x', 32) AS text FROM RANGE(1500000)"
            engine.write(f"{wide} ORDER BY xxhash64(id)", tmp_path / "sorted")
    finally:
        ended.set()
        watching.join()
    assert len(seen) > 1, "nothing was written there"
    assert list(scratch.iterdir()) == []
    assert "SAIL_RUNTIME__TEMPORARY_FILES__PATHS" not in os.environ


def test_an_engine_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with (
        pytest.raises(EngineError, match="sc://127.0.0.1:1 does not answer") as caught,
        engines.of("sc://127.0.0.1:1/;token=s3cret", tmp_path),
    ):
        pass
    assert "s3cret" not in caught.value.message
