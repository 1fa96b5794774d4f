"""The demo plays a real school's fortnight: also the nights of the summer that are held, which it approves and says so."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from rollbook.cli import serve
from rollbook.opening import open_rollbook
from rollbook.sandbox import Sandbox
from tests.support.processes.commands import dagster_home
from tests.support.reading import rows

PROMOTION = date(2026, 8, 24)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_summers_held_night_is_approved_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(dagster_home(tmp_path / "home")))
    with Sandbox(60, day=PROMOTION, api_key=serve.KEY) as sandbox:
        values = {
            "BASE_URL": sandbox.url,
            "API_KEY": serve.KEY,
            "WAREHOUSE": tmp_path / "w",
            "FIRST_DATE": "2026-08-01",
        }
        for name, value in values.items():
            monkeypatch.setenv(f"ROLLBOOK_{name}", str(value))
        for number in (-1, 0, 1):
            sandbox.day = PROMOTION + timedelta(days=number)
            serve.play_day(open_rollbook(), sandbox.day)
    printed = capfd.readouterr().err
    assert "rows of student_classes (" in printed
    assert printed.count("Approved.") == 1
    outcomes = rows(tmp_path / "w" / "rollbook.duckdb", "SELECT outcome, reason FROM ops.syncs ORDER BY snapshot_date")
    assert [outcome for outcome, _ in outcomes] == ["synced"] * 3
