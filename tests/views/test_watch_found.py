"""Whom the reasons to watch find in a year of the sandbox, by the sandbox's own knowledge of who turns.

`make bench-watch` measures more schools, other rules, and schools without a lull, late marking or the long holiday.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest

from rollbook.sandbox import MadeUpInstitution
from rollbook.sandbox.institution import terms
from rollbook.views.editable import Term
from tests.support.models.watching import Truth, judge, truth
from tests.support.warehouses.years import school_days, year

pytestmark = pytest.mark.nights

FORTNIGHT = [date(2026, 11, 2) + timedelta(days=n) for n in (*range(5), *range(7, 12), *range(14, 19), *range(21, 26))]


def happened(listed: Sequence[dict[int, int | None]] | None = None) -> Truth:
    """Twenty school days of three: 1 stops on the sixth day, 2 was ill on the second and third, 3 always fails."""
    missing = [{1: max(0, place - 5), 2: 0, 3: 9} for place in range(20)]
    return Truth(FORTNIGHT, listed or missing, {1: ("stops", 5, 20)}, frozenset({3}), {2: (1, 12)})


def test_the_judge_counts_who_is_found_and_wrong_flags() -> None:
    flagged = [(FORTNIGHT[place], student) for student, places in {
        1: (2, 8, 9, 12), 2: (5, 6, 17), 3: (0, 19),
    }.items() for place in places]  # fmt: skip
    verdict = judge(happened(), flagged)
    assert verdict.found["stops"] == [4], "on the fourth day since the onset, that day included"
    assert verdict.before_fifth["stops"] == [True]
    assert (verdict.wrong, verdict.wrong_ill) == (2, 1), "1 before turning, 2 long after the illness, and 2 in it"
    assert (verdict.eligible, verdict.on_list, verdict.listed) == (25, 4, 60)
    assert (verdict.begun, verdict.back) == (7, 2), "of 1 after five days and after two"


def test_one_found_too_late_or_never_is_not_found_before_the_fifth() -> None:
    assert judge(happened(), []).found["stops"] == [None]
    late = judge(happened(), [(FORTNIGHT[10], 1)])
    assert (late.found["stops"], late.before_fifth["stops"]) == ([6], [False])
    assert late.share("stops", 6) == 1
    assert late.share("stops", 6, before_fifth=True) == 0


@pytest.mark.slow
def test_most_who_stop_or_slip_are_found_in_a_year(tmp_path: Path) -> None:
    school, days = MadeUpInstitution(200), school_days(date(2026, 8, 24), date(2027, 7, 9))
    year(tmp_path / "rollbook.duckdb", school, days, [Term(*term) for term in terms(days[0], days[-1])])
    query = "SELECT snapshot_date, student_id FROM watch_daily WHERE severity IS NOT NULL"
    with duckdb.connect(str(tmp_path / "rollbook.duckdb"), read_only=True) as con:
        verdict = judge(truth(school, days), con.execute(query).fetchall())
    assert len(verdict.found["stops"]) >= 4
    assert verdict.share("stops", 6) == 1
    assert verdict.share("recovers", 15) >= 0.75
    assert verdict.wrong_a_week < 1.5
    assert verdict.back / verdict.begun < 0.08
