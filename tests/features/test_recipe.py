"""The feature that CONTRIBUTING adds works as it is written there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest

from rollbook.settings import ROOT
from tests.support.nights import new_house
from tests.support.processes.commands import dagster_home
from tests.support.records import classes, students

pytestmark = [pytest.mark.nights, pytest.mark.slow]

PROGRAM = """
from rollbook.cli import app
app(["sync"], standalone_mode=False)
app(["erase", "2", "--reason", "case 1", "--yes"], standalone_mode=False)
"""


def test_a_folder_and_a_line_add_a_page(tmp_path: Path) -> None:
    source = tmp_path / "pipelines"
    shutil.copytree(ROOT / "pipelines", source, ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = text[text.index("## Add a feature") :]
    codes = re.findall(r"^   ```python\n(.*?)^   ```\n", recipe, re.DOTALL | re.MULTILINE)
    line = re.search(r'Add `("anniversaries",)` to `FEATURES`', recipe)
    assert line is not None
    features = source / "rollbook" / "features"
    (features / "anniversaries").mkdir()
    for name, code in zip(("__init__.py", "page.py"), codes, strict=True):
        (features / "anniversaries" / name).write_text(dedent(code))
    names = features / "__init__.py"
    names.write_text(names.read_text().replace("FEATURES = (\n", f"FEATURES = (\n    {line[1]}\n"))
    now = datetime.now(UTC)
    of_today = students(3)
    for number, record in enumerate(of_today):
        record["registration_date"] = (
            f"{now.year - number - 1}-{now:%m-%d}" if (now.month, now.day) != (2, 29) else "2024-02-29"
        )
    with new_house(of_today, classes(1)) as house:
        house.now = now
        env = os.environ | house.environment() | {"PYTHONPATH": str(source)}
        env["DAGSTER_HOME"] = str(dagster_home(tmp_path / "home"))
        subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, env=env, capture_output=True, check=True)
        page = (house.warehouse / "anniversaries.html").read_text()
        left = [name for (name,) in house.query("SELECT name FROM students ORDER BY student_id")]
    assert len(left) == 2
    assert [name in page for name in left] == [True, True]
    assert page.count("<li>") == 2
