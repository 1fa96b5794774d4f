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
from tests.support.records import students
from tests.support.warehouses.begun import begin
from tests.support.warehouses.erasures import erase

pytestmark = pytest.mark.nights


def status(house: House, **over: Any) -> Status:
    return status_of(house.rollbook(**over))


def test_an_empty_warehouse_is_reported_as_empty_and_nothing_is_made(school_of_20: House) -> None:
    report = status(school_of_20)
    assert (report.last_sync, report.last_good, report.is_fresh) == (None, None, False)
    assert [report.history, report.expired] == [Days()] * 2
    assert (report.holds, report.problems) == ((), ())
    assert not school_of_20.warehouse.exists()


def test_a_fresh_install_is_not_called_late(commanded_school: House) -> None:
    lines = CliRunner().invoke(app, ["status"]).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["last sync", "next run", "history", "on disk", "alerts"]


def test_a_warehouse_without_listeners_has_a_status(school_of_20: House) -> None:
    begin(school_of_20)
    rollbook = school_of_20.rollbook(lake="file:///nowhere", pseudonymous=True)
    rollbook.listeners = replace(rollbook.listeners, each=())
    report = status_of(rollbook)
    assert ({line.what for line in report.lines}, report.history.count) == ({"alerts"}, 1)
    assert [f for f in findings_of(rollbook) if f.what == "files"]


def test_an_open_hold_is_told_with_its_command_until_merged(school_of_20: House) -> None:
    begin(school_of_20)
    del school_of_20.service.students[10:]
    with pytest.raises(HeldError):
        school_of_20.at(2).sync()
    (hold,) = status(school_of_20).holds
    approve = f"rollbook sync --date {night(2)} --approve"
    assert hold == Choice(snapshot_date=night(2), landing=1, reason=hold.reason, command=approve)
    assert "10 of 20 students" in hold.reason
    school_of_20.approve()
    assert status(school_of_20).holds == ()


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
def test_a_night_is_late_two_hours_after_it_was_due(school_of_20: House, hours: float, fresh: bool) -> None:
    begin(school_of_20)
    school_of_20.now += timedelta(hours=hours)
    report = status(school_of_20)
    assert report.is_fresh is fresh
    assert report.late_by == (None if fresh else (school_of_20.now - report.due).total_seconds())


def test_a_night_that_was_landed_and_that_readers_have_not_is_late(school_of_20: House) -> None:
    begin(school_of_20)
    school_of_20.at(2).service.students[0]["name"] = "Renamed"
    rollbook = school_of_20.rollbook()
    with rollbook.writer().writing():
        snapshot(rollbook.place, landed(rollbook), rollbook.settings, rollbook.clock())
    report = status(school_of_20)
    assert report.last_good is not None
    assert (report.last_good.snapshot_date, report.is_fresh) == (night(2), False)
    school_of_20.sync()
    assert status(school_of_20).is_fresh
    school_of_20.lose_published()
    assert not status(school_of_20).is_fresh


def test_the_previous_evenings_sync_does_not_count_for_the_date_due(school_of_20: House) -> None:
    school_of_20.over["cron"] = "30 0 * * *"
    begin(school_of_20)
    school_of_20.now = datetime.combine(night(2), time(23, 45), UTC)
    school_of_20.sync()
    school_of_20.now += timedelta(hours=5)
    report = status(school_of_20)
    assert report.last_good is not None
    assert (report.last_good.snapshot_date, report.is_fresh) == (night(2), False)
    school_of_20.sync()
    assert status(school_of_20).is_fresh


def test_days_that_a_restored_file_lacks_are_told_until_they_are_back(school_of_20: House) -> None:
    begin(school_of_20)
    school_of_20.at(2).sync()
    school_of_20.at(3).sync()
    restore(school_of_20.rollbook().writer(), school_of_20.rollbook().warehouse.kept()[1])
    assert status(school_of_20).lacking == Days(count=2, first=night(2), last=night(3))
    school_of_20.sync(over={"cache_minutes": 0})
    assert status(school_of_20).lacking == Days()


def test_a_discarded_landing_is_listed_for_a_week(school_of_20: House) -> None:
    begin(school_of_20)
    school_of_20.at(2).sync()
    discard(school_of_20.rollbook().writer(), night(2), reason="on trial", confirm=always)
    school_of_20.now += timedelta(days=6)
    assert [each.reason for each in status(school_of_20).discarded] == ["on trial"]
    school_of_20.now += timedelta(days=2)
    assert status(school_of_20).discarded == ()


# --- damage is told, not raised --------------------------------------------------------------------------------------


def test_an_unreadable_manifest_is_told_and_the_others_still_count(school_of_20: House) -> None:
    begin(school_of_20)
    school_of_20.at(2).sync()
    manifest = school_of_20.warehouse / "raw" / f"snapshot_date={night(2)}" / "landing=1" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:40])
    report = status(school_of_20)
    assert report.last_sync is not None
    assert report.last_sync.snapshot_date == night(1)
    (problem,) = report.problems
    assert f"raw/snapshot_date={night(2)}/landing=1/manifest.json cannot be used" in problem
    assert "rollbook rebuild" in problem


