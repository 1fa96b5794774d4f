"""The Parquet files open in other tools, in an environment that has nothing of Rollbook."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import duckdb
import pytest

from tests.support.warehouses.lakes import NAMES, SmallLake, lakes
from tests.support.wire import environments
from tests.support.wire.spark import PINS, PLACE, needs_java, without_spark

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Each prints, as JSON, how many rows of students each day of the lake has, and each institution of the fleet's history.
READERS = {
    "duckdb": """
import duckdb
days = duckdb.sql(f"SELECT snapshot_date::VARCHAR, COUNT(*) FROM '{lake}/students/*/*.parquet' GROUP BY ALL").fetchall()
names = duckdb.sql(f"SELECT institution, COUNT(*) FROM '{fleet}/history.students/*/*.parquet' GROUP BY ALL").fetchall()
""",
    "polars": """
import polars
count = lambda folder, column: polars.read_parquet(folder).group_by(polars.col(column).cast(str)).len().rows()
days, names = count(f"{lake}/students", "snapshot_date"), count(f"{fleet}/history.students", "institution")
""",
    "pandas": """
import pandas
days = pandas.read_parquet(f"{lake}/students").groupby("snapshot_date", observed=True).size().items()
days = [(str(day), int(count)) for day, count in days]
names = pandas.read_parquet(f"{fleet}/history.students", partitioning=None).groupby("institution").size().items()
names = [(name, int(count)) for name, count in names]
""",
    "spark": """
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false").getOrCreate()
)
count = lambda folder, column: [tuple(row) for row in spark.read.parquet(folder).groupBy(column).count().collect()]
days, names = count(f"{lake}/students", "snapshot_date"), count(f"{fleet}/history.students", "institution")
""",
}
BEGIN = "import sys, json\nlake, fleet = sys.argv[1:]\n"
END = "print(json.dumps([sorted(days), sorted(names)]))\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, SmallLake], Path]:
    """Three lakes, and what their institutions give their fleet, in the folders of a warehouse."""
    folder = tmp_path_factory.mktemp("warehouse")
    (folder / "given").mkdir()
    found = lakes(folder, seed=3, nightly=False)
    for name, lake in found.items():
        lake.give(folder / "given", name)
    for file in (folder / "given").glob("*/*.parquet"):
        target = folder / "fleet" / file.parent.name / f"institution={file.stem}" / "1a2b.parquet"
        target.parent.mkdir(parents=True)
        file.rename(target)
    return found, folder


@pytest.mark.parametrize("reader", READERS)
def test_another_tool_reads_the_lake_and_what_institutions_give(
    made: tuple[dict[str, SmallLake], Path], reader: str, tmp_path: Path
) -> None:
    found, folder = made
    if reader == "spark":
        needs_java()
    python = environments.interpreter(PINS, PLACE)
    lake = found["ash"].lake
    done = subprocess.run(
        [str(python), "-I", "-W", "ignore", "-c", BEGIN + READERS[reader] + END, str(lake.root), str(folder / "fleet")],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300, env=without_spark(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    days, names = json.loads(done.stdout.splitlines()[-1])
    assert days == sorted(
        [str(day), record.rows["students"]] for day, record in lake.days().items() if record.rows["students"]
    )
    assert names == sorted([name, _count(found[name].con)] for name in NAMES)


def _count(con: duckdb.DuckDBPyConnection) -> int:
    (row,) = con.execute("SELECT COUNT(*) FROM history.students").fetchall()
    return int(row[0])
