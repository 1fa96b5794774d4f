"""The Open Data Contract says what the declarations say, and the published file keeps it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollbook.errors import ArgumentError
from rollbook.settings import ROOT
from rollbook.tables import TABLES
from rollbook.views import catalog, contract
from tests.support.warehouses.school import School
from tests.support.wire import environments

PINS = Path(__file__).with_name("contract.txt")
PLACE = ROOT / ".venv-contract"


@pytest.fixture
def document() -> dict[str, Any]:
    """The contract."""
    content: dict[str, Any] = yaml.safe_load(contract.render())
    return content


def test_each_current_table_and_view_is_in_the_contract(document: dict[str, Any]) -> None:
    objects = {entry["name"]: entry for entry in document["schema"]}
    assert objects.keys() >= {*TABLES, *catalog.VIEWS}
    student, *_, registered = objects["students"]["properties"]
    assert (student["primaryKey"], student["unique"], student["required"]) == (True, True, True)
    assert (registered["name"], registered["logicalType"]) == ("is_registered", "integer")
    assert {p["name"] for p in objects["students"]["properties"] if "classification" in p} >= {"name", "email"}
    assert "completion_rate is not negative." in str(objects["student_summaries"]["quality"])
    assert "No two rows share student_id, class_id." in str(objects["student_classes"]["quality"])


def test_a_folder_is_no_place_for_a_contract(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="is a folder: name a file, such as rollbook.odcs.yaml"):
        contract.write(tmp_path)


@pytest.mark.weekly
@pytest.mark.timeout(900)
def test_the_published_file_keeps_the_contract(fortnight: School, tmp_path: Path) -> None:
    try:
        python = environments.interpreter(PINS, PLACE)
    except environments.EnvironmentFailedError as error:
        message = f"datacontract is {error}; the contract was not tested with it"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    contract.write(tmp_path / "rollbook.odcs.yaml")
    shutil.copy(fortnight.published, tmp_path / "rollbook.duckdb")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_COLOR": "1"}
    command = [str(python.with_name("datacontract")), "test", "rollbook.odcs.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Data contract is valid" in done.stdout
