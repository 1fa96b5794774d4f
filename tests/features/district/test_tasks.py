"""One institution is one task: on Sail, and on real Spark with two workers, as on one machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollbook.errors import EngineError
from rollbook.features.district import build as building
from rollbook.features.district import tasks, views
from rollbook.features.district.settings import DUCKDB, SAIL, engine_name
from tests.support.reading import rows
from tests.support.tiers import weekly
from tests.support.warehouses.district import District
from tests.support.warehouses.scripted import NIGHTS, ODD, SYNCED, scripted_district
from tests.support.wire.spark import spark_server

pytestmark = [pytest.mark.timeout(900), pytest.mark.nights]

SPARK = "spark"


@pytest.fixture(scope="module")
def odd_district() -> Iterator[District]:
    """Three institutions with odd nights; `yew` never synced."""
    with scripted_district(NIGHTS, ODD) as district:
        yield district


@pytest.fixture(scope="module", params=[SAIL, weekly(SPARK)])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param != SPARK:
        yield request.param
        return
    with spark_server(tmp_path_factory.mktemp("spark")) as address:
        yield address


def contents(file: Path) -> dict[str, Counter[str]]:
    """The rows of a district's file, but for when it was made."""
    tables = [*(f"{r.schema}.{r.name}" for r in views.tables()), *(f"main.{v.name}" for v in views.views())]
    tables += [f"main.{name}" for name in (*views.ROLLUPS, "institutions")]
    return {table: Counter(map(repr, rows(file, f"FROM {table}"))) for table in tables}


def test_a_districts_file_is_the_same(odd_district: District, engine: str) -> None:
    built = odd_district.build()
    here = contents(odd_district.warehouse / "district.duckdb")
    assert sum(map(len, here.values())) > 1000, "the test compares nothing"
    by_tasks = building.build(odd_district.warehouse / "district", odd_district.known, engine=engine)
    assert (by_tasks.institutions, by_tasks.students, by_tasks.left_out) == (3, built.students, {})
    assert contents(odd_district.warehouse / "district.duckdb") == here
    assert odd_district.left_by_builds() == [], "pupils' records are left"


def test_the_histories_are_those_that_each_institution_has(odd_district: District, engine: str) -> None:
    compared, *others = building.compare_histories(odd_district.warehouse / "district", odd_district.known, engine)
    assert (set(compared), others) == (set(SYNCED), [[], {}])


def test_a_task_is_told_no_secret(odd_district: District) -> None:
    text = tasks.given(odd_district.house(SYNCED[0]).settings(notify="json://127.0.0.1/s3cret"))
    assert "s3cret" not in text
    assert odd_district.house(SYNCED[0]).settings().api_key.get_secret_value() not in text


@pytest.mark.parametrize("name", ["spark", "sc://", "sc://host:99999", "sc://[", "sc://ho\x1bst", ""])
def test_a_name_that_is_not_an_engines_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be duckdb, sail, or the address"):
        engine_name(name)


def test_an_engine_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(EngineError, match="sc://127.0.0.1:1 does not answer") as caught:
        [*tasks.run("sc://127.0.0.1:1/;token=s3cret", tasks.rebuild, {"ash": "{}"})]
    assert "s3cret" not in caught.value.message


def test_here_the_work_is_done_in_the_order_that_was_asked() -> None:
    assert [*tasks.run(DUCKDB, str.upper, {"b": "x", "a": "y"})] == [("b", "X"), ("a", "Y")]
