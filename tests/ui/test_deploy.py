"""What is in dagster_home/: settings that Dagster accepts, and a way to production that changes no code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.instance.config import PoolGranularity
from dagster._core.scheduler.instigation import TickStatus

from pipelines.settings import ROOT
from tests.support.processes.commands import dagster_home
from tests.support.processes.servers import free_port, served_bare, until

HOME = ROOT / "dagster_home"
DEPLOY = HOME / "deploy"


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def run(*command: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_dagster_accepts_the_settings_and_goes_by_them(tmp_path: Path) -> None:
    dagster_home(tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_max_runtime_seconds == 6 * 3600
        assert instance.run_retries_enabled
        assert not instance.run_retries_retry_on_asset_or_op_failure
        queue = instance.get_concurrency_config()
        assert queue.run_queue_config is not None
        assert queue.run_queue_config.max_concurrent_runs == 1
        assert queue.pool_config.default_pool_limit == 1
        assert queue.pool_config.pool_granularity is PoolGranularity.RUN
        assert instance.managed_python_loggers == ["pipelines"]
        assert instance.get_tick_retention_settings(InstigatorType.SENSOR)[TickStatus.SKIPPED] == 2


def test_every_setting_is_explained() -> None:
    """Each block has a comment right above it or right inside."""
    lines = (HOME / "dagster.yaml").read_text().splitlines()
    for number, line in enumerate(lines):
        if line and not line.startswith((" ", "#")):
            assert lines[number - 1].startswith("#") or lines[number + 1].lstrip().startswith("#"), line


def test_with_postgres_nothing_differs_but_the_storage() -> None:
    one_machine, postgres = read(HOME / "dagster.yaml"), read(DEPLOY / "dagster.yaml")
    storage = postgres.pop("storage")
    assert postgres == one_machine
    database = storage["postgres"]["postgres_db"]
    assert database.pop("scheme") == "postgresql+psycopg2"
    compose = read(DEPLOY / "compose.yaml")["services"]["rollbook"]["environment"]
    assert {d["env"] for d in database.values()} == {n for n in compose if n.startswith("DAGSTER_PG_")}


def test_the_postgres_extra_is_pinned_and_goes_with_this_dagster() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = dict(line.split(" ;")[0].split("==") for line in lines if line)
    assert [r.strip() for r in project["optional-dependencies"]["postgres"]] == [
        f"dagster-postgres=={pinned['dagster-postgres']}"
    ]
    # Dagster's integrations are numbered 16 behind it: 1.13.27 and 0.29.27.
    _, minor, patch = pinned["dagster"].split(".")
    assert pinned["dagster-postgres"] == f"0.{int(minor) + 16}.{patch}"
    assert "psycopg2-binary" in pinned


def test_the_container_runs_the_command_over_folders_it_owns() -> None:
    compose, image = read(DEPLOY / "compose.yaml"), (DEPLOY / "Dockerfile").read_text()
    rollbook = compose["services"]["rollbook"]
    assert rollbook["ports"] == ["127.0.0.1:3000:3000"]
    assert "ports" not in compose["services"]["postgres"]
    assert rollbook["command"][:2] == ["rollbook", "serve"]
    assert rollbook["hostname"] == "rollbook"  # what a killed run is recognised by
    for volume in rollbook["volumes"]:
        name, _, path = volume.partition(":")
        assert name in compose["volumes"]
        assert path in image
    copied = [line.split()[1:-1] for line in image.splitlines() if line.startswith("COPY")]
    for source in (s for sources in copied for s in sources):
        assert (ROOT / source).exists(), source
        assert f"!{source.removeprefix('./')}" in (DEPLOY / "Dockerfile.dockerignore").read_text(), source


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_compose_reads_the_file_and_wants_a_password(tmp_path: Path) -> None:
    for name in ("compose.yaml", "Dockerfile"):
        shutil.copy(DEPLOY / name, tmp_path)
    (tmp_path / "rollbook.env").write_text("ROLLBOOK_API_KEY=k\n")
    asked = ["docker-compose", "--file", str(tmp_path / "compose.yaml"), "config", "--quiet"]
    bare = {k: v for k, v in os.environ.items() if k != "POSTGRES_PASSWORD"}
    without = run(*asked, env=bare)
    assert (without.returncode, "put it into .env beside this file" in without.stderr) == (1, True)
    given = run(*asked, env={**bare, "POSTGRES_PASSWORD": "x"})
    assert (given.returncode, given.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit_and_finds_it_hardened(tmp_path: Path) -> None:
    unit = tmp_path / "rollbook.service"
    command = tmp_path / "rollbook"
    command.write_text(f"#!{sys.executable}\n")
    command.chmod(0o755)
    text = (DEPLOY / "rollbook.service").read_text()
    unit.write_text(text.replace("/opt/rollbook/.venv/bin/rollbook", str(command)))
    verified = run("systemd-analyze", "verify", str(unit))
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = run("systemd-analyze", "security", "--offline=true", "--threshold=25", str(unit))
    assert judged.returncode == 0, judged.stdout


def test_the_unit_holds_no_secret_and_says_where_they_are() -> None:
    text = (DEPLOY / "rollbook.service").read_text()
    assert "EnvironmentFile=/etc/rollbook.env" in text
    assert "API_KEY=" not in text
    assert "Restart=on-failure" in text


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_units_command_runs_with_what_the_unit_gives_it_and_nothing_else(tmp_path: Path) -> None:
    """Its environment and its folders, on a port of our own: up, and down in order on SIGTERM."""
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