def test_another_programs_database_in_place_of_the_published_file_is_told(school_of_20: House) -> None:
    begin(school_of_20)
    school_of_20.lose_published()
    duckdb.connect(school_of_20.published).close()
    report = status(school_of_20)
    assert report.problems == (
        "rollbook.duckdb is not Rollbook's: the next sync makes it again, or `rollbook rebuild`",
    )
    assert not report.is_fresh


# --- the command -----------------------------------------------------------------------------------------------------


def at(day: date, hour: int) -> time_machine.travel:
    return time_machine.travel(datetime.combine(day, time(hour), UTC), tick=False)


def test_a_program_that_writes_the_published_file_is_named_with_its_changes(school_of_20: House) -> None:
    begin(school_of_20)
    assert status(school_of_20).problems == ()
    changing = f"import duckdb, sys; con = duckdb.connect({str(writable(school_of_20.published))!r}); "
    changing += "con.execute('DELETE FROM students'); print('deleted', flush=True); sys.stdin.read()"
    with program("-c", changing) as running:
        assert running.read() == "deleted"
        assert [p for p in status(school_of_20).problems if "Another program has rollbook.duckdb open for writing" in p]
        running.end()
    (problem,) = status(school_of_20).problems
    assert problem.startswith("rollbook.duckdb is not as Rollbook wrote it: a program has opened it for writing.")
    school_of_20.sync()
    assert status(school_of_20).problems == ()
    assert school_of_20.query("SELECT COUNT(*) > 0 FROM students") == [(True,)]


def test_the_json_is_alone_on_standard_output_and_names_everything(commanded_school: House) -> None:
    begin(commanded_school)
    with at(FIRST, 5):
        done = CliRunner().invoke(app, ["status", "--json"])
    assert (done.exit_code, done.stderr) == (0, "")
    content = json.loads(done.stdout)
    assert list(content) == list(Status.__struct_encode_fields__)
    assert content["last_sync"]["started_at"] == f"{FIRST}T02:15:00Z"
    assert (content["due"], content["next_run"]) == (f"{FIRST}T02:15:00Z", f"{night(2)}T02:15:00Z")
    assert (content["is_fresh"], content["late_by"], content["holds"], content["keep_days"]) == (True, None, [], None)
    assert content["expired"] == {"count": 0, "first": None, "last": None}


def test_a_late_night_that_is_held_waits_for_an_approval(commanded_school: House) -> None:
    """Another sync would only be held again."""
    begin(commanded_school)
    del commanded_school.service.students[10:]
    with pytest.raises(HeldError):
        commanded_school.at(2).sync()
    with at(night(2), 5):
        text = " ".join(CliRunner().invoke(app, ["status"]).stdout.split())
    commanded_school.now += timedelta(hours=3)
    findings = [finding.says for finding in findings_of(commanded_school.rollbook())]
    assert f"LATE the last night due was {night(2)} 02:15 UTC: it is held: see `rollbook held`, then approve it" in text
    assert any("is held: see `rollbook held`" in says for says in findings)
    assert not any("was not synced" in says for says in findings)


def test_a_late_night_is_told_and_exits_0(commanded_school: House) -> None:
    begin(commanded_school)
    with at(night(3), 5):
        done = CliRunner().invoke(app, ["status"])
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert f"LATE the last night due was {night(3)} 02:15 UTC: it was not synced: run `rollbook sync`" in text
    assert f"next run {night(4)} 02:15 UTC" in text


def assert_readers_have(school: House, day: int, landing: int, count: int, *, fresh: bool = True) -> None:
    """What status says of the published file, and what the file holds."""
    report = status_of(school.rollbook())
    assert report.readers is not None
    assert (report.readers.day, report.readers.landing, report.is_fresh) == (night(day), landing, fresh)
    assert school.query("SELECT COUNT(*) FROM students") == [(report.readers.records["students"],)] == [(count,)]
    assert bool(report.lacking.count) is not fresh


@pytest.mark.slow
def test_status_says_what_readers_have_after_each_kind_of_change(school_of_20: House) -> None:
    school_of_20.night(1)
    school_of_20.night(2)
    assert_readers_have(school_of_20, 2, 1, 20)
    school_of_20.service.students = students(5)
    with pytest.raises(HeldError):
        school_of_20.sync()
    assert_readers_have(school_of_20, 2, 1, 20)
    school_of_20.now += timedelta(minutes=7)
    school_of_20.approve(night(2))
    assert_readers_have(school_of_20, 2, 2, 5)
    last = status_of(school_of_20.rollbook()).last_sync
    assert last is not None
    assert last.seconds < 60, "the wait for the approval is no part of the sync"
    restore(school_of_20.rollbook().writer(), school_of_20.rollbook().warehouse.kept()[0])
    assert_readers_have(school_of_20, 2, 1, 20, fresh=False)
    erase(school_of_20, 2)  # which first brings the file up to date
    assert_readers_have(school_of_20, 2, 2, 4)
    restore(school_of_20.rollbook().writer(), school_of_20.rollbook().warehouse.kept()[-1])
    assert_readers_have(school_of_20, 2, 1, 19, fresh=False)
    school_of_20.published.unlink()
    assert status_of(school_of_20.rollbook()).is_fresh is False
    school_of_20.sync()
    assert_readers_have(school_of_20, 2, 3, 4)
