"""Adding an institution: the file keeps what is in it, and is never left half or wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import settings
from pipelines.errors import RollbookError
from pipelines.fleet import edit

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


def test_the_first_one_makes_the_file_that_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file.with_name("district.toml")
    monkeypatch.setenv("ROLLBOOK_INSTITUTIONS", str(path))
    with pytest.raises(RollbookError, match=f"^ROLLBOOK_INSTITUTIONS names {path}, which is not there: correct it, or"):
        settings.registry()
    values = {"base_url": "https://oak.example", "api_key": {"file": 'a"b.key'}, "timezone": "Asia/Tokyo"}
    assert edit.add("oak", values) == path
    assert path.read_text() == (
        '[oak]\nbase_url = "https://oak.example"\napi_key = { file = "a\\"b.key" }\ntimezone = "Asia/Tokyo"\n'
    )
    assert path.stat().st_mode & 0o777 == 0o600
    assert settings.load(fetches=False, institution="oak").timezone == "Asia/Tokyo"


def test_another_one_leaves_the_rest_as_it_is_and_a_link_stays_one(file: Path) -> None:
    elsewhere = file.with_name("shared.toml")
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    edit.add("oak", {"base_url": "https://oak.example", "api_key": {"env": "OAK"}})
    assert file.read_text() == TEXT + '\n[oak]\nbase_url = "https://oak.example"\napi_key = { env = "OAK" }\n'
    assert file.is_symlink()
    assert elsewhere.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("linden-vale", {}, "already has an institution linden-vale"),
        ("fleet", {}, "Rollbook uses this name itself"),
        ("../oak", {}, "write lower-case letters"),
        ("oak", {"base_url": "http://oak.example"}, "base_url in .oak. of institutions.toml must begin with https"),
        ("oak", {"timezone": "Mars/Base"}, "timezone in .oak. of institutions.toml is 'Mars/Base'"),
        ("oak", {"api_key": "s3cret"}, "must say where it is, never what it is"),
        ("oak", {"base_uri": "x"}, "'base_uri', which is not a setting"),
    ],
)
def test_what_cannot_be_is_refused_and_the_file_stays(file: Path, name: str, values: dict[str, str], says: str) -> None:
    with pytest.raises(RollbookError, match=says) as caught:
        edit.add(name, values)
    assert file.read_text() == TEXT
    assert "s3cret" not in caught.value.message
    assert sorted(p.name for p in file.parent.iterdir() if p.is_file()) == ["institutions.toml"]
