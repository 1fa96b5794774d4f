"""Rollbook's command in a process of its own, and the Dagster home that it works in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pipelines.settings import ROOT

COMMAND = (str(Path(sys.executable).with_name("rollbook")),)

# The settings of a service that nobody runs.
UNREACHABLE = {"ROLLBOOK_BASE_URL": "http://127.0.0.1:9", "ROLLBOOK_API_KEY": "k", "ROLLBOOK_RETRY_SECONDS": "0"}


def run_command(
    *arguments: str, env: Mapping[str, str], cwd: Path = ROOT, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, with these variables on top of this process's own."""
    command, env = [*COMMAND, *arguments], {**os.environ, "COLUMNS": "200", **env}
    return subprocess.run(
        command, cwd=cwd, env=env, input=stdin, capture_output=True, text=True, timeout=200, check=False
    )


def dagster_home(home: Path) -> Path:
    """A folder for DAGSTER_HOME, with the project's dagster.yaml."""
    home.mkdir(exist_ok=True)
    shutil.copyfile(ROOT / "dagster_home" / "dagster.yaml", home / "dagster.yaml")
    return home
