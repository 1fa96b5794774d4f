"""Each feature's folder can go, with its line: what is left works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rollbook.features import FEATURES
from rollbook.settings import ROOT
from tests.support.nights import House, new_house
from tests.support.processes.commands import dagster_home
from tests.support.records import classes, students
from tests.support.tiers import daily

pytestmark = [pytest.mark.nights, pytest.mark.slow]

# One process does it all, since Python and all imports cost more than the work.
EVERYTHING = """
import sys
from rollbook.cli import app
from rollbook.errors import RollbookError
for line in sys.argv[1:]:
    try:
        app(line.split("|"))
    except SystemExit as ended:
        print(line, "->", ended.code or 0, flush=True)
    except RollbookError as error:
        print(line, "->", error.exit_code, flush=True)
from rollbook.definitions import defs
print("assets", len(list(defs.resolve_all_asset_keys())))
"""
COMMANDS = (
    "--help",
    "sync",
    "status",
    "doctor",
    "docs|--processing",
    "subject|1|--out|{out}/subject.zip",
    "erase|2|--reason|case 1|--yes",
)


# These add to the file, to its folder or to the definitions; the others read.
ADDING = ("pseudonymous", "morning", "feed", "lists", "district", "alerts")


def without(feature: str, folder: Path) -> Path:
    """A copy of the source without a feature: neither its folder nor its line."""
    source = folder / "pipelines"
    shutil.copytree(ROOT / "pipelines", source, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(source / "rollbook" / "features" / feature)
    names = source / "rollbook" / "features" / "__init__.py"
    text = names.read_text()
    assert text.count(f'    "{feature}",\n') == 1
    names.write_text(text.replace(f'    "{feature}",\n', ""))
    return source


def run(source: Path, house: House, home: Path, *lines: str) -> str:
    """What the commands print, one after the other, and how each ended."""
    env = os.environ | house.environment() | {"PYTHONPATH": str(source), "DAGSTER_HOME": str(home), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING, *lines], cwd=home, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("feature", daily(FEATURES, *ADDING))
def test_a_feature_can_go_with_its_folder_and_its_line(feature: str, tmp_path: Path) -> None:
    source, home = without(feature, tmp_path), dagster_home(tmp_path / "home")
    with new_house(students(20), classes(2)) as house:
        house.now = datetime.now(UTC)  # the commands run by this machine's clock
        lines = [line.format(out=tmp_path) for line in COMMANDS]
        shown = run(source, house, home, *lines)
        ended = [line for line in shown.splitlines() if " -> " in line]
        assert ended == [f"{line} -> 0" for line in lines], shown
        assert "assets 12" in shown
        assert house.query("SELECT COUNT(*) FROM students") == [(19,)]


def test_a_file_loses_what_a_feature_that_is_gone_had_added(tmp_path: Path) -> None:
    source, home = without("feed", tmp_path), dagster_home(tmp_path / "home")
    told = "SELECT COUNT(*) FROM duckdb_functions() WHERE function_name = 'changes_since'"
    kept = "SELECT COUNT(*) FROM duckdb_tables() WHERE schema_name = 'ops' AND table_name IN ('feed', 'publishes')"
    with new_house(students(20), classes(2)) as house:
        house.now = datetime.now(UTC)
        house.sync()
        assert (house.query(told), house.query(kept)) == ([(1,)], [(2,)])
        assert "-> 0" in run(source, house, home, "sync")
        assert (house.query(told), house.query(kept)) == ([(0,)], [(0,)])
        house.sync()
        assert house.query("SELECT change FROM changes_since(1, 1)") == [("read everything",)]


@pytest.mark.parametrize(("feature", "name"), [("morning", "report.html"), ("share", "private/shares.json")])
def test_files_of_a_feature_that_is_gone_stop_an_erasure(feature: str, name: str, tmp_path: Path) -> None:
    source, home = without(feature, tmp_path), dagster_home(tmp_path / "home")
    with new_house(students(20), classes(2)) as house:
        house.now = datetime.now(UTC)
        house.sync()
        left = house.warehouse / name
        left.touch()
        shown = run(source, house, home, "doctor", "erase|2|--reason|case 1|--yes")
        assert f"{left} are of a feature that is not installed" in shown
        assert "erase|2|--reason|case 1|--yes -> 2" in shown
        left.unlink()
        assert "-> 0" in run(source, house, home, "erase|2|--reason|case 1|--yes")
