"""The Parquet files open in other tools, in an environment that has nothing of Rollbook."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from rollbook.settings import ROOT
from rollbook.store.lake import Lake
from tests.support.warehouses.lakes import lakes
from tests.support.wire import environments
from tests.support.wire.spark import PINS, PLACE, needs_java, without_spark

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(600)]

# Each prints, as JSON, how many rows of students each day of the lake has.
READERS = {
    "duckdb": """
import duckdb
days = duckdb.sql(f"SELECT snapshot_date::VARCHAR, COUNT(*) FROM '{lake}/students/*/*.parquet' GROUP BY ALL").fetchall()
""",
    "polars": """
import polars
days = polars.read_parquet(f"{lake}/students").group_by(polars.col("snapshot_date").cast(str)).len().rows()
""",
    "pandas": """
import pandas
days = pandas.read_parquet(f"{lake}/students").groupby("snapshot_date", observed=True).size().items()
days = [(str(day), int(count)) for day, count in days]
""",
    "spark": """
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
days = [(str(day), n) for day, n in spark.read.parquet(f"{lake}/students").groupBy("snapshot_date").count().collect()]
""",
}
BEGIN = "import sys, json\nlake = sys.argv[1]\n"
END = "print(json.dumps(sorted(days)))\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lakes(tmp_path_factory.mktemp("warehouse"), seed=3, nightly=False)["ash"].lake


def run(code: str, folder: Path, *arguments: str) -> str:
    """What the other environment prints for some lines of Python."""
    command = [str(environments.interpreter(PINS, PLACE)), "-I", "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, timeout=300, env=without_spark()
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("reader", READERS)
def test_another_tool_reads_the_lake(made: Lake, reader: str, tmp_path: Path) -> None:
    if reader == "spark":
        needs_java()
    said = run(BEGIN + READERS[reader] + END, tmp_path, str(made.root))
    expected = [[str(day), record.rows["students"]] for day, record in made.days().items() if record.rows["students"]]
    assert json.loads(said.splitlines()[-1]) == sorted(expected)


def test_the_lines_of_the_dictionary_run(made: Lake, tmp_path: Path) -> None:
    needs_java()
    _, _, chapter = (ROOT / "warehouse" / "README.md").read_text("utf-8").partition("## Read the Parquet files")
    blocks = re.findall(r"```python\n(.*?)```", chapter, re.DOTALL)
    assert len(blocks) == 2
    for code in blocks:
        run(code.replace("/srv/rollbook/warehouse/snapshots", str(made.root)), tmp_path)
