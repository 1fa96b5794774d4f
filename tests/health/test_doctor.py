"""`rollbook doctor`: whether a sync could run here and now, line by line, and what to do where it could not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rollbook import settings
from rollbook.assembly import assemble
from rollbook.cli import app
from rollbook.errors import HeldError
from rollbook.health.finding import Finding, Level
from rollbook.night import sync
from rollbook.util import machine
from tests.support.nights import House, findings_of, new_house
from tests.support.reading import writable
from tests.support.records import classes, students
from tests.support.wire import faults

pytestmark = pytest.mark.nights

OK, WARNING, FAILED = Level.OK, Level.WARNING, Level.FAILED


@pytest.fixture
def school_of_20() -> Iterator[House]:
    with new_house(students(20), classes(3), retry_seconds=0) as house:
        house.service.now = lambda: datetime.now(UTC)
        yield house


@pytest.fixture(autouse=True)
def _no_secrets_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in settings.secrets_in_environment():
        monkeypatch.delenv(name)


def examined(house: House, **over: Any) -> list[Finding]:
    return list(findings_of(house.rollbook(**over)))


def wrong(findings: list[Finding]) -> list[tuple[str, Level]]:
    """The findings that are not all right, in order; without the warning that no alerts are set."""
    return [(f.what, f.level) for f in findings if f.level is not OK and f.what != "alerts"]


def failed(findings: list[Finding]) -> list[str]:
    return [f.what for f in findings if f.level is FAILED]


def says(findings: list[Finding], what: str) -> str:
    return " / ".join(f.says for f in findings if f.what == what)


def synced(house: House) -> House:
    """After a night that began just now."""
    house.now = datetime.now(UTC)
    house.sync()
    return house


def test_all_is_well_before_the_first_sync_and_after_it(school_of_20: House) -> None:
    assert wrong(examined(school_of_20)) == []
    assert not school_of_20.warehouse.exists()
    assert wrong(examined(synced(school_of_20))) == []
    findings = examined(school_of_20)
    assert [f.what for f in findings] == [
        *("settings", "files", "warehouse", "key", "clock", "one page", "one page", "disk space", "alerts"),
    ]
    assert says(findings, "one page") == "20 of 20 students read, 0 refused / 3 of 3 classes read, 0 refused"
    assert "institution 41" in says(findings, "key")


def test_it_sends_three_requests_and_writes_nothing(school_of_20: House) -> None:
    synced(school_of_20)
    school_of_20.service.requests.clear()
    before = {p: p.lstat().st_mtime_ns for p in school_of_20.warehouse.rglob("*")}
    examined(school_of_20)
    assert [(r.path, r.page) for r in school_of_20.service.requests] == [("auth", 1), ("students", 1), ("classes", 1)]
    assert {p: p.lstat().st_mtime_ns for p in school_of_20.warehouse.rglob("*")} == before


# --- the service -----------------------------------------------------------------------------------------------------


def test_a_refused_key_fails_and_says_whom_to_ask(school_of_20: House) -> None:
    findings = examined(school_of_20, api_key="another")
    assert failed(findings) == ["service"]
    assert "does not accept the API key (401). Ask the service representative" in says(findings, "service")


def test_doctor_fails_on_a_refused_page_and_warns_of_few(school_of_20: House) -> None:
    school_of_20.service.students[0]["registration_date"] = "tomorrow"
    findings = examined(school_of_20)
    assert wrong(findings) == [("one page", WARNING)]
    assert "20 of 20 students read, 0 refused, 1 of their values refused" in says(findings, "one page")
    for record in school_of_20.service.students:
        record["registration_date"] = "tomorrow"
    assert wrong(examined(school_of_20)) == [("one page", FAILED)]
    for record in school_of_20.service.students:
        record |= {"registration_date": "2025-09-01", "name": None}
    assert wrong(examined(school_of_20)) == [("one page", FAILED)]
    assert "20 of 20 students read, 20 refused" in says(examined(school_of_20), "one page")


def test_doctor_names_the_counts_that_the_service_does_not_state(school_of_20: House) -> None:
    school_of_20.service.on(faults.stated(total_count=None, total_pages=None), path="students", times=None)
    findings = examined(school_of_20)
    assert wrong(findings) == [("one page", WARNING)]
    assert "does not state total_count, total_pages of students, so no walk can be proven" in says(findings, "one page")
    assert "20 students read" in says(findings, "one page")


# --- the clock -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ahead", "zone", "level", "words"),
    [
        (timedelta(0), "UTC", OK, "taken as UTC"),
        (timedelta(minutes=4), "UTC", OK, "taken as UTC"),
        (timedelta(minutes=7), "UTC", WARNING, "or one of the clocks is wrong"),
        (timedelta(hours=-5), "Etc/GMT+5", OK, "taken as Etc/GMT+5"),
        (timedelta(hours=-5), "UTC", WARNING, "in another zone"),
        (timedelta(days=3), "UTC", FAILED, "a sync would fetch nothing: set this machine's clock"),
    ],
)
def test_a_clock_that_disagrees_within_zones_is_a_warning(
    school_of_20: House, ahead: timedelta, zone: str, level: Level, words: str
) -> None:
    school_of_20.service.now = lambda: (datetime.now(UTC) + ahead).replace(tzinfo=None)
    (findings,) = (f for f in examined(school_of_20, timezone=zone) if f.what == "clock")
    assert (findings.level, words in findings.says) == (level, True), findings.says


# --- the settings ----------------------------------------------------------------------------------------------------


def test_a_misspelt_setting_fails(school_of_20: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLBOOK_HOLD_REMOVE_PERCENT", "3")
    findings = examined(school_of_20)
    assert failed(findings) == ["settings"]
    assert "did you mean ROLLBOOK_HOLD_REMOVED_PERCENT?" in says(findings, "settings")


# --- this machine ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "level", "words"),
    [(5_000_000, FAILED, "5.0 MB are free: make room"), (150_000_000, WARNING, "set ROLLBOOK_KEEP_DAYS, or add room")],
    ids=["for a sync", "for a year"],
)
def test_too_little_room_for_a_sync_fails_for_a_year_warns(
    school_of_20: House, monkeypatch: pytest.MonkeyPatch, free: int, level: Level, words: str
) -> None:
    synced(school_of_20)
    monkeypatch.setattr(machine, "free", lambda path: free)
    findings = examined(school_of_20)
    assert wrong(findings) == [("disk space", level)]
    assert words in says(findings, "disk space")


def test_raw_bodies_that_others_may_enter_are_a_warning(school_of_20: House) -> None:
    synced(school_of_20)
    (school_of_20.warehouse / "raw").chmod(0o755)
    findings = examined(school_of_20)
    assert wrong(findings) == [("files", WARNING)]
    assert f"chmod -R go= {school_of_20.warehouse / 'raw'}" in says(findings, "files")


# --- the warehouse ---------------------------------------------------------------------------------------------------


def test_an_open_hold_and_a_late_night_are_warnings(school_of_20: House) -> None:
    synced(school_of_20)
    del school_of_20.service.students[10:]
    with pytest.raises(HeldError):
        school_of_20.sync()
    school_of_20.now += timedelta(days=3)
    findings = examined(school_of_20)
    assert wrong(findings) == [("warehouse", WARNING)] * 2
    assert "--approve" in says(findings, "warehouse")
    assert "was not synced: run `rollbook sync`" in says(findings, "warehouse")


def test_a_damaged_file_fails_with_the_command_that_repairs_it(school_of_20: House) -> None:
    synced(school_of_20)
    writable(school_of_20.published).write_bytes(b"not a database" * 100)
    findings = examined(school_of_20)
    assert "warehouse" in failed(findings)
    assert "run `rollbook rebuild`" in says(findings, "warehouse")


# --- the command -----------------------------------------------------------------------------------------------------


def test_doctor_exits_0_when_a_sync_could_run(commanded_school: House) -> None:
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0, done.output
    assert "A sync could run." in done.stdout
    assert "no daemon is running, so nothing starts the nightly sync" in done.stdout
    sync(assemble(commanded_school.settings()).writer())


def test_an_instance_that_does_not_open_fails(commanded_school: House, tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text("storage: nonsense\n")
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    assert "does not open" in done.stdout


def test_secrets_of_the_environment_and_open_files_of_secrets_are_named(
    school_of_20: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "ROOT", tmp_path)
    (tmp_path / ".notify").write_text("json://127.0.0.1:9/t0ken")
    (tmp_path / ".notify").chmod(0o640)
    monkeypatch.setenv("ROLLBOOK_NOTIFY_FILE", ".notify")
    monkeypatch.setenv("ROLLBOOK_API_KEY", "k3y")
    monkeypatch.setenv("GITHUB_TOKEN", "t0ken")
    told = [f for f in examined(school_of_20) if f.what == "settings" and f.level is WARNING]
    assert [f.says.partition(", which")[0] for f in told] == [
        f"{tmp_path / '.notify'} holds a secret and others may read it: chmod 600 {tmp_path / '.notify'}",
        "the environment holds GITHUB_TOKEN, ROLLBOOK_API_KEY",
    ]
    assert "ROLLBOOK_API_KEY_FILE=" in told[1].says
    assert "k3y" not in told[1].says
    assert "t0ken" not in told[1].says
