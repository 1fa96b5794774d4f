"""`rollbook district` as it is typed; and that no other command runs without an institution where there are many."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollbook import settings
from rollbook.cli import app
from rollbook.errors import ArgumentError, SettingError
from tests.support.processes.commands import dagster_home, run_command
from tests.support.records import students
from tests.support.warehouses.district import District, new_district

pytestmark = pytest.mark.timeout(400)

# With what a person would type; each is about one institution's warehouse.
SINGLE = (
    "sync",
    "held",
    "backfill 2026-11-20 2026-11-21",
    "rebuild",
    "discard 2026-11-20 --reason x",
    "sql SELECT",
    "export students",
    "pages",
    "why students 7",
    "status",
    "doctor",
    "prune",
    "restore {tmp}/x.duckdb",
    "erase 7",
    "docs --processing",
    "subject 7 --out {tmp}/x.zip",
    "access",
    "codes find 1",
    "mirror status",
    "notify",
    "explore",
    "readers",
    "share list",
    "thresholds",
)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "ROOT", tmp_path)
    path = tmp_path / "institutions.toml"
    path.write_text('[ash]\nbase_url = "https://a.example"\n[birch]\nbase_url = "https://b.example"\n')
    return path


@pytest.mark.parametrize("typed", SINGLE)
def test_a_command_about_one_institution_asks_which(registry: Path, tmp_path: Path, typed: str) -> None:
    ran = CliRunner().invoke(app, typed.replace("{tmp}", str(tmp_path)).split())
    assert isinstance(ran.exception, SettingError), (ran.output, ran.exception)
    assert ran.exception.exit_code == 2
    assert ran.exception.message == "Say which institution: rollbook --institution NAME ..., one of ash, birch"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["institutions.toml"]


def test_every_command_about_one_institution_is_tried_above() -> None:
    every = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    every = {name.replace("_", "-") for name in every} | {group.name for group in app.registered_groups if group.name}
    assert every - {"demo", "sandbox", "serve", "open", "district", "init"} == {typed.split()[0] for typed in SINGLE}


@pytest.mark.parametrize("typed", ["--version", "--help", "demo --help", "sandbox --help", "district --help"])
def test_commands_about_no_institution_run_without_a_name(registry: Path, typed: str) -> None:
    assert CliRunner().invoke(app, typed.split()).exit_code == 0


@pytest.mark.parametrize("typed", ["", " , "])
def test_the_option_only_must_name_somebody(registry: Path, typed: str) -> None:
    result = CliRunner().invoke(app, ["district", "status", "--only", typed])
    assert isinstance(result.exception, ArgumentError)
    assert str(result.exception).startswith("--only is empty")


@pytest.mark.usefixtures("registry")
def test_an_institutions_status_names_the_commands_with_the_institution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.INSTITUTION, "ash")
    result = CliRunner().invoke(app, ["status"])
    assert "none yet: run `rollbook --institution ash sync`" in result.output


def test_a_day_that_has_not_begun_is_refused_once_for_all(registry: Path) -> None:
    result = CliRunner().invoke(app, ["district", "sync", "--date", "2999-01-01"])
    assert str(result.exception) == "2999-01-01 has not begun anywhere: leave out --date to sync today"
    assert not (registry.parent / "warehouse").exists()


def test_a_paused_institution_is_shown_with_the_reason_until_it_is_resumed(registry: Path) -> None:
    def run(*typed: str) -> str:
        result = CliRunner().invoke(app, ["district", *typed])
        return f"{result.output}{result.exception or ''}"

    assert "Say why: add --reason" in run("pause", "ash", "--reason", " ")
    assert "did you mean birch?" in run("pause", "birh", "--reason", "x")
    assert "To go on: rollbook district resume ash" in run("pause", "ash", "--reason", "key being\nrenewed")
    assert "paused  ash    key being renewed" in run("status")
    assert "Resumed ash." in run("resume", "ash")
    assert "ash was not paused." in run("resume", "ash")


@pytest.mark.parametrize("command", ["sync", "build"])
def test_without_a_registry_a_district_command_says_how_to_make_one(tmp_path: Path, command: str) -> None:
    env = {"DAGSTER_HOME": str(dagster_home(tmp_path / "home")), "ROLLBOOK_WAREHOUSE": str(tmp_path / "warehouse")}
    done = run_command("district", command, env=env, cwd=tmp_path)
    assert done.returncode == 2
    assert "There is no institutions.toml" in done.stderr
    assert "`rollbook district add --help` says how to make it" in done.stderr
    assert not (tmp_path / "warehouse").exists()


def test_a_single_school_loads_nothing_of_the_district() -> None:
    code = (
        "import sys, rollbook.cli, rollbook.night, rollbook.settings as s; s.load(fetches=False);"
        "of = [m for m in sys.modules if m.startswith(('rollbook.features.district.', 'multiprocessing.fork'))];"
        "print([m for m in of if not m.endswith(('.commands', '.settings'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "ROLLBOOK_DEMO": ""},
    )
    assert done.stdout.strip() == "[]"


def test_an_empty_registry_is_a_district_of_none(registry: Path) -> None:
    registry.write_text("# none yet\n")
    with pytest.raises(SettingError, match="lists no institution yet: see `rollbook district add --help`"):
        settings.load(fetches=False)
    for typed in ("district sync", "district status", "district check"):
        ran = CliRunner().invoke(app, typed.split())
        assert ran.exit_code == 0, (typed, ran.output, ran.exception)


@pytest.fixture(scope="module")
def unsynced_district() -> Iterator[District]:
    with new_district(["ash", "birch"], "cedar") as district:
        yield district


@pytest.mark.slow
def test_a_night_from_the_command_line(unsynced_district: District) -> None:
    """All synced; then one held and none failed; then one failed as well."""

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        done = run_command("district", *arguments, env=unsynced_district.environment() | more)
        assert not [
            key for s in unsynced_district.schools.values() for key in (s.key,) if key in done.stdout + done.stderr
        ]
        return done

    unsynced_district["birch"].students = students(60)
    first = run("sync", ROLLBOOK_KEEPDAYS="9")
    says = "Warning: ROLLBOOK_KEEPDAYS is not a setting: did you mean ROLLBOOK_KEEP_DAYS?\n"
    assert (first.returncode, first.stderr) == (0, says)
    assert re.search(
        r"^synced  birch  \d{4}-\d\d-\d\d: 60 students, 1 classes, in [\d.]+ s$", first.stdout, re.MULTILINE
    )
    assert "3 synced of 3 institutions." in first.stdout
    content = json.loads(run("status", "--json").stdout)["institutions"]
    assert [i["last"]["requests"] for i in content] == [3, 3, 3]
    unsynced_district["birch"].students = students(20)
    held = run("sync", "--fresh")
    assert held.returncode == 3
    assert re.search(r"^held    birch  40 of 60 students", held.stdout, re.MULTILINE)
    assert "2 synced, 1 held of 3 institutions" in held.stdout
    del unsynced_district.hosts[1].schools[unsynced_district["cedar"].key]
    failed = run("sync", "--fresh", "--only", "birch,cedar")
    assert failed.returncode == 1
    assert "1 held, 1 failed of 2 institutions" in failed.stdout
    content = json.loads(run("status", "--json").stdout)
    assert content["counts"] == {"synced": 1, "held": 1, "failed": 1}
    assert [i["institution"] for i in content["institutions"]] == ["ash", "birch", "cedar"]
    checked = run("check")
    assert checked.returncode == 1
    assert "cedar, service: The records service at" in checked.stdout
    unknown = run("sync", "--only", "ashe")
    assert unknown.returncode == 2
    assert "did you mean ash?" in unknown.stderr
