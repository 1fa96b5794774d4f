"""Where a mass change and a changed contract begin (G3, G9), by the rules themselves.

That a night follows the rules is in `test_hold.py` and `test_records_refused.py`.
"""

from __future__ import annotations

from datetime import date

import pytest

from rollbook.errors import ArgumentError
from rollbook.landing.manifest import TableCounts
from rollbook.night.policy import change_guard, partition, too_many_rejected

REMOVED, CHANGED = "ROLLBOOK_HOLD_REMOVED_PERCENT", "ROLLBOOK_HOLD_CHANGED_PERCENT"


def guard(*counts: TableCounts) -> str:
    """The reason of a hold, by the default settings."""
    return change_guard(counts, removed_percent=10, changed_percent=75, unverified={})


def counts(
    before: int, *, changed: int = 0, altered: int = 0, removed: int = 0, table: str = "students"
) -> TableCounts:
    return TableCounts(table=table, before=before, added=0, changed=changed, removed=removed, altered=altered)


@pytest.mark.parametrize(
    ("before", "removed", "held"),
    [
        pytest.param(60, 6, False, id="6 of 60 are 10 percent"),
        pytest.param(59, 6, True, id="6 of 59 are more than 10 percent, and more than five"),
        pytest.param(12, 5, False, id="5 of 12 are at most five"),
        pytest.param(12, 6, True, id="6 of 12"),
        pytest.param(5, 5, False, id="all of 5 are at most five"),
        pytest.param(7, 7, True, id="all of 7"),
    ],
)
def test_more_than_ten_percent_and_more_than_five_rows_removed_are_held(before: int, removed: int, held: bool) -> None:
    says = f"{removed} of {before} students ({100 * removed / before:.3g} %) would be removed, more than {REMOVED}=10"
    assert guard(counts(before, removed=removed)) == (says if held else "")


@pytest.mark.parametrize(
    ("before", "changed", "held"),
    [
        pytest.param(40, 30, False, id="30 of 40 are 75 percent"),
        pytest.param(40, 31, True, id="31 of 40 are more than 75 percent"),
        pytest.param(1, 1, True, id="one of one: there is no least number"),
    ],
)
def test_more_than_three_quarters_changed_in_more_than_measures_are_held(before: int, changed: int, held: bool) -> None:
    says = f"{changed} of {before} students ({100 * changed / before:.3g} %) would change, more than {CHANGED}=75"
    assert guard(counts(before, changed=40, altered=changed)) == (says if held else "")


def test_each_table_is_judged_by_its_own_rows_classes_too() -> None:
    """The rows that go with a record are not told; those that go alone are."""
    tables = ("classes", "class_summaries", "class_assignment_activity")
    gone = [counts(7, removed=6, table=table) for table in tables]
    assert guard(counts(60), *gone) == f"6 of 7 classes (85.7 %) would be removed, more than {REMOVED}=10"
    says = "6 of 7 rows of class_summaries (85.7 %), 6 of 7 rows of class_assignment_activity (85.7 %)"
    assert guard(counts(60), *gone[1:]) == f"{says} would be removed, more than {REMOVED}=10"
    both = guard(counts(60, removed=30), counts(60, removed=30, table="student_classes"), *gone)
    says = "30 of 60 students (50 %), 6 of 7 classes (85.7 %)"
    assert both == f"{says} would be removed, more than {REMOVED}=10"


def test_unwalked_sets_are_never_held() -> None:
    assert guard(counts(9, removed=9, table="student_details"), counts(1, altered=1, table="institution")) == ""


@pytest.mark.parametrize(
    ("records", "rejected", "fails"),
    [
        pytest.param(1, 1, False, id="one bad record costs one record"),
        (4, 1, False),
        pytest.param(2, 2, True, id="not one of several can be read: that is the contract"),
        (5, 5, True),
        (6, 5, False),
        (10, 5, False),
        pytest.param(10, 6, True, id="more than five, and more than a fifth"),
        (30, 6, False),
        (30, 7, True),
    ],
)
def test_more_than_five_and_a_fifth_refused_means_the_contract_has_changed(
    records: int, rejected: int, fails: bool
) -> None:
    assert too_many_rejected(rejected, records) is fails


def test_only_the_days_from_the_first_to_today_can_be_synced() -> None:
    first, today = date(2026, 11, 20), date(2026, 11, 24)
    assert partition(first, first, today, "UTC") == first
    assert partition(today, first, today, "UTC") == today
    with pytest.raises(ArgumentError, match="set ROLLBOOK_FIRST_DATE to an earlier date"):
        partition(date(2026, 11, 19), first, today, "UTC")
    with pytest.raises(ArgumentError, match="2026-11-25 has not begun: it is 2026-11-24 in UTC"):
        partition(date(2026, 11, 25), first, today, "UTC")
