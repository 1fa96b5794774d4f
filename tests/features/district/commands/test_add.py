"""`rollbook district add`: the file keeps what is in it, and is never left half or wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollbook import settings
from rollbook.cli import app
from rollbook.errors import RollbookError, SettingError

TEXT = """# The district's schools

[defaults]   # for all
timezone = "Europe/London"

[linden-vale]
base_url = "https://records.linden.example"  # since May
api_key  = { env = "LINDEN_VALE_KEY" }
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "ROOT", tmp_path)
    path = tmp_path / "institutions.toml"
    path.write_text(TEXT)
    path.chmod(0o640)
    return path


def add(name: str, url: str = "https://oak.example", **options: str) -> None:
    typed = [part for option, value in options.items() for part in (f"--{option.replace('_', '-')}", value)]
    CliRunner().invoke(app, ["district", "add", name, "--base-url", url, *typed], catch_exceptions=False)


def test_the_first_institution_makes_the_file_with_a_resolved_key_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = file.with_name("district.toml"), file.with_name('a"b')
    monkeypatch.setenv("ROLLBOOK_INSTITUTIONS", str(path))
    with pytest.raises(SettingError, match=f"^ROLLBOOK_INSTITUTIONS names {path}, which is not there: correct it, or"):
        settings.registry()
    folder.mkdir()
    monkeypatch.chdir(folder)
    add("oak", key_file="oak.key", timezone="Asia/Tokyo")
    assert path.read_text().startswith('[oak]\nbase_url = "https://oak.example"\napi_key = { file = "/')
    assert path.stat().st_mode & 0o777 == 0o600
    assert settings.load(fetches=False, institution="oak").timezone == "Asia/Tokyo"
    with pytest.raises(SettingError, match=f"is in the file {folder}/oak.key, which cannot be read"):
        settings.load(institution="oak")


def test_adding_an_institution_leaves_the_rest_and_a_link_stays(file: Path) -> None:
    elsewhere = file.with_name("shared.toml")
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    add("oak", key_env="OAK")
    assert file.read_text() == TEXT + '\n[oak]\nbase_url = "https://oak.example"\napi_key = { env = "OAK" }\n'
    assert file.is_symlink()
    assert elsewhere.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("linden-vale", {"key_env": "K"}, "already has an institution linden-vale"),
        ("district", {"key_env": "K"}, "Rollbook uses this name itself"),
        ("../oak", {"key_env": "K"}, "write lower-case letters"),
        ("oak", {}, "Say where the key is"),
        ("oak", {"key_env": "K", "url": "http://a.example"}, "base_url in .oak. of institutions.toml must begin with"),
        ("oak", {"key_env": "K", "timezone": "Mars/Base"}, "timezone in .oak. of institutions.toml is not a time zone"),
    ],
)
def test_impossible_institutions_are_refused_and_the_file_stays(
    file: Path, name: str, given: dict[str, str], says: str
) -> None:
    with pytest.raises(RollbookError, match=says):
        add(name, **given)
    assert file.read_text() == TEXT
    assert sorted(p.name for p in file.parent.iterdir() if p.is_file()) == ["institutions.toml"]
