"""Which faults are worth another try, and how long each is waited for. No HTTP and no sleeping: only the sums.

The loop itself, and the sleeping, are stamina's. Its own back-off adds jitter to a fixed wait and clamps neither a
Retry-After nor the total, so `RetryPolicy` is handed to it as its back-off hook and answers with the wait in seconds.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

log = logging.getLogger(__name__)

# The first wait lies between nothing and this; the bound doubles with each further try.
FIRST_SECONDS = 0.5
# No single wait is longer than this, unless the service itself asks for longer (Retry-After).
MOST_SECONDS = 30.0


class TransientError(Exception):
    """A fault that may pass by itself: `words` say what happened, without a URL, a body or a header's value.

    `contract` tells an answer that is not the contract's from one that never came. `retry_after` is what the service
    asked to wait, in seconds.
    """

    def __init__(self, words: str, *, contract: bool = False, retry_after: float | None = None) -> None:
        super().__init__(words)
        self.words = words
        self.contract = contract
        self.retry_after = retry_after


class RetryPolicy:
    """The waits of one request: exponential with full jitter, never shorter than Retry-After, `ceiling` s in all.

    Called with what went wrong, it answers how many seconds to wait before the next try, or False to end it. All
    time counts, that of the tries themselves too. In stamina's test mode, where nobody sleeps, the waits that would
    have been count instead, so that the ceiling holds there as well.
    """

    def __init__(self, ceiling: float, what: str) -> None:
        self.ceiling = ceiling
        self.what = what
        self.tries = 0
        self.waits = 0.0
        self.too_long: float | None = None
        self._started = time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds since the first try began."""
        return max(time.monotonic() - self._started, self.waits)

    @property
    def left(self) -> float:
        """Seconds until the last try must have begun."""
        return max(self.ceiling - self.spent, 0.0)

    def __call__(self, error: Exception) -> float | bool:
        """How long to wait before trying again, or False."""
        if not isinstance(error, TransientError):
            return False
        wait = self._wait(error.retry_after or 0.0)
        if wait is None:
            return False
        self.waits += wait
        log.warning("%s: %s; asking again in %.1f s", self.what, error.words, wait)
        return wait

    def _wait(self, at_least: float) -> float | None:
        remaining = self.ceiling - self.spent
        if remaining <= 0:
            return None
        if at_least > remaining:
            self.too_long = at_least
            return None
        # 2.0 ** 60 is as good as forever and far from overflowing.
        bound = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(self.tries, 60))
        self.tries += 1
        jittered = random.uniform(0, bound)  # noqa: S311 - spreads clients out, hides nothing
        return min(max(jittered, at_least), remaining)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a Retry-After header asks for, in either of its forms; None when there is none to read.

    A date is taken against the answer's own Date where it has one: the two clocks need not agree.
    """
    stated = headers.get("retry-after", "").strip()
    try:
        seconds = float(stated)
    except ValueError:
        until = _http_date(stated)
        if until is None:
            return None
        seconds = (until - (_http_date(headers.get("date", "")) or datetime.now(UTC))).total_seconds()
    return None if math.isnan(seconds) else max(seconds, 0.0)


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
