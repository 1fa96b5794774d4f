"""The faults that are retried, and how long to wait (G13): only arithmetic, no wire, no running clock."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from rollbook.source.client import FIRST_SECONDS, MAX_WAIT_SECONDS, RetryPolicy, TransientError, retry_after

NOW = datetime(2026, 11, 20, 2, 15, 0, tzinfo=UTC)


def waits(ceiling: float, hints: list[float | None]) -> list[float]:
    """The waits of a request whose tries all fail, `asked` being each Retry-After."""
    one = RetryPolicy(ceiling, "a page")
    rows = []
    for seconds in hints:
        wait = one(TransientError("the service answered 503", retry_after=seconds or 0.0))
        if wait is False:
            break
        rows.append(float(wait))
    return rows


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        (" 12 ", 12.0),
        ("-3", 0.0),
        ("1.5", 1.5),
        ("9" * 40, 0.0),
        (str(int(NOW.timestamp()) + 90), 90.0),
        (str(int(NOW.timestamp()) * 1000 + 90_000), 90.0),
        (str(int(NOW.timestamp()) - 90), 0.0),
        ("Fri, 20 Nov 2026 03:16:30 +0100", 90.0),
        ("Thu, 19 Nov 2026 21:16:30 -0500", 90.0),
        ("2026-11-20T03:16:30+01:00", 90.0),
        ("2026-11-20 02:16:30", 90.0),
        ("Fri, 20 Nov 2026 02:16:30 GMT", 90.0),
        ("Friday, 20-Nov-26 02:16:30 GMT", 90.0),
        ("Fri Nov 20 02:16:30 2026", 90.0),
        ("Fri, 20 Nov 2026 02:14:00 GMT", 0.0),
        ("soon", 0.0),
        ("", 0.0),
        ("Fri, 99 Nov 2026 02:16:30 GMT", 0.0),
    ],
)
def test_retry_after_is_read_in_seconds_dates_and_epochs(stated: str, seconds: float) -> None:
    with time_machine.travel(NOW, tick=False):
        assert retry_after({"retry-after": stated}) == seconds


@given(st.integers(0, 9), st.integers(0, 2**32))
def test_waits_are_spread_over_an_exponential_bound(tries: int, seed: int) -> None:
    random.seed(seed)
    seconds = waits(10_000, [None] * (tries + 1))
    assert len(seconds) == tries + 1
    assert 0 <= seconds[tries] <= min(MAX_WAIT_SECONDS, FIRST_SECONDS * 2**tries)


@given(st.floats(0, 100), st.lists(st.none() | st.floats(0, 40), max_size=30))
def test_waits_are_as_long_as_asked_and_below_the_ceiling(ceiling: float, asked: list[float | None]) -> None:
    waited = waits(ceiling, asked)
    for wait, seconds in zip(waited, asked, strict=False):
        assert wait >= (seconds or 0)
    assert sum(waited) <= ceiling * (1 + 1e-9)


def test_time_spent_trying_counts_towards_the_ceiling() -> None:
    one = RetryPolicy(0.05, "a page")
    time.sleep(0.06)
    assert one(TransientError("no answer within the timeout")) is False
    assert one.too_long is None  # the service did not ask for too much


def test_time_that_others_took_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("rollbook.source.client.time.monotonic", lambda: now[0])
    policy = RetryPolicy(10, "page 1")
    now[0] += 8
    policy.excuse(6)
    assert (policy.spent, policy.left) == (2, 8)
