"""Every engine gives the same rows, of odd records in random lakes, as each institution has by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest

from pipelines.errors import EngineError
from pipelines.fleet import engine as engines
from pipelines.fleet import lakes as linking
from pipelines.fleet import rollups
from pipelines.fleet.engine import Engine
from pipelines.fleet.histories import Difference, Histories
from pipelines.store.database import literal
from pipelines.store.lake import DAYS
from pipelines.tables import TABLES
from pipelines.views import fleet as views
from tests.support.lakes import NAMES, lakes
from tests.support.spark import spark_server
from tests.support.tiers import slow

pytestmark = pytest.mark.timeout(900)

SPARK = "spark"


@pytest.fixture(scope="module", params=[engines.SAIL, slow(SPARK)])
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine other than DuckDB."""
    folder = tmp_path_factory.mktemp("engine")
    with ExitStack() as stack:
        name = request.param if request.param != SPARK else stack.enter_context(spark_server(folder))
        yield stack.enter_context(engines.of(name, folder))


class Fleet:
    """Lakes, what their institutions gave, and both as an engine reads them."""

    def __init__(self, folder: Path, seed: int) -> None:
        for name in ("own", "lakes", "given"):
            (folder / name).mkdir()
        self.folder, self.computed = folder, 0
        self.lakes, self.given = folder / "lakes", folder / "given"
        self.own = lakes(folder / "own", seed, nightly=seed > 0)
        for name, made in self.own.items():
            made.give(self.given, name)
            for record in made.lake.days().values():
                assert DAYS in record.sizes
                linking.link_day(made.lake, name, record, self.lakes)

    def histories(self, engine: Engine) -> Histories:
        """Computed by an engine."""
        self.computed += 1
        found = Histories(engine, self.lakes, self.folder / f"histories-{self.computed}")
        found.compute()
        return found


@pytest.fixture(scope="module", params=[0, slow(1), slow(2)])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return Fleet(tmp_path_factory.mktemp("fleet"), request.param)


def rows(folder: Path) -> Counter[str]:
    """The rows of a folder of Parquet files, with their types."""
    with duckdb.connect() as con:
        found = con.sql(
            f"FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"
        )
        columns = sorted(found.columns)
        return Counter(map(repr, found.project(", ".join(columns)).fetchall()))


def test_the_histories_are_those_that_each_institution_has(fleet: Fleet, other: Engine, tmp_path: Path) -> None:
    with engines.of(engines.DUCKDB, tmp_path) as duck:
        for engine in (duck, other):
            assert fleet.histories(engine).compare(fleet.given, NAMES) == [], engine.name
            for name in ("spans.students", "history.students", "history.student_classes", "main.changes"):
                assert engine.count(f"SELECT * FROM {name}") > 20, "the test compares nothing"


def test_a_row_that_differs_is_found(fleet: Fleet, other: Engine, tmp_path: Path) -> None:
    """One value of one version, one row too many, and one too few: in the tables of one institution."""
    given = tmp_path / "given"
    spoil = {
        "history.students": "SELECT * REPLACE (first_name || 'x' AS first_name) FROM {} WHERE institution = 'ash'",
        "student_classes": "SELECT * FROM {0} UNION ALL (FROM {0} LIMIT 1)",
        "changes": "FROM {} OFFSET 1",
    }
    with duckdb.connect() as con:
        for table in fleet.given.iterdir():
            (given / table.name).mkdir(parents=True)
            for file in table.iterdir():
                query = spoil.get(table.name, "FROM {}") if file.stem == "ash" else "FROM {}"
                con.execute(f"COPY ({query.format(literal(file))}) TO {literal(given / table.name / file.name)}")
    found = {d.table: d for d in fleet.histories(other).compare(given, NAMES)}
    assert set(found) == set(spoil)
    assert {d.institution for d in found.values()} == {"ash"}
    assert found["history.students"].lacking == found["history.students"].surplus > 0
    assert found["student_classes"] == Difference("ash", "student_classes", lacking=0, surplus=1)
    assert found["changes"] == Difference("ash", "changes", lacking=1, surplus=0)


def test_the_rollups_are_the_same(fleet: Fleet, other: Engine, tmp_path: Path) -> None:
    with engines.of(engines.DUCKDB, tmp_path / "scratch") as duck:
        for number, engine in enumerate((duck, other)):
            rollups.compute(engine, fleet.given, tmp_path / str(number))
    for name in views.ROLLUPS:
        mine, theirs = rows(tmp_path / "0" / name), rows(tmp_path / "1" / name)
        assert mine == theirs, name
        assert mine, "the test compares nothing"


def test_a_column_that_a_file_lacks_is_null_and_a_missing_table_has_no_rows(other: Engine, tmp_path: Path) -> None:
    table = TABLES["students"]
    folder = tmp_path / "some"
    folder.mkdir()
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT 7 AS student_id, 'a' AS email) TO '{folder / 'one.parquet'}'")
    with engines.of(engines.DUCKDB, tmp_path / "scratch") as duck:
        for engine in (duck, other):
            engine.read("main.some", folder, table.columns)
            engine.read("main.none", tmp_path / "none", table.columns)
            assert engine.rows("SELECT student_id, email, last_name FROM main.some") == [(7, "a", None)]
            assert engine.count("SELECT * FROM main.none") == 0


def test_an_engine_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with (
        pytest.raises(EngineError, match="sc://127.0.0.1:1 does not answer") as caught,
        engines.of("sc://127.0.0.1:1/;token=s3cret", tmp_path),
    ):
        pass
    assert "s3cret" not in caught.value.message
