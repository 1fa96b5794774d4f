"""The files of dagster_home/: settings that Dagster accepts, and a way to production that changes no code."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from dotenv import dotenv_values

from rollbook import settings
from rollbook.defs import ui_server
from rollbook.settings import ROOT
from rollbook.terminal import CONFIGURATION, made_home
from tests.support.processes.commands import dagster_home
from tests.support.processes.servers import free_port, served_bare, until

pytestmark = pytest.mark.nights

HOME = ROOT / "dagster_home"
DEPLOY = HOME / "deploy"
POSTGRES = next((str(p) for p in sorted(Path("/usr/lib/postgresql").glob("*/bin"))), None)


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
    assert storage == {"postgres": {"postgres_url": {"env": "DAGSTER_PG_URL"}}}


def test_no_container_and_no_unit_has_a_secret_in_its_environment() -> None:
    services = read(DEPLOY / "compose.yaml")["services"]
    given = {name: value for service in services.values() for name, value in service["environment"].items()}
    units = [(DEPLOY / name).read_text() for name in ("rollbook.service", "rollbook-sync.service")]
    for line in "".join(units).splitlines():
        if line.startswith("Environment="):
            name, _, value = line.removeprefix("Environment=").partition("=")
            given[name] = value
    example = dotenv_values(ROOT / ".env.example")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings.os, "environ", given | example)  # type: ignore[attr-defined]
        assert settings.secrets_in_environment() == {}
    assert example["ROLLBOOK_API_KEY_FILE"]
    assert services["rollbook"]["secrets"] == ["api_key"]
    assert given["ROLLBOOK_API_KEY_FILE"] == "%d/api_key"
    assert all("LoadCredential=api_key:" in unit for unit in units)


@pytest.mark.skipif(POSTGRES is None or os.geteuid() != 0, reason="PostgreSQL is not installed, or cannot be started")
def test_dagsters_storage_takes_the_password_from_pgpassfile_or_needs_none(tmp_path: Path) -> None:
    """As compose has it, by the socket alone, and with a server of one's own."""
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # PostgreSQL refuses to run as root, and an account's folder is closed
        os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
        (password := Path(folder, "password")).write_text("pa:ss\n")
        port = free_port()

        def of_postgres(program: str, *arguments: str) -> None:
            command = [f"{POSTGRES}/{program}", "-D", "data", *arguments]
            subprocess.run(command, user="postgres", cwd=folder, check=True, capture_output=True, timeout=100)

        made = ("-U", "dagster", "--pwfile", str(password), "--auth-host=scram-sha-256", "--auth-local=trust")
        of_postgres("initdb", *made)
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder}"
        of_postgres("pg_ctl", "-w", "-l", "log", "-o", options, "start")
        try:
            password.write_text(f"127.0.0.1:{port}:postgres:dagster:pa\\:ss\n")
            password.chmod(0o600)
            home = tmp_path / "home"
            home.mkdir()
            shutil.copy(DEPLOY / "dagster.yaml", home)
            opens = "import dagster as dg\nwith dg.DagsterInstance.get() as instance: print(instance.get_runs_count())"
            for url, more in (
                (f"postgresql+psycopg2://dagster@/postgres?host={folder}&port={port}", {}),
                (f"postgresql+psycopg2://dagster@127.0.0.1:{port}/postgres", {"PGPASSFILE": str(password)}),
            ):
                env = {**os.environ, "DAGSTER_HOME": str(home), "DAGSTER_PG_URL": url, **more}
                done = run(sys.executable, "-c", opens, env=env)
                assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
        finally:
            of_postgres("pg_ctl", "-m", "immediate", "stop")


def test_an_edited_dagster_yaml_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    path = tmp_path / "dagster.yaml"
    path.write_text("telemetry: {}\n")
    made_home()
    assert path.read_text() == "telemetry: {}\n"
    path.unlink()
    made_home()
    assert path.read_text() == CONFIGURATION.read_text()


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_compose_reads_the_file(tmp_path: Path) -> None:
    for name in ("compose.yaml", "Dockerfile"):
        shutil.copy(DEPLOY / name, tmp_path)
    (tmp_path / "rollbook.env").write_text("ROLLBOOK_BASE_URL=https://records.example.org\n")
    given = run("docker-compose", "--file", str(tmp_path / "compose.yaml"), "config", "--quiet")
    assert (given.returncode, given.stderr) == (0, "")


def test_the_sign_ins_file_is_one_that_oauth2_proxy_reads() -> None:
    configured = tomllib.loads((DEPLOY / "oauth2-proxy.cfg").read_text())
    assert configured["upstreams"] == ["static://202"]
    assert [name for name in configured if name.endswith("secret")] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", ["rollbook", "rollbook-sync", "rollbook-explore"])
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
