"""Room as an operator sees it: `rollbook prune`, Dagster's old runs, and what a year comes to."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import time_machine
from typer.testing import CliRunner

from rollbook.assembly import assemble
from rollbook.cli import app
from rollbook.defs import component, runs
from rollbook.health import status
from rollbook.night import sync
from rollbook.opened import Rollbook
from rollbook.sandbox import Sandbox
from rollbook.settings import load
from rollbook.util import machine
from tests.support.graph import SYNC, Job
from tests.support.nights import ChangingNights, folder, night
from tests.support.wire.service import KEY

pytestmark = pytest.mark.timeout(180)

# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def eight(nights: ChangingNights, home: Path, monkeypatch: pytest.MonkeyPatch) -> ChangingNights:
    """Eight nights, as the command sees them."""
    for name, value in nights.house.environment().items():
        monkeypatch.setenv(name, value)
    return nights.play(8)


@pytest.mark.slow
def test_a_dry_run_shows_the_days_and_the_bytes_and_deletes_nothing(eight: ChangingNights) -> None:
    with time_machine.travel(eight.house.now, tick=False):
        before = eight.house.state()
        done = CliRunner().invoke(app, ["prune", "--dry-run"], env={"ROLLBOOK_KEEP_DAYS": "3"})
        assert done.exit_code == 0, done.output
        assert f"Would delete 4 days ({night(1)} to {night(4)})" in done.stdout
        assert eight.house.state() == before
        assert CliRunner().invoke(app, ["prune"]).stdout.startswith("ROLLBOOK_KEEP_DAYS is not set")
        assert eight.house.state() == before
        done = CliRunner().invoke(app, ["prune"], env={"ROLLBOOK_KEEP_DAYS": "3"})
        assert done.exit_code == 0, done.output
        assert f"Deleting 4 days ({night(1)} to {night(4)})" in done.stdout
        assert eight.days("raw") == [night(n) for n in range(5, 9)]
        assert eight.house.tables() == eight.expected.tables()
        assert "Nothing is older" in CliRunner().invoke(app, ["prune"], env={"ROLLBOOK_KEEP_DAYS": "3"}).stdout


# --- Dagster's records -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_dagsters_old_runs_go_with_their_events_and_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a run adds no more to its records than the year's figure allows for it."""
    now = datetime.now(UTC)
    with folder() as warehouse, Sandbox(60, api_key=KEY) as sandbox:
        given = {"BASE_URL": sandbox.url, "WAREHOUSE": warehouse, "FIRST_DATE": now.date() - timedelta(days=9)}
        for name, value in {**given, "API_KEY": KEY, "HOLD_CHANGED_PERCENT": 100}.items():
            monkeypatch.setenv(f"ROLLBOOK_{name}", str(value))
        sizes, growth = [], []
        for days in (2, 1, 0):
            sandbox.day = now.date() - timedelta(days=days)
            with time_machine.travel(now - timedelta(days=days)), dg.DagsterInstance.get() as instance:
                growth.append(Job(component.load(), instance).run(sandbox.day, tags=SYNC).run_id)
            sizes.append(machine.size(home))
        assert sizes[2] - sizes[1] <= status.RUN_BYTES
        with dg.DagsterInstance.get() as instance:
            assert runs.delete_old_runs(instance, now.date() + timedelta(days=397)) == 0
            files = {p for p in home.rglob("*") if any(run in str(p) for run in growth)}
            assert len(files) >= 3
            assert runs.delete_old_runs(instance, now.date() + timedelta(days=401), dry_run=True) == 3
            assert runs.delete_old_runs(instance, now.date() + timedelta(days=401)) == 3
            assert instance.get_runs_count() == 0
            assert [p for p in files if p.exists()] == []
        with dg.DagsterInstance.get() as instance:
            assert [r for run in growth for r in instance.all_logs(run)] == []
            assert Job(component.load(), instance).run(now.date(), tags=SYNC).success


# --- what a year comes to --------------------------------------------------------------------------------------------


@pytest.mark.weekly
@pytest.mark.parametrize("keep", [None, 5])
def test_the_nights_stay_within_what_the_doctor_predicted(keep: int | None) -> None:
    """Predicted after three nights for the six that follow, and at most twice too much for what is landed."""
    first = date(2026, 9, 15)
    with folder() as warehouse, Sandbox(300, day=first, api_key=KEY) as sandbox:
        given: dict[str, Any] = {"base_url": sandbox.url, "api_key": KEY, "warehouse": warehouse}
        settings = load(**given, first_date=first, keep_days=keep, hold_changed_percent=100, _env_file=None)

        def synced(n: int) -> Rollbook:
            sandbox.day = day = first + timedelta(days=n)
            rollbook = assemble(settings, clock=lambda: datetime.combine(day, time(), UTC))
            sync(rollbook.writer())
            return rollbook

        *_, rollbook = map(synced, range(3))
        last = status.last_night(rollbook.place)
        assert last is not None
        predicted = status.predict(rollbook.place, rollbook.settings, last, nights=6)
        *_, rollbook = map(synced, range(3, 9))
        assert machine.size(warehouse) <= predicted.year
        landed_now = machine.size(rollbook.raw.root) + machine.size(rollbook.lake.root)
        assert landed_now >= (9 if keep is None else keep) * (last.raw + last.lake) / 2
        assert rollbook.warehouse.published_file.stat().st_size <= status.MIN_FILE + 6 * last.growth
