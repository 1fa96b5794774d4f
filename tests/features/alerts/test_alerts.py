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
def alerting_school(hook: Webhook) -> Iterator[House]:
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


def test_a_failed_sync_and_the_next_good_one_are_told_once(alerting_school: House, hook: Webhook) -> None:
    later = Outcome("run-3", AlertKind.SYNCED, night(3))
    alerting_school.sync()
    assert tell(alerting_school, FAILED, FAILED, GOOD, GOOD, later) == [True, False, True, False, False]
    assert hook.texts == [
        f"Rollbook, Made-up School: the sync of {night(2)} failed\n"
        "The service gave no answer. Try again later.\n"
        f"Readers have what was published last: {night(2)}, 60 students, 2 classes.",
        f"Rollbook, Made-up School: the sync of {night(2)} is good again\n"
        "Nothing is left to do.\n"
        f"Readers have what was published last: {night(2)}, 60 students, 2 classes.",
    ]


def test_a_held_sync_is_told_with_its_changes_and_advice(alerting_school: House, hook: Webhook) -> None:
    alerting_school.service.students = alerting_school.service.students[:40]
    with pytest.raises(HeldError) as held:
        alerting_school.sync()
    (text,) = hook.texts
    assert text.splitlines() == [
        f"Rollbook, Made-up School: the sync of {night(2)} is held",
        f"{held.value.message.removeprefix('Held: ')}.",
        f"Readers have what was published last: {night(1)}, 60 students, 2 classes.",
    ]
    assert "20 of 60 students" in text
    assert f"`rollbook sync --date {night(2)} --approve`" in text


def test_no_message_names_a_pupil_a_teacher_or_the_key(alerting_school: House, hook: Webhook) -> None:
    alerting_school.service.students = alerting_school.service.students[:40]
    with pytest.raises(HeldError):
        alerting_school.sync()
    tell(alerting_school, FAILED, GOOD)
    text = repr(hook.posted) + repr(hook.requests) + (alerting_school.warehouse / "build" / "alerts.json").read_text()
    for personal in ("Pupil", "pupil.", "R-7", "Terry", "terry@", KEY):
        assert personal not in text
    assert (alerting_school.warehouse / "build" / "alerts.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_a_school_whose_name_is_a_command_is_named_and_nothing_else(alerting_school: House, hook: Webhook) -> None:
    alerting_school.service.school = {"id": 41, "name": "<!channel> *The*\nSchool", "key": "k"}
    alerting_school.sync()
    tell(alerting_school, FAILED)
    assert hook.heads[0] == f"Rollbook, !channel The School: the sync of {night(2)} failed"


# --- getting through -------------------------------------------------------------------------------------------------


def test_a_service_that_is_down_is_tried_again_and_told_once(alerting_school: House, hook: Webhook) -> None:
    hook.statuses = [503, 429]
    assert tell(alerting_school, FAILED) == [True]
    assert (len(hook.requests), hook.posted) == (1, [])
    deliver({"": alerts(alerting_school)})
    assert len(hook.requests) == 1  # not before its time
    alerting_school.now += timedelta(minutes=RETRY_MINUTES[0])
    deliver({"": alerts(alerting_school)})
    alerting_school.now += timedelta(minutes=RETRY_MINUTES[1])
    deliver({"": alerts(alerting_school)})
    alerting_school.now += timedelta(days=1)
    deliver({"": alerts(alerting_school)})
    assert (len(hook.requests), len(hook.posted)) == (3, 1)


def test_a_refusing_service_is_not_asked_again_or_quoted(
    alerting_school: House, hook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    hook.statuses, hook.says = [404, 404], b"T0KEN of nobody, error=500"
    tell(alerting_school, FAILED)
    alerting_school.now += timedelta(days=1)
    deliver({"": alerts(alerting_school)})
    assert len(hook.requests) == 1
    assert [r.getMessage() for r in caplog.records if r.name.startswith("rollbook.features.alerts")] == [
        "An alert was not delivered: address 1 (json) of ROLLBOOK_NOTIFY answered 404"
    ]
    content = (alerting_school.warehouse / "build" / "alerts.json").read_text()
    assert "T0KEN" not in caplog.text + repr(alerting_school.settings()) + content


def test_only_the_addresses_that_failed_are_tried_again(alerting_school: House, hook: Webhook) -> None:
    with webhook() as other:
        both = {"notify": f"{hook.url}, {other.url}"}
        other.statuses = [503]
        tell(alerting_school, FAILED, **both)
        assert (len(hook.posted), len(other.posted)) == (1, 0)
        alerting_school.now += timedelta(minutes=1)
        deliver({"": alerts(alerting_school, **both)})
        assert hook.posted == other.posted
        assert (len(hook.requests), len(other.requests)) == (1, 2)


def test_a_state_that_cannot_be_written_still_tells_and_tells_once(
    alerting_school: House, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Alerts, "unwritten", {})
    monkeypatch.setattr("rollbook.features.alerts.alerts.files.write", full)
    assert tell(alerting_school, FAILED, FAILED) == [True, False]
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
def test_a_night_is_late_two_hours_after_its_time(alerting_school: House, now: str, missed: str | None) -> None:
    alerting_school.now = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
    assert alerts(alerting_school, timezone="Europe/Berlin").missed_night() is None
    alerting_school.now = datetime.fromisoformat(now)
    night_missed = alerts(alerting_school, timezone="Europe/Berlin").missed_night()
    assert night_missed == (datetime.fromisoformat(missed) if missed else None)
