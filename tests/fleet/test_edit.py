"""Adding, pausing and resuming an institution: the file keeps its comments, and is never left half or wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import settings
from pipelines.errors import ArgumentError, RollbookError, SettingError
from pipelines.fleet import edit, outcomes
from pipelines.fleet.outcomes import Kind, Outcome
from pipelines.institutions import Registry
from pipelines.source.fetch import utc_now

TEXT = """# The district's schools

[defaults]   # for all
timezone = "Europe/London"

[linden-vale]
base_url = "https://records.linden.example"  # since May
api_key  = { env = "LINDEN_VALE_KEY" }
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def file(root: Path) -> Path:
    path = root / "institutions.toml"
    path.write_text(TEXT)
    path.chmod(0o640)
    return path


def known() -> Registry:
    found = settings.registry()
    assert found is not None
    return found


def test_the_first_one_makes_the_file(root: Path) -> None:
    edit.add("oak", {"base_url": "https://oak.example", "api_key": {"file": "oak.key"}, "timezone": "Asia/Tokyo"})
    assert (root / "institutions.toml").read_text() == (
        '[oak]\nbase_url = "https://oak.example"\napi_key = {file = "oak.key"}\ntimezone = "Asia/Tokyo"\n'
    )
    assert (root / "institutions.toml").stat().st_mode & 0o777 == 0o600
    assert settings.load(fetches=False, institution="oak").timezone == "Asia/Tokyo"


def test_the_first_one_makes_the_file_that_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "district.toml"
    monkeypatch.setenv("ROLLBOOK_INSTITUTIONS", str(path))
    with pytest.raises(
        SettingError, match=f"^ROLLBOOK_INSTITUTIONS names {path}, which is not there: correct it, or see"
    ):
        settings.registry()
    assert edit.add("oak", {"base_url": "https://oak.example"}) == path
    assert [*known().institutions] == ["oak"]


def test_another_one_leaves_the_rest_as_it_is(file: Path) -> None:
    edit.add("oak", {"base_url": "https://oak.example", "api_key": {"env": "OAK"}})
    assert file.read_text() == TEXT + '\n[oak]\nbase_url = "https://oak.example"\napi_key = {env = "OAK"}\n'
    assert file.stat().st_mode & 0o777 == 0o640


def test_pausing_and_resuming_leaves_the_rest_as_it_is(file: Path, root: Path) -> None:
    edit.pause(known(), "linden-vale", 'key being "renewed"\nuntil May')
    assert file.read_text() == TEXT + 'paused = "key being \\"renewed\\" until May"\n'
    assert known()["linden-vale"].paused == 'key being "renewed" until May'
    assert edit.resume(known(), "linden-vale") is True
    assert file.read_text() == TEXT
    assert edit.resume(known(), "linden-vale") is False


def test_resuming_ends_a_pause_of_rollbooks_own(file: Path, root: Path) -> None:
    fleet = root / "warehouse" / "fleet"
    for day in range(20, 23):
        at = utc_now().replace(day=day)
        outcomes.record(fleet, "linden-vale", Outcome(kind=Kind.FAILED, at=at, day=at.date(), refused=True))
    assert outcomes.load(fleet, "linden-vale").why_paused("linden-vale")
    assert edit.resume(known(), "linden-vale") is True
    assert not outcomes.load(fleet, "linden-vale").why_paused("linden-vale")
    assert file.read_text() == TEXT


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
def test_what_cannot_be_is_refused_and_the_file_stays(
    file: Path, name: str, values: dict[str, object], says: str
) -> None:
    with pytest.raises(RollbookError, match=says) as caught:
        edit.add(name, values)
    assert file.read_text() == TEXT
    assert "s3cret" not in caught.value.message
    assert sorted(p.name for p in file.parent.iterdir() if p.is_file()) == ["institutions.toml"]


def test_a_pause_needs_a_reason_and_a_name_that_is_there(file: Path) -> None:
    with pytest.raises(ArgumentError, match="Say why"):
        edit.pause(known(), "linden-vale", " ")
    with pytest.raises(RollbookError, match="did you mean linden-vale"):
        edit.pause(known(), "linden-val", "x")
    assert file.read_text() == TEXT


def test_a_link_to_the_registry_stays_one(file: Path) -> None:
    elsewhere = file.with_name("shared.toml")
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    edit.pause(known(), "linden-vale", "x")
    assert file.is_symlink()
    assert known()["linden-vale"].paused == "x"
