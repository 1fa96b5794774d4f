"""Whose key, and which day: a fetch is for one institution (G11), and filed under today's date alone (G8)."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest

from rollbook.errors import MachineError, NothingLandedError
from tests.source.asking import NOW, TODAY, TOMORROW, YESTERDAY, Night


@pytest.mark.parametrize(
    ("zone", "there", "day", "taken"),
    [
        ("UTC", NOW, None, TODAY),
        ("UTC", NOW, TODAY, TODAY),
        ("America/Los_Angeles", NOW, None, YESTERDAY),  # the service is a zone ahead
        ("America/Los_Angeles", NOW, YESTERDAY, YESTERDAY),
        ("Pacific/Kiritimati", NOW + timedelta(hours=9), None, TODAY),
        ("UTC", NOW - timedelta(hours=3), None, TODAY),  # a zone behind: yesterday evening there
        ("UTC", NOW - timedelta(hours=3), YESTERDAY, YESTERDAY),  # as its timestamp says
        ("UTC", NOW + timedelta(hours=22), None, TODAY),
        (
            "UTC",
            NOW - timedelta(days=9),
            TODAY - timedelta(days=9),
            TODAY - timedelta(days=9),
        ),  # a sandbox plays that day
    ],
)
def test_a_fetch_is_dated_by_the_day_here_or_at_the_service(
    night: Night, zone: str, there: datetime, day: date | None, taken: date
) -> None:
    night.service.now = lambda: there
    done = night.fetch(day=day, over={"timezone": zone})
    assert (done.snapshot_date, night.raw.days()) == (taken, [taken])


@pytest.mark.parametrize(
    ("there", "day"),
    [
        *((NOW, day) for day in (YESTERDAY, TOMORROW, date(2026, 11, 3))),
        (NOW + timedelta(hours=22), TOMORROW),  # it has begun there, and not here
        (NOW - timedelta(days=9), TODAY - timedelta(days=8)),  # neither here nor there
        (NOW - timedelta(days=9), TODAY - timedelta(days=10)),
        (NOW + timedelta(days=9), TODAY + timedelta(days=9)),
    ],
)
def test_no_fetch_is_dated_by_any_other_day(night: Night, there: datetime, day: date) -> None:
    night.service.now = lambda: there
    error, landed = night.failed(NothingLandedError, day=day)
    assert night.asked() == [("auth", 1)]
    assert landed == []
    assert f"fetched for {day}: it is {TODAY} here and {there.date()} at the service" in error.message
    assert "rollbook backfill" in error.message
    assert list(night.raw.root.iterdir()) == []


@pytest.mark.parametrize("day", [None, TODAY])
@pytest.mark.parametrize("off", [timedelta(days=-365), timedelta(days=-2), timedelta(days=2), timedelta(days=365)])
def test_two_clocks_further_apart_than_zones_fetch_nothing(night: Night, off: timedelta, day: date | None) -> None:
    night.service.now = lambda: NOW + off
    error, landed = night.failed(MachineError, day=day)
    assert night.asked() == [("auth", 1)]
    assert error.message == (
        f"It is {TODAY} by the clock of this machine (in UTC) and {(NOW + off).date()} by that of the records service."
        " No two time zones differ by that much, so one clock is wrong. Nothing was fetched: correct this machine's"
        " clock, or tell the service's representative. If the service plays another day on purpose, name that day with"
        " --date."
    )
    assert (landed, list(night.raw.root.iterdir())) == ([], [])
