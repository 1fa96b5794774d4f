"""The retry policy: which faults are retried, and how long to wait before each retry. It sends and sleeps nothing.

stamina runs the loop and sleeps. Its own back-off adds jitter to a fixed wait and limits neither a Retry-After nor the
total time, so `RetryPolicy` serves as its back-off hook and returns the wait in seconds.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

log = logging.getLogger(__name__)

# The first wait is between 0 and this; the bound doubles with each further try.
FIRST_SECONDS = 0.5
# No single wait is longer, unless the service asks for more (Retry-After).
MAX_WAIT_SECONDS = 30.0


@dataclass(eq=False)
class TransientError(Exception):
    """A fault that may pass by itself. `reason` says what happened, without a URL, a body or a header's value.

    `contract` is true if there was an answer that is not the contract's, false if there was none. `retry_after` is the
    wait that the service asked for, in seconds.
    """

    reason: str
    contract: bool = False
    retry_after: float = 0.0


class RetryPolicy:
    """The waits of one request: exponential back-off with full jitter, never shorter than Retry-After.

    Call it with the error of a try: it returns the seconds to wait before the next one, or False to give up. Tries
    and waits together take at most `ceiling` seconds. In stamina's test mode, which does not sleep, the waits that
    were skipped count instead, so that the ceiling holds there too.
    """

    def __init__(self, ceiling: float, label: str) -> None:
        self.ceiling = ceiling
        self.label = label
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
        """Seconds left in which another try may begin."""
        return max(self.ceiling - self.spent, 0.0)

    def excuse(self, seconds: float) -> None:
        """Exclude these seconds from the time spent: another process held the host."""
        self._started += seconds

    def __call__(self, error: Exception) -> float | bool:
        """Return the seconds to wait before the next try, or False to give up."""
        remaining = self.ceiling - self.spent
        if not isinstance(error, TransientError) or remaining <= 0:
            return False
        if error.retry_after > remaining:
            self.too_long = error.retry_after
            return False
        # 2.0 ** 60 is far above the maximum, and far from overflowing.
        bound = min(MAX_WAIT_SECONDS, FIRST_SECONDS * 2.0 ** min(self.tries, 60))
        self.tries += 1
        jittered = random.uniform(0, bound)  # noqa: S311 - spreads clients out, protects nothing
        wait = min(max(jittered, error.retry_after), remaining)
        self.waits += wait
        log.warning("%s: %s; retrying in %.1f s", self.label, error.reason, wait)
        return wait


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that a Retry-After header asks for, in either of its forms; 0 if missing or malformed."""
    stated = headers.get("retry-after", "").strip()
    if stated.isdecimal():
        return float(stated)
    try:
        until = parsedate_to_datetime(stated)
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0
    return max((until.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds(), 0.0)
