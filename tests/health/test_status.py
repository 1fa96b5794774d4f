"""`rollbook status`: what is known of a warehouse at a glance, and as JSON alone."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import duckdb
import pytest
import time_machine
from typer.testing import CliRunner

from rollbook.cli import app
from rollbook.errors import HeldError
from rollbook.health.status import Choice, Days, Status
from rollbook.night.discard import discard
from rollbook.night.past import always
from rollbook.night.restore import restore
from rollbook.night.stages import snapshot
from tests.support.nights import FIRST, House, findings_of, landed, night, status_of
from tests.support.processes.commands import program
from tests.support.reading import writable
from tests.support.warehouses.begun import begin

pytestmark = pytest.mark.nights


def status(house: House, **over: Any) -> Status:
    return status_of(house.rollbook(**over))


def test_an_empty_warehouse_is_reported_as_empty_and_nothing_is_made(house: House) -> None:
    report = status(house)
    assert (report.last_sync, report.last_good, report.is_fresh) == (None, None, False)
    assert [report.history, report.expired] == [Days()] * 2
    assert (report.holds, report.problems) == ((), ())
    assert not house.warehouse.exists()


def test_a_fresh_install_is_not_called_late(cli_house: House) -> None:
    lines = CliRunner().invoke(app, ["status"]).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["last sync", "next run", "history", "on disk", "alerts"]


def test_a_warehouse_without_listeners_has_a_status(house: House) -> None:
    begin(house)
    rollbook = house.rollbook(lake="file:///nowhere", pseudonymous=True)
    rollbook.listeners = replace(rollbook.listeners, each=())
    report = status_of(rollbook)
    assert ({line.what for line in report.lines}, report.history.count) == ({"alerts"}, 1)
    assert [f for f in findings_of(rollbook) if f.what == "files"]


def test_an_open_hold_is_told_with_its_command_until_merged(house: House) -> None:
    begin(house)
    del house.service.students[10:]
    with pytest.raises(HeldError):
        house.at(2).sync()
    (hold,) = status(house).holds
    approve = f"rollbook sync --date {night(2)} --approve"
    assert hold == Choice(snapshot_date=night(2), landing=1, reason=hold.reason, command=approve)
    assert "10 of 20 students" in hold.reason
    house.approve()
    assert status(house).holds == ()


# --- fresh or late: the cron is at 02:15, and a night may take two hours ---------------------------------------------


@pytest.mark.parametrize(
    ("hours", "fresh"),
    [
        (0, True),
        (24 + 1.9, True),  # the next night is due, but may still be running
        (24 + 2.1, False),
        (24 * 5, False),
    ],
)
def test_a_night_is_late_two_hours_after_it_was_due(house: House, hours: float, fresh: bool) -> None:
    begin(house)
    house.now += timedelta(hours=hours)
    report = status(house)
    assert report.is_fresh is fresh
    assert report.late_by == (None if fresh else (house.now - report.due).total_seconds())


def test_a_night_that_was_landed_and_that_readers_have_not_is_late(house: House) -> None:
    begin(house)
    house.at(2).service.students[0]["name"] = "Renamed"
    rollbook = house.rollbook()
    with rollbook.writer().writing():
        snapshot(rollbook.place, landed(rollbook), rollbook.settings, rollbook.clock())
    report = status(house)
    assert report.last_good is not None
    assert (report.last_good.snapshot_date, report.is_fresh) == (night(2), False)
    house.sync()
    assert status(house).is_fresh
    house.lose_published()
    assert not status(house).is_fresh


def test_the_previous_evenings_sync_does_not_count_for_the_date_due(house: House) -> None:
    house.over["cron"] = "30 0 * * *"
    begin(house)
    house.now = datetime.combine(night(2), time(23, 45), UTC)
    house.sync()
    house.now += timedelta(hours=5)
    report = status(house)
    assert report.last_good is not None
    assert (report.last_good.snapshot_date, report.is_fresh) == (night(2), False)
    house.sync()
    assert status(house).is_fresh


def test_days_that_a_restored_file_lacks_are_told_until_they_are_back(house: House) -> None:
    begin(house)
    house.at(2).sync()
    house.at(3).sync()
    restore(house.rollbook().writer(), house.rollbook().warehouse.kept()[1])
    assert status(house).lacking == Days(count=2, first=night(2), last=night(3))
    house.sync(over={"cache_minutes": 0})
    assert status(house).lacking == Days()


def test_a_discarded_landing_is_listed_for_a_week(house: House) -> None:
    begin(house)
    house.at(2).sync()
    discard(house.rollbook().writer(), night(2), reason="on trial", confirm=always)
    house.now += timedelta(days=6)
    assert [each.reason for each in status(house).discarded] == ["on trial"]
    house.now += timedelta(days=2)
    assert status(house).discarded == ()


# --- damage is told, not raised --------------------------------------------------------------------------------------


def test_an_unreadable_manifest_is_told_and_the_others_still_count(house: House) -> None:
    begin(house)
    house.at(2).sync()
    manifest = house.warehouse / "raw" / f"snapshot_date={night(2)}" / "landing=1" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:40])
    report = status(house)
    assert report.last_sync is not None
    assert report.last_sync.snapshot_date == night(1)
    (problem,) = report.problems
    assert f"raw/snapshot_date={night(2)}/landing=1/manifest.json cannot be used" in problem
    assert "rollbook rebuild" in problem


def test_another_programs_database_in_place_of_the_published_file_is_told(house: House) -> None:
    begin(house)
    house.lose_published()
    duckdb.connect(house.published).close()
    report = status(house)
    assert report.problems == (
        "rollbook.duckdb is not Rollbook's: the next sync makes it again, or `rollbook rebuild`",
    )
    assert not report.is_fresh


# --- the command -----------------------------------------------------------------------------------------------------


def at(day: date, hour: int) -> time_machine.travel:
    return time_machine.travel(datetime.combine(day, time(hour), UTC), tick=False)


def test_a_program_that_writes_the_published_file_is_named_with_its_changes(house: House) -> None:
    begin(house)
    assert status(house).problems == ()
    changing = f"import duckdb, sys; con = duckdb.connect({str(writable(house.published))!r}); "
    changing += "con.execute('DELETE FROM students'); print('deleted', flush=True); sys.stdin.read()"
    with program("-c", changing) as running:
        assert running.read() == "deleted"
        assert [p for p in status(house).problems if "Another program has rollbook.duckdb open for writing" in p]
        running.end()
    (problem,) = status(house).problems
    assert problem.startswith("rollbook.duckdb is not as Rollbook wrote it: a program has opened it for writing.")
    house.sync()
    assert status(house).problems == ()
    assert house.query("SELECT COUNT(*) > 0 FROM students") == [(True,)]


def test_the_json_is_alone_on_standard_output_and_names_everything(cli_house: House) -> None:
    begin(cli_house)
    with at(FIRST, 5):
        done = CliRunner().invoke(app, ["status", "--json"])
    assert (done.exit_code, done.stderr) == (0, "")
    content = json.loads(done.stdout)
    assert list(content) == list(Status.__struct_encode_fields__)
    assert content["last_sync"]["started_at"] == f"{FIRST}T02:15:00Z"
    assert (content["due"], content["next_run"]) == (f"{FIRST}T02:15:00Z", f"{night(2)}T02:15:00Z")
    assert (content["is_fresh"], content["late_by"], content["holds"], content["keep_days"]) == (True, None, [], None)
    assert content["expired"] == {"count": 0, "first": None, "last": None}


def test_a_late_night_that_is_held_waits_for_an_approval(cli_house: House) -> None:
    """Another sync would only be held again."""
    begin(cli_house)
    del cli_house.service.students[10:]
    with pytest.raises(HeldError):
        cli_house.at(2).sync()
    with at(night(2), 5):
        text = " ".join(CliRunner().invoke(app, ["status"]).stdout.split())
    cli_house.now += timedelta(hours=3)
    findings = [finding.says for finding in findings_of(cli_house.rollbook())]
    assert f"LATE the last night due was {night(2)} 02:15 UTC: it is held: see `rollbook held`, then approve it" in text
    assert any("is held: see `rollbook held`" in says for says in findings)
    assert not any("was not synced" in says for says in findings)


def test_a_late_night_is_told_and_exits_0(cli_house: House) -> None:
    begin(cli_house)
    with at(night(3), 5):
        done = CliRunner().invoke(app, ["status"])
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert f"LATE the last night due was {night(3)} 02:15 UTC: it was not synced: run `rollbook sync`" in text
    assert f"next run {night(4)} 02:15 UTC" in text
