"""What is said of the days that a backfill skips."""

from __future__ import annotations

from pipelines.sync import Skip, skipped_days
from tests.support.nights import night


def test_skipped_days_are_told_by_reason_and_days_in_a_row_as_one_span() -> None:
    reasons = {1: Skip.EXPIRED, 2: Skip.EXPIRED, 3: Skip.NEVER, 5: Skip.NEVER, 6: Skip.NEVER, 8: Skip.HELD}
    assert skipped_days({night(n): why for n, why in reasons.items()}, 9) == (
        f"6 of 9 days: {night(1)} to {night(2)} (expired); {night(3)}, {night(5)} to {night(6)} (nothing was landed);"
        f" {night(8)} (held)"
    )
    assert skipped_days({night(2): Skip.FAILED}, 1) == f"1 of 1 day: {night(2)} (its syncs failed)"
    assert skipped_days({}, 4) == "0 of 4 days"
