"""A held landing is merged by an approval of that landing, without fetching (G3)."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from rollbook.cli import app
from rollbook.errors import ArgumentError, HeldError
from rollbook.landing.manifest import Verdict
from rollbook.night import approvals, sync
from tests.support.nights import Expected, House, approve_held, folder, night
from tests.support.processes.commands import dagster_home
from tests.support.records import classes, students
from tests.support.warehouses.holds import first_night, is_held
from tests.support.wire.service import Service

pytestmark = pytest.mark.nights


@pytest.mark.story
def test_approval_merges_what_was_held_and_asks_the_service_nothing() -> None:
    with folder() as root:
        with Service(classes=classes(1)) as service:
            house = House(root / "warehouse", service)
            expected = first_night(house, students(12))
            is_held(house, 2, students(2))
            before = len(service.requests)
        done = house.approve(night(2))  # the service is gone
        assert len(service.requests) == before
        assert (done.manifest.landing, done.manifest.verdict) == (1, Verdict.APPROVED)
        assert house.tables() == expected.night(2, students(2), classes(1)).tables()
        assert house.query(
            "SELECT outcome, verdict, rows_removed FROM ops.syncs WHERE snapshot_date > '2026-11-20'"
        ) == [("synced", "approved", 40)]


@pytest.mark.story
def test_approval_is_for_that_run_only(house: House) -> None:
    expected = first_night(house, students(60))
    is_held(house, 2, students(30))
    house.approve()
    expected.night(2, students(30), house.service.classes)
    is_held(house, 3, students(15))
    assert house.tables() == expected.tables()


def test_the_process_that_held_a_landing_may_approve_it(house: House) -> None:
    """The rows that its sync staged are gone by then."""
    expected = first_night(house, students(60))
    rollbook = house.at(2).rollbook()
    house.service.students = students(30)
    with pytest.raises(HeldError):
        sync(rollbook.writer())
    approve_held(rollbook)
    assert house.tables() == expected.night(2, students(30), house.service.classes).tables()


def test_a_later_good_sync_supersedes_what_was_held(house: House, held: Expected) -> None:
    house.service.students = students(11)
    house.sync()
    assert house.tables() == held.night(2, students(11), house.service.classes).tables()
    house.service.requests.clear()
    with pytest.raises(ArgumentError, match="Nothing is held on any day"):
        house.approve()
    assert house.service.requests == []
    assert house.tables() == held.tables()


def test_approval_with_nothing_held_fetches_nothing_and_publishes_nothing(house: House) -> None:
    first_night(house, students(12))
    house.at(3).service.students = students(2)
    before, requests = house.state(), len(house.service.requests)
    for day in (None, night(1), night(2), night(3)):
        with pytest.raises(ArgumentError, match="Nothing is held") as caught:
            house.approve(day)
        assert caught.value.exit_code == 2
    assert len(house.service.requests) == requests
    assert house.state() == before


@pytest.mark.story
def test_a_held_night_may_be_approved_after_later_nights(house: House, held: Expected) -> None:
    """History is a function of the landed days: the students were gone on night 2, and returned on night 3."""
    house.night(3, students(12))
    one, first = house.service.classes, Expected().night(1, students(12), house.service.classes)
    assert house.tables() == first.night(3, students(12), one).tables()
    house.approve(night(2))
    assert house.tables() == held.night(2, students(2), one).night(3, students(12), one).tables()


def test_one_approval_merges_all_held_days_in_their_order(house: House) -> None:
    expected, one = first_night(house, students(12)), house.service.classes
    for number, listed in ((2, students(6)), (3, students(5)), (5, students(4))):
        is_held(house, number, listed)
        expected.night(number, listed, one)
    done = approve_held(house.rollbook(), every_day=True, reason="two year groups left")
    assert (done.manifest.snapshot_date, done.manifest.verdict) == (night(5), Verdict.APPROVED)
    assert house.tables() == expected.tables()
    given = [house.landings(night(number))[-1].approval for number in (2, 3, 5)]
    assert [each and each.reason for each in given] == ["two year groups left"] * 3
    # Each is told against the night before it, not against what readers had before the approval.
    removed = house.query("SELECT rows_removed FROM sync_log ORDER BY snapshot_date")
    assert removed == [(0,), (24,), (4,), (None,), (4,)]
    approved = "rows added, 0 changed, 4 removed. It was held, and approved by a person."
    assert house.query("SELECT description FROM sync_log ORDER BY snapshot_date DESC LIMIT 1")[0][0].endswith(approved)


@pytest.mark.story
def test_an_approval_that_waits_behind_another_sync_merges_nothing_that_nobody_saw(house: House) -> None:
    first_night(house, students(60))
    is_held(house, 2, students(40))
    rollbook = house.rollbook()
    shown = approvals.to_approve(rollbook.place)
    is_held(house, 2, students(5))  # another sync of the day, while a person looks at the first
    before = house.state()
    with pytest.raises(ArgumentError, match="is not held now, or would change something else") as caught:
        approvals.approve(rollbook.writer(), [held.hold_digest for held in shown])
    assert caught.value.exit_code == 2
    assert house.state() == before
    assert [m.verdict for m in house.landings(night(2))] == [Verdict.HELD, Verdict.HELD]


def test_a_landing_that_would_change_something_else_has_another_digest(house: House) -> None:
    first_night(house, students(60))
    is_held(house, 2, students(40))
    (held,) = approvals.to_approve(house.rollbook().place)
    fewer = replace(held, counts=tuple(replace(c, removed=c.removed + 1) for c in held.counts))
    digests = {held.hold_digest, fewer.hold_digest, replace(held, landing=2).hold_digest}
    assert len(digests) == 3
    with pytest.raises(ArgumentError, match="Nothing was merged"):
        approvals.held_as_shown(house.rollbook().place, [])


def test_the_command_approves_all_held_days_and_names_each(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected, one = first_night(house, students(12)), house.service.classes
    for number, listed in ((2, students(6)), (3, students(5))):
        is_held(house, number, listed)
        expected.night(number, listed, one)
    for name, value in (house.environment() | {"DAGSTER_HOME": str(dagster_home(tmp_path)), "COLUMNS": "300"}).items():
        monkeypatch.setenv(name, value)
    digests = [held.hold_digest for held in approvals.to_approve(house.rollbook().place, every_day=True)]
    wrong = CliRunner().invoke(app, ["sync", "--approve", "--all", "--date", str(night(2))])
    assert isinstance(wrong.exception, ArgumentError)
    done = CliRunner().invoke(app, ["sync", "--approve", "--all", "--yes"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    for number, digest in zip((2, 3), digests, strict=True):
        assert f"Approving landing 1 of {night(number)} ({digest}), held because" in done.stdout
        assert f"Synced {night(number)}" in done.stdout
    assert house.tables() == expected.tables()
