"""The files of dagster_home/: settings that Dagster accepts, and a way to production that changes no code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollbook.cli.app import CONFIGURATION
from rollbook.defs import ui_server
from rollbook.settings import ROOT
from tests.support.processes.commands import dagster_home
from tests.support.processes.servers import free_port, served_bare, until

HOME = ROOT / "dagster_home"
DEPLOY = HOME / "deploy"


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def run(*command: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_dagsters_own_commands_find_the_same_code_as_ours() -> None:
    code = {"module_name": "rollbook.definitions", "attribute": "defs", "location_name": ui_server.LOCATION}
    assert read(ROOT / "workspace.yaml") == {"load_from": [{"python_module": code}]}


def test_with_postgres_nothing_differs_but_the_storage() -> None:
    one_machine, postgres = read(CONFIGURATION), read(DEPLOY / "dagster.yaml")
    storage = postgres.pop("storage")
    assert postgres == one_machine
    database = storage["postgres"]["postgres_db"]
    assert database.pop("scheme") == "postgresql+psycopg2"
    compose = read(DEPLOY / "compose.yaml")["services"]["rollbook"]["environment"]
    assert {d["env"] for d in database.values()} == {n for n in compose if n.startswith("DAGSTER_PG_")}


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_compose_reads_the_file_and_wants_a_password(tmp_path: Path) -> None:
    for name in ("compose.yaml", "Dockerfile"):
        shutil.copy(DEPLOY / name, tmp_path)
    (tmp_path / "rollbook.env").write_text("ROLLBOOK_API_KEY=k\n")
    command = ["docker-compose", "--file", str(tmp_path / "compose.yaml"), "config", "--quiet"]
    bare = {k: v for k, v in os.environ.items() if k != "POSTGRES_PASSWORD"}
    without = run(*command, env=bare)
    assert (without.returncode, "put it into .env beside this file" in without.stderr) == (1, True)
    given = run(*command, env={**bare, "POSTGRES_PASSWORD": "x"})
    assert (given.returncode, given.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", ["rollbook", "rollbook-sync"])
def test_systemd_accepts_the_units_and_finds_them_hardened(tmp_path: Path, name: str) -> None:
    unit = tmp_path / f"{name}.service"
    command = tmp_path / "rollbook"
    command.write_text(f"#!{sys.executable}\n")
    command.chmod(0o755)
    text = (DEPLOY / unit.name).read_text()
    unit.write_text(text.replace("/opt/rollbook/.venv/bin/rollbook", str(command)))
    timers = [Path(shutil.copy(timer, tmp_path)) for timer in DEPLOY.glob(f"{name}.timer")]
    verified = run("systemd-analyze", "verify", *map(str, [unit, *timers]))
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = run("systemd-analyze", "security", "--offline=true", "--threshold=25", str(unit))
    assert judged.returncode == 0, judged.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_units_command_runs_with_the_units_environment_alone(tmp_path: Path) -> None:
    """The unit's environment and folders, on a port of our own: up, and down in order on SIGTERM."""
    text = (DEPLOY / "rollbook.service").read_text()
    for folder in ("dagster", "warehouse"):
        assert f"rollbook/{folder}" in text
        (tmp_path / folder).mkdir()
    environment = {
        "PATH": "/usr/bin:/bin",
        "DAGSTER_HOME": str(dagster_home(tmp_path / "dagster")),
        "ROLLBOOK_WAREHOUSE": str(tmp_path / "warehouse"),
        "ROLLBOOK_BASE_URL": "https://records.example.org",
        "ROLLBOOK_API_KEY": "k3y",
    }
    with served_bare(environment, free_port()) as served:
        assert served.ask("query { version }")["version"]
        served.stop()
        assert served.process.returncode == 0
        until(lambda: not served.family(), 120)  # the code servers notice by themselves that nobody asks any more
