"""The registry of a district: what is allowed there, and how settings reach an institution."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rollbook import settings
from rollbook.errors import SettingError

REGISTRY = """

[defaults]
timezone = "Europe/London"
retry_seconds = 20

[linden-vale]
base_url = "https://records.linden.example"
api_key  = { env = "LINDEN_VALE_KEY" }
retry_seconds = 10

[oak]
base_url = "https://records.oak.example"
api_key  = { file = "oak.key" }
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "ROOT", tmp_path)
    monkeypatch.setenv("LINDEN_VALE_KEY", "key-of-linden")
    monkeypatch.setenv("ROLLBOOK_WALKS", "5")
    monkeypatch.setenv("ROLLBOOK_TIMEZONE", "Asia/Tokyo")
    (tmp_path / "oak.key").write_text("key-of-oak\n")
    path = tmp_path / "institutions.toml"
    path.write_text(REGISTRY)
    return path


def test_an_institutions_settings_beat_the_defaults_and_these_the_environment(registry: Path) -> None:
    linden, oak = (settings.load(institution=name) for name in ("linden-vale", "oak"))
    assert [linden.retry_seconds, oak.retry_seconds] == [10, 20]
    assert {linden.timezone, oak.timezone} == {"Europe/London"}
    assert {linden.walks, oak.walks} == {5}
    assert linden.api_key.get_secret_value() == "key-of-linden"
    assert oak.api_key.get_secret_value() == "key-of-oak"


def test_files_that_an_editor_on_windows_saved_are_read(registry: Path) -> None:
    registry.write_bytes(REGISTRY.replace("\n", "\r\n").encode("utf-8-sig"))
    (registry.parent / "oak.key").write_bytes("key-of-oak\r\n".encode("utf-8-sig"))
    assert settings.load(institution="oak").api_key.get_secret_value() == "key-of-oak"


def test_each_institution_has_a_warehouse_of_its_name(registry: Path) -> None:
    linden = settings.load(institution="linden-vale")
    assert linden.warehouse_path == registry.parent / "warehouse" / "linden-vale"
    assert linden.district_path == registry.parent / "warehouse" / "district"
    assert settings.place("oak").warehouse_path == registry.parent / "warehouse" / "oak"


def test_a_key_is_read_only_where_something_is_fetched(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LINDEN_VALE_KEY")
    assert settings.load(fetches=False, institution="linden-vale").api_key.get_secret_value() == ""
    with pytest.raises(SettingError, match="api_key in .linden-vale. .* is in LINDEN_VALE_KEY, which is not set"):
        settings.load(institution="linden-vale")


def test_a_variable_of_the_registry_may_name_a_file(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LINDEN_VALE_KEY")
    (registry.parent / ".env").write_text("LINDEN_VALE_KEY_FILE=oak.key\n")
    assert settings.load(institution="linden-vale").api_key.get_secret_value() == "key-of-oak"
    monkeypatch.setenv("LINDEN_VALE_KEY", "key-of-linden")
    assert settings.load(institution="linden-vale").api_key.get_secret_value() == "key-of-linden"
    monkeypatch.setenv("LINDEN_VALE_KEY_FILE", "oak.key")
    with pytest.raises(SettingError, match="is both in LINDEN_VALE_KEY and in the file that LINDEN_VALE_KEY_FILE"):
        settings.load(institution="linden-vale")


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ('[defaults]\nbase_url = "https://a.example"\n[oak]\napi_key = { env = "K" }', "api_key of oak is in [oak]"),
        ('[defaults]\napi_key = { env = "K" }\n[oak]\nbase_url = "https://a.example"', "base_url of oak is in [oak]"),
        ('[oak]\napi_key = { env = "K" }', "base_url is not set for oak: put it into institutions.toml"),
        ('[oak]\nbase_url = "https://a.example"', "api_key is not set for oak: put it into institutions.toml"),
        ("[oak]\n", "base_url is not set for oak"),
    ],
)
def test_a_key_goes_to_the_address_that_stands_beside_it_alone(
    registry: Path, monkeypatch: pytest.MonkeyPatch, tables: str, says: str
) -> None:
    """Else one school's key might reach another school's host."""
    for name, value in {"K": "key", "ROLLBOOK_API_KEY": "key", "ROLLBOOK_BASE_URL": "https://b.example"}.items():
        monkeypatch.setenv(name, value)
    registry.write_text(tables)
    with pytest.raises(SettingError, match=re.escape(says)):
        settings.load(institution="oak")
    assert settings.load(institution="oak", fetches=False).api_key.get_secret_value() == ""


def test_both_may_be_the_defaults(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K", "key")
    registry.write_text('[defaults]\nbase_url = "https://a.example"\napi_key = { env = "K" }\n[oak]\n')
    assert settings.load(institution="oak").base_url == "https://a.example"


def test_the_environment_names_the_institution(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLBOOK_INSTITUTION", "oak")
    assert settings.load().institution == "oak"


def test_a_variable_that_the_registry_names_is_not_a_misspelt_setting(
    registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.write_text(REGISTRY.replace("LINDEN_VALE_KEY", "ROLLBOOK_LINDEN_KEY"))
    monkeypatch.setenv("ROLLBOOK_LINDEN_KEY", "key-of-linden")
    monkeypatch.setenv("ROLLBOOK_OAK_KEY", "key-of-oak")
    assert settings.misspelt() == ["ROLLBOOK_OAK_KEY is not a setting: did you mean ROLLBOOK_API_KEY?"]


def test_with_a_registry_an_institution_must_be_named(registry: Path) -> None:
    with pytest.raises(SettingError, match="one of linden-vale, oak"):
        settings.load(fetches=False)
    with pytest.raises(SettingError, match="has no such institution; did you mean linden-vale?"):
        settings.place("linden")


def test_a_single_school_has_no_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ROOT", tmp_path)
    assert settings.registry() is None
    assert settings.place().warehouse_path == tmp_path / "warehouse"
    assert settings.place().district_path is None
    with pytest.raises(SettingError, match="no institution can be named"):
        settings.place("oak")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[district]\nbase_url = "https://a.example"', "called district: Rollbook uses this name itself"),
        ('[private]\nbase_url = "https://a.example"', "called private: Rollbook uses this name itself"),
        ('[Oak]\nbase_url = "https://a.example"', "write lower-case letters"),
        ('["../oak"]', "write lower-case letters"),
        ("[oak]\n[oak]", "not valid TOML: something is defined twice"),
        ("[oak]\napi_key = s3cret-key", "not valid TOML: it cannot be read at line 2"),
        ('[oak]\napi_key = "s3cret-key"', "must say where it is, never what it is"),
        ('[oak]\napi_key = { env = "A", file = "s3cret-key" }', "must say where it is"),
        ('[oak]\nbase_uri = "x"', "'base_uri', which is not a setting; did you mean base_url?"),
        ('[oak]\nwarehouse = "x"', "set ROLLBOOK_WAREHOUSE in the environment"),
        ("oak = 1", "must be a table"),
        ('[oak]\ntimezone = "Mars/Base"', "timezone in .oak. or .defaults. of institutions.toml is not a time zone"),
        ("[oak]\npublished_mode = 0o640", "published_mode in .oak. .* valid string"),
    ],
)
def test_registry_errors_are_named_without_quoting_values(registry: Path, text: str, says: str) -> None:
    registry.write_text(text)
    with pytest.raises(SettingError, match=says) as caught:
        settings.place("oak"), settings.load(fetches=False, institution="oak")
    assert "s3cret" not in caught.value.message
