"""The measures that views share: the SQL of each, at its grain, gives what the views show, and is written once."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from pipelines.views import catalog
from pipelines.views.metrics import METRICS, Metric
from tests.support.warehouses.school import School

SHOWN = [m for m in METRICS if m.shown_in]


def near(value: Any) -> Any:
    """A sum of decimals depends on their order, in its last digit."""
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


@pytest.mark.parametrize("metric", [m for m in METRICS if not m.shown_in], ids=lambda m: m.name)
def test_a_measure_that_is_part_of_others_can_be_asked_by_itself(metric: Metric, fortnight: School) -> None:
    values = {row[-1] for row in fortnight.rows(metric.query)}
    assert None in values
    assert len(values) > 2 or values == {True, None} or values == {False, True, None}


def test_the_file_lists_every_measure_and_what_it_lists_can_be_run(fortnight: School) -> None:
    listed = fortnight.rows("SELECT name, expression, grain, source FROM metrics")
    assert [row[0] for row in listed] == [m.name for m in METRICS]
    for name, expression, grain, source in listed:
        (metric,) = (m for m in METRICS if m.name == name)
        groups = f" GROUP BY {grain}" if metric.is_aggregate else ""
        assert fortnight.rows(f"SELECT {grain}, {expression} FROM {source}{groups}")


def test_a_definition_is_written_once() -> None:
    """Views name a measure; none repeats its SQL, where that is more than a column and a word."""
    folder = files("pipelines.views").joinpath("sql")
    for name in catalog.VIEWS:
        template = folder.joinpath(f"{name}.sql").read_text(encoding="utf-8")
        assert [m.name for m in METRICS if len(m.sql) > 25 and m.sql in template] == []
