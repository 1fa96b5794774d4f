"""The measures that views share: the SQL of each, at the measure's grain, gives what the views show, and is written
once.
"""

from __future__ import annotations

from typing import Any

import pytest

from rollbook.views.metrics import METRICS, Metric
from tests.support.warehouses.school import School

SHOWN = [m for m in METRICS if m.shown_in]


def near(value: Any) -> Any:
    """A sum of decimals depends on the order, in the last digit."""
    return pytest.approx(value, rel=1e-12, abs=1e-9) if isinstance(value, float) else value


@pytest.mark.parametrize("metric", SHOWN, ids=[m.name for m in SHOWN])
def test_a_measure_by_itself_gives_what_the_view_shows(metric: Metric, fortnight: School) -> None:
    view, column = metric.shown_in.split(".")
    keys = ", ".join(metric.grain)
    shown = fortnight.rows(f"SELECT DISTINCT {keys}, {column} FROM {view} ORDER BY ALL")
    assert shown
    computed = fortnight.rows(f"{metric.query} ORDER BY ALL")
    by_key = {row[:-1]: row[-1] for row in computed}
    # Compared by the views' keys: class_comparison leaves out courses without an active class.
    assert [(*row[:-1], near(by_key[row[:-1]])) for row in shown] == shown
    assert len(shown) == len(by_key)
