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
def test_approval_is_for_that_run_only(one_class: House) -> None:
    expected = first_night(one_class, students(60))
    is_held(one_class, 2, students(30))
    one_class.approve()
    expected.night(2, students(30), one_class.service.classes)
    is_held(one_class, 3, students(15))
    assert one_class.tables() == expected.tables()


def test_the_process_that_held_a_landing_may_approve_it(one_class: House) -> None:
    """The rows that its sync staged are gone by then."""
    expected = first_night(one_class, students(60))
    rollbook = one_class.at(2).rollbook()
    one_class.service.students = students(30)
    with pytest.raises(HeldError):
        sync(rollbook.writer())
    approve_held(rollbook)
    assert one_class.tables() == expected.night(2, students(30), one_class.service.classes).tables()


def test_a_later_good_sync_supersedes_what_was_held(one_class: House, held_night: Expected) -> None:
    one_class.service.students = students(11)
    one_class.sync()
    assert one_class.tables() == held_night.night(2, students(11), one_class.service.classes).tables()
    one_class.service.requests.clear()
    with pytest.raises(ArgumentError, match="Nothing is held on any day"):
        one_class.approve()
    assert one_class.service.requests == []
    assert one_class.tables() == held_night.tables()


def test_approval_with_nothing_held_fetches_nothing_and_publishes_nothing(one_class: House) -> None:
    first_night(one_class, students(12))
    one_class.at(3).service.students = students(2)
    before, requests = one_class.state(), len(one_class.service.requests)
    for day in (None, night(1), night(2), night(3)):
        with pytest.raises(ArgumentError, match="Nothing is held") as caught:
            one_class.approve(day)
        assert caught.value.exit_code == 2
    assert len(one_class.service.requests) == requests
    assert one_class.state() == before


@pytest.mark.story
def test_a_held_night_may_be_approved_after_later_nights(one_class: House, held_night: Expected) -> None:
    """History is a function of the landed days: the students were gone on night 2, and returned on night 3."""
    one_class.night(3, students(12))
    one, first = one_class.service.classes, Expected().night(1, students(12), one_class.service.classes)
    assert one_class.tables() == first.night(3, students(12), one).tables()
    one_class.approve(night(2))
    assert one_class.tables() == held_night.night(2, students(2), one).night(3, students(12), one).tables()


def test_one_approval_merges_all_held_days_in_their_order(one_class: House) -> None:
    expected, one = first_night(one_class, students(12)), one_class.service.classes
    for number, listed in ((2, students(6)), (3, students(5)), (5, students(4))):
        is_held(one_class, number, listed)
        expected.night(number, listed, one)
    done = approve_held(one_class.rollbook(), every_day=True, reason="two year groups left")
    assert (done.manifest.snapshot_date, done.manifest.verdict) == (night(5), Verdict.APPROVED)
    assert one_class.tables() == expected.tables()
    given = [one_class.landings(night(number))[-1].approval for number in (2, 3, 5)]
    assert [each and each.reason for each in given] == ["two year groups left"] * 3
    # Each is told against the night before it, not against what readers had before the approval.
    removed = one_class.query("SELECT rows_removed FROM sync_log ORDER BY snapshot_date")
    assert removed == [(0,), (24,), (4,), (None,), (4,)]
    approved = "rows added, 0 changed, 4 removed. It was held, and approved by a person."
    assert one_class.query("SELECT description FROM sync_log ORDER BY snapshot_date DESC LIMIT 1")[0][0].endswith(
        approved
    )


@pytest.mark.story
def test_an_approval_that_waits_behind_another_sync_merges_nothing_that_nobody_saw(one_class: House) -> None:
    first_night(one_class, students(60))
    is_held(one_class, 2, students(40))
    rollbook = one_class.rollbook()
    shown = approvals.to_approve(rollbook.place)
    is_held(one_class, 2, students(5))  # another sync of the day, while a person looks at the first
    before = one_class.state()
    with pytest.raises(ArgumentError, match="is not held now, or would change something else") as caught:
        approvals.approve(rollbook.writer(), [held.hold_digest for held in shown])
    assert caught.value.exit_code == 2
    assert one_class.state() == before
    assert [m.verdict for m in one_class.landings(night(2))] == [Verdict.HELD, Verdict.HELD]


def test_a_landing_that_would_change_something_else_has_another_digest(one_class: House) -> None:
    first_night(one_class, students(60))
    is_held(one_class, 2, students(40))
    (held,) = approvals.to_approve(one_class.rollbook().place)
    fewer = replace(held, counts=tuple(replace(c, removed=c.removed + 1) for c in held.counts))
    digests = {held.hold_digest, fewer.hold_digest, replace(held, landing=2).hold_digest}
    assert len(digests) == 3
    with pytest.raises(ArgumentError, match="Nothing was merged"):
        approvals.held_as_shown(one_class.rollbook().place, [])


def test_the_command_approves_all_held_days_and_names_each(
    one_class: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected, one = first_night(one_class, students(12)), one_class.service.classes
    for number, listed in ((2, students(6)), (3, students(5))):
        is_held(one_class, number, listed)
        expected.night(number, listed, one)
    for name, value in (
        one_class.environment() | {"DAGSTER_HOME": str(dagster_home(tmp_path)), "COLUMNS": "300"}
    ).items():
        monkeypatch.setenv(name, value)
    digests = [held.hold_digest for held in approvals.to_approve(one_class.rollbook().place, every_day=True)]
    wrong = CliRunner().invoke(app, ["sync", "--approve", "--all", "--date", str(night(2))])
    assert isinstance(wrong.exception, ArgumentError)
    done = CliRunner().invoke(app, ["sync", "--approve", "--all", "--yes"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    for number, digest in zip((2, 3), digests, strict=True):
        assert f"Approving landing 1 of {night(number)} ({digest}), held because" in done.stdout
        assert f"Synced {night(number)}" in done.stdout
    assert one_class.tables() == expected.tables()
