"""A missed night is alerted once, and so is the first good one after it: institutions together, not one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time, timedelta

import pytest

from rollbook.features.alerts.alerts import BATCH_DELAY, AlertKind, Alerts, Outcome, deliver
from rollbook.features.district.nights import alerts_of
from tests.support.nights import night
from tests.support.warehouses.district import District, new_district
from tests.support.wire.listeners import Webhook

pytestmark = [pytest.mark.timeout(240), pytest.mark.nights]


@pytest.fixture
def alerting_district(hook: Webhook) -> Iterator[District]:
    """Elm has an address of its own, fir has none, cedar is paused."""
    with (
        new_district(["ash", "birch", "cedar"], ["elm", "fir"]) as district,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("HOOK", hook.url)
        patch.setenv("OTHER_HOOK", f"{hook.url}/of-elm")
        notify = {"notify": '{ env = "HOOK" }'}
        district.write(
            {
                "ash": notify,
                "birch": notify,
                "cedar": notify,
                "elm": {"notify": '{ env = "OTHER_HOOK" }'},
            }
        )
        district.pause("cedar", "holidays")
        yield district


def watched(district: District, number: int, at: time) -> dict[str, datetime]:
    run = district.institutions(number)
    run.now = datetime.combine(night(number), at, UTC)
    return run.watch()


def alerts_of_both(clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> dict[str, Alerts]:
    """The alerts of ash and birch."""
    return alerts_of(("ash", "birch"), clock)


@pytest.mark.slow
def test_a_missed_night_and_the_next_good_one_are_told_once(alerting_district: District, hook: Webhook) -> None:
    alerting_district.night(1)
    assert watched(alerting_district, 2, time(4)) == {}  # it may still come
    assert hook.texts == []
    assert sorted(watched(alerting_district, 2, time(4, 16))) == ["ash", "birch", "elm"]
    assert watched(alerting_district, 2, time(9)) == {}
    due = "It was due at 02:15 (UTC), and no sync has ended since. If the UI shows none"
    assert hook.heads == [
        "Rollbook, 2 institutions: 2 late",
        f"Rollbook, elm: the sync of {night(2)} is late",
    ]
    assert hook.texts[0].splitlines()[1] == f"Late ({night(2)}): ash, birch"
    assert hook.texts[0].splitlines()[2].startswith(due)
    assert hook.texts[0].endswith("To sync now, run `rollbook --institution NAME sync`.")

    hook.posted.clear()
    alerting_district.night(3)
    alerting_district.night(4)
    assert hook.heads == [
        "Rollbook, 2 institutions: 2 good again",
        f"Rollbook, elm: the sync of {night(3)} is good again",
    ]
    assert hook.texts[0].splitlines()[1:] == [f"Good again ({night(3)}): ash, birch", "Nothing is left to do."]


def test_one_cause_is_told_in_one_paragraph_with_each_name(alerting_district: District, hook: Webhook) -> None:
    alerts = alerts_of_both()
    for name, of_one in alerts.items():
        message = f"The service gave no answer. Run `rollbook --institution {name} sync`"
        of_one.report(Outcome(f"{name} 1", AlertKind.FAILED, night(1), message))
    alerts["ash"].report(Outcome("ash 2", AlertKind.HELD, night(1), "1 of 3 rows would be removed"))
    deliver(alerts)
    deliver(alerts)
    assert [text.splitlines() for text in hook.texts] == [
        [
            "Rollbook, 2 institutions: 2 failed, 1 held",
            f"Failed ({night(1)}): ash, birch",
            "The service gave no answer. Run `rollbook --institution NAME sync`.",
            "",
            f"Held ({night(1)}): ash",
            "1 of 3 rows would be removed.",
            "Nothing was published yet.",
        ]
    ]


def test_alerts_wait_for_each_other_and_are_delivered_once(alerting_district: District, hook: Webhook) -> None:
    now = datetime.now(UTC)
    alerts = alerts_of_both(lambda: now)
    alerts["ash"].report(Outcome("1", AlertKind.FAILED, night(1), "It failed"))
    deliver(alerts, wait=True)
    now += BATCH_DELAY - timedelta(seconds=1)
    alerts["birch"].report(Outcome("2", AlertKind.FAILED, night(1), "It failed"))
    deliver(alerts, wait=True)
    assert hook.requests == []
    now += timedelta(seconds=1)
    hook.statuses = [503]
    deliver(alerts, wait=True)
    deliver(alerts)
    assert (hook.texts, len(hook.requests)) == ([], 1)
    now += timedelta(minutes=1)
    deliver(alerts)
    assert hook.heads == ["Rollbook, 2 institutions: 2 failed"]
    now += timedelta(days=1)
    deliver(alerts)
    assert len(hook.requests) == 2
