"""What is said of the days that a backfill skips, and on the morning page of what went wrong."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.errors import HeldError, UnreachableError
from pipelines.landing.manifest import Hold, TableCounts
from pipelines.sync import Skip, skipped_days
from pipelines.sync.messages import on_page
from tests.support.nights import night


def test_skipped_days_are_told_by_reason_and_days_in_a_row_as_one_span() -> None:
    reasons = {1: Skip.EXPIRED, 2: Skip.EXPIRED, 3: Skip.NEVER, 5: Skip.NEVER, 6: Skip.NEVER, 8: Skip.HELD}
    assert skipped_days({night(n): why for n, why in reasons.items()}, 9) == (
        f"6 of 9 days: {night(1)} to {night(2)} (expired); {night(3)}, {night(5)} to {night(6)} (nothing was landed);"
        f" {night(8)} (held)"
    )
    assert skipped_days({night(2): Skip.FAILED}, 1) == f"1 of 1 day: {night(2)} (its syncs failed)"
    assert skipped_days({}, 4) == "0 of 4 days"


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (
            (("students", 0, 60), ("student_summaries", 380, 60), ("student_classes", 9, 300), ("classes", 0, 2)),
            "60 of 600 students and 2 of 600 classes would no longer be listed; the records of 380 students would change",
        ),
        (
            (("classes", 4, 0), ("class_summaries", 500, 0), ("institution", 1, 0)),
            "the records of 500 classes would change",
        ),
        ((("student_classes", 0, 300),), "many students would be in other classes"),
    ],
)
def test_the_morning_page_tells_a_hold_by_students_and_classes(counts: tuple[Any, ...], said: str) -> None:
    told = (TableCounts(table=t, before=600, added=0, changed=c, removed=r) for t, c, r in counts)
    error = HeldError("Held: 60 of 600 rows of students would be removed", Hold(reason="", counts=tuple(told)))
    assert on_page(error) == (f"More would change than on a normal night, so a person must approve it first: {said}.")


def test_the_morning_page_tells_any_other_error_by_its_own_words() -> None:
    assert on_page(UnreachableError("The service did not answer")) == "The service did not answer"
