"""`rollbook init`: what it writes, for whom, and what it leaves alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from dotenv import dotenv_values
from typer.testing import CliRunner

from rollbook import settings
from rollbook.cli import app
from rollbook.errors import ArgumentError, SettingError

KEY = "k'1\"#$x${HOME}{y}\\"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "ROOT", tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster_home"))
    return tmp_path


def test_it_writes_the_address_and_the_key_for_the_owner_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = CliRunner().invoke(app, ["init", "--base-url", "https://records.example"], input=f"{KEY}\n")
    assert ran.exit_code == 0, ran.exception
    assert dotenv_values(root / ".env", interpolate=False) == {
        "ROLLBOOK_BASE_URL": "https://records.example",
        "ROLLBOOK_API_KEY_FILE": ".api-key",
    }
    assert {stat.S_IMODE((root / name).stat().st_mode) for name in (".env", ".api-key")} == {0o600}
    monkeypatch.setattr(settings, "DOTENV", str(root / ".env"))
    assert settings.load().api_key.get_secret_value() == KEY
    assert (root / "dagster_home" / "dagster.yaml").is_file()
    assert KEY not in ran.output
    again = CliRunner().invoke(app, ["init", "--base-url", "https://other.example"], input="other\n")
    assert isinstance(again.exception, ArgumentError)
    assert "other" not in (root / ".env").read_text() + (root / ".api-key").read_text()


@pytest.mark.parametrize(("address", "key"), [("ftp://records.example", KEY), ("https://records.example", "")])
def test_what_could_not_work_is_refused_and_nothing_is_written(root: Path, address: str, key: str) -> None:
    ran = CliRunner().invoke(app, ["init", "--base-url", address], input=f"{key}\n")
    assert isinstance(ran.exception, SettingError), ran.output
    assert list(root.iterdir()) == []
