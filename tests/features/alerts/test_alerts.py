"""Alerts of failed, held and late syncs and of the first good one after, once each; no alert makes a sync fail."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rollbook.errors import HeldError
from rollbook.features.alerts.alerts import RETRY_MINUTES, AlertKind, Alerts, Outcome, deliver
from tests.support.nights import House, new_house, night
from tests.support.records import classes, students
from tests.support.warehouses.begun import begin
from tests.support.wire.listeners import Webhook, webhook
from tests.support.wire.service import KEY

pytestmark = pytest.mark.nights

FAILED = Outcome("run-1", AlertKind.FAILED, night(2), "The service gave no answer. Try again later")
GOOD = Outcome("run-2", AlertKind.SYNCED, night(2))


@pytest.fixture
def house(hook: Webhook) -> Iterator[House]:
    """A warehouse with one night, and a service to tell."""
    with new_house(students(60), classes(2), notify=hook.url) as house:
        yield begin(house).at(2)


def alerts(house: House, **over: Any) -> Alerts:
    """The alerts as a new process has them."""
    return house.rollbook(**over).listener(Alerts)


def tell(house: House, *outcomes: Outcome, **over: Any) -> list[bool]:
    """Report and deliver, each from a new process."""
    news = []
    for outcome in outcomes:
        own = alerts(house, **over)
        news.append(own.report(outcome))
        deliver({"": own})
    return news


# --- what is told, and how often -------------------------------------------------------------------------------------


def test_a_failed_sync_and_the_next_good_one_are_told_once(house: House, hook: Webhook) -> None:
    later = Outcome("run-3", AlertKind.SYNCED, night(3))
    house.sync()
    assert tell(house, FAILED, FAILED, GOOD, GOOD, later) == [True, False, True, False, False]
    assert hook.texts == [
        f"Rollbook, Made-up School: the sync of {night(2)} failed\n"
        "The service gave no answer. Try again later.\n"
        f"Readers have what was published last: {night(2)}, 60 students, 2 classes.",
        f"Rollbook, Made-up School: the sync of {night(2)} is good again\n"
        "Nothing is left to do.\n"
        f"Readers have what was published last: {night(2)}, 60 students, 2 classes.",
    ]


def test_a_held_sync_is_told_with_its_changes_and_advice(house: House, hook: Webhook) -> None:
    house.service.students = house.service.students[:40]
    with pytest.raises(HeldError) as held:
        house.sync()
    (text,) = hook.texts
    assert text.splitlines() == [
        f"Rollbook, Made-up School: the sync of {night(2)} is held",
        f"{held.value.message.removeprefix('Held: ')}.",
        f"Readers have what was published last: {night(1)}, 60 students, 2 classes.",
    ]
    assert "20 of 60 students" in text
    assert f"`rollbook sync --date {night(2)} --approve`" in text


def test_no_message_names_a_pupil_a_teacher_or_the_key(house: House, hook: Webhook) -> None:
    house.service.students = house.service.students[:40]
    with pytest.raises(HeldError):
        house.sync()
    tell(house, FAILED, GOOD)
    text = repr(hook.posted) + repr(hook.requests) + (house.warehouse / "build" / "alerts.json").read_text()
    for personal in ("Pupil", "pupil.", "R-7", "Terry", "terry@", KEY):
        assert personal not in text
    assert (house.warehouse / "build" / "alerts.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_a_school_whose_name_is_a_command_is_named_and_nothing_else(house: House, hook: Webhook) -> None:
    house.service.school = {"id": 41, "name": "<!channel> *The*\nSchool", "key": "k"}
    house.sync()
    tell(house, FAILED)
    assert hook.heads[0] == f"Rollbook, !channel The School: the sync of {night(2)} failed"


# --- getting through -------------------------------------------------------------------------------------------------


def test_a_service_that_is_down_is_tried_again_and_told_once(house: House, hook: Webhook) -> None:
    hook.statuses = [503, 429]
    assert tell(house, FAILED) == [True]
    assert (len(hook.requests), hook.posted) == (1, [])
    deliver({"": alerts(house)})
    assert len(hook.requests) == 1  # not before its time
    house.now += timedelta(minutes=RETRY_MINUTES[0])
    deliver({"": alerts(house)})
    house.now += timedelta(minutes=RETRY_MINUTES[1])
    deliver({"": alerts(house)})
    house.now += timedelta(days=1)
    deliver({"": alerts(house)})
    assert (len(hook.requests), len(hook.posted)) == (3, 1)


def test_a_refusing_service_is_not_asked_again_or_quoted(
    house: House, hook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    hook.statuses, hook.says = [404, 404], b"T0KEN of nobody, error=500"
    tell(house, FAILED)
    house.now += timedelta(days=1)
    deliver({"": alerts(house)})
    assert len(hook.requests) == 1
    assert [r.getMessage() for r in caplog.records if r.name.startswith("rollbook.features.alerts")] == [
        "An alert was not delivered: address 1 (json) of ROLLBOOK_NOTIFY answered 404"
    ]
    content = (house.warehouse / "build" / "alerts.json").read_text()
    assert "T0KEN" not in caplog.text + repr(house.settings()) + content


def test_only_the_addresses_that_failed_are_tried_again(house: House, hook: Webhook) -> None:
    with webhook() as other:
        both = {"notify": f"{hook.url}, {other.url}"}
        other.statuses = [503]
        tell(house, FAILED, **both)
        assert (len(hook.posted), len(other.posted)) == (1, 0)
        house.now += timedelta(minutes=1)
        deliver({"": alerts(house, **both)})
        assert hook.posted == other.posted
        assert (len(hook.requests), len(other.requests)) == (1, 2)


def test_a_state_that_cannot_be_written_still_tells_and_tells_once(
    house: House, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Alerts, "unwritten", {})
    monkeypatch.setattr("rollbook.features.alerts.alerts.files.write", full)
    assert tell(house, FAILED, FAILED) == [True, False]
    assert len(hook.posted) == 1


# --- a late night ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "missed"),
    [
        ("2026-11-22T03:14:00+00:00", "2026-11-21T02:15:00+01:00"),  # in Berlin 04:14, a minute within the grace
        ("2026-11-22T03:15:00+00:00", "2026-11-22T02:15:00+01:00"),
        ("2026-11-20T12:00:00+00:00", None),  # alerts were switched on after that night
    ],
)
def test_a_night_is_late_two_hours_after_its_time(house: House, now: str, missed: str | None) -> None:
    house.now = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
    assert alerts(house, timezone="Europe/Berlin").missed_night() is None
    house.now = datetime.fromisoformat(now)
    night_missed = alerts(house, timezone="Europe/Berlin").missed_night()
    assert night_missed == (datetime.fromisoformat(missed) if missed else None)
