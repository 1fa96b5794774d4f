"""Lines over days, as a notebook shows them. The layout is that of the pages (`reading/charts.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Template

from rollbook.errors import ArgumentError
from rollbook.reading.charts import Row, trend
from rollbook.util.pages import environment

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Drawing:
    """A drawing that Jupyter shows."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def lines(frame: pd.DataFrame) -> Drawing:
    """Draw a line for each column of a frame whose first column has the days, each on an axis of its own.

    Raises ArgumentError for fewer than two days.
    """
    days, *headings = frame.columns
    dates = list(frame[days])
    if len(set(dates)) < 2:
        raise ArgumentError(f"A line needs two days or more, and {days} has {len(set(dates))}")
    numbers = frame[headings].astype(object).where(frame[headings].notna(), None).to_numpy()
    rows = sorted((Row(day=day, numbers=of_day) for day, of_day in zip(dates, numbers, strict=True)), key=_day)
    values = [(name.replace("_", " ").capitalize(), _number(at)) for at, name in enumerate(headings)]
    return Drawing(_template().render(chart=trend(rows, values)))


def _day(row: Row) -> Any:
    return row.day


def _number(at: int) -> Callable[[Row], float | None]:
    return lambda row: row.numbers[at]


@cache
def _template() -> Template:
    return environment("rollbook.features.notebook").get_template("lines.html")
