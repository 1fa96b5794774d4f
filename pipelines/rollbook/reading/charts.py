"""The layout of charts: where each bar, line and text goes. `chart.svg` in `util/pages` draws them.

Horizontal positions are percentages of the chart's width, so that a chart fits any screen while the text keeps the
size; vertical positions and heights are pixels. Colours are names of the page's CSS variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from math import ceil
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import duckdb

from rollbook.util.text import figure

# A severity in a word, from so many on; it counts 1 to 2 for each reason.
SEVERITIES = ((4, "high"), (2, "medium"), (0, "low"))


# A row of a query, with the columns as attributes.
Row = SimpleNamespace


def all_rows(con: duckdb.DuckDBPyConnection, query: str, **values: Any) -> list[Row]:
    """The rows of a query, with their columns as attributes."""
    result = con.execute(query, values)
    columns = [column[0] for column in result.description or ()]
    return [Row(**dict(zip(columns, row, strict=True))) for row in result.fetchall()]


SQUARE = "\N{BLACK SQUARE}"
LEGEND = 24  # a line of the legend
KEYS = 4  # legend entries per line, on the narrowest phone
SPARK_DAYS = 28
PANEL = 128  # a line of the month, with the heading
DOT = 7
LEAST_SPAN = 10  # of a scale, in points of percent


# In a reason.
DAY, MEASURE = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"(?<=[(])[\d.]+|(?<=from )[\d.]+|(?<=\d to )[\d.]+")

# A filled rectangle: x, y, width, height and colour.
Bar = tuple[float, float, float, float, str]
# A line through points, the colour and the width; a dot if both ends are the same point.
Line = tuple[tuple[tuple[float, float], ...], str, int]
# A class's title, in a box that truncates the text on a narrow screen: text, x, y, width and alignment.
Title = tuple[str, float, float, float, str]


class Label(NamedTuple):
    """Any other text: x and the baseline y, shifted by `dx` pixels."""

    text: str
    x: float
    y: float
    colour: str = "muted"
    anchor: str = "start"
    dx: float = 0
    bold: bool = False


@dataclass
class Chart:
    """One chart: name, title, alternative text and shapes. `legend` entries are mark, colour, words."""

    per_line: ClassVar = KEYS

    name: str
    title: str
    alt: str
    height: int
    legend: tuple[tuple[str, str, str], ...] = ()
    bars: list[Bar] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    titles: list[Title] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


VALUES: tuple[tuple[str, Callable[[Row], float | None]], ...] = (
    ("Completion, %", lambda d: d.completion),
    ("Score", lambda d: d.score),
    ("Active within 7 days, %", lambda d: d.active),
)


def trend(days: Sequence[Row], values: Sequence[tuple[str, Callable[[Row], float | None]]] = VALUES) -> Chart:
    """Lay out a line for each value, by heading, each below the last. There must be two days or more."""
    first, last = days[0].day, days[-1].day
    span = (last - first).days
    across = scale(first.toordinal(), last.toordinal(), 14, 86)
    # As many dates as fit on the narrowest phone.
    weeks = [last - timedelta(days=n) for n in range(0, span + 1, min(span, 7 if span < 21 else 14 * ceil(span / 84)))]
    bottom = PANEL * len(values)
    chart = Chart(
        "trend", last_days(days), f"{len(values)} lines from {short_date(first)} to {short_date(last)}. ", bottom + 12
    )
    chart.labels = [Label(short_date(day), across(day.toordinal()), bottom + 4, anchor="middle") for day in weeks]
    described = []
    for top, (heading, value) in zip(range(0, bottom, PANEL), values, strict=True):
        high, low = top + 24, top + PANEL - 12
        chart.labels.append(Label(heading, 0, top + 13))
        chart.lines += [(((x, high), (x, low)), "grid", 1) for x in (across(day.toordinal()) for day in weeks)]
        points = [(across(d.day.toordinal()), v) for d in days if (v := value(d)) is not None]
        if not points:
            chart.labels.append(Label("no values", 50, (high + low) / 2, anchor="middle"))
            continue
        up = _up([v for _, v in points], low, high)
        chart.lines.append((tuple((x, up(v)) for x, v in points), "strong", 2))
        for (x, v), anchor, dx, bold in ((points[0], "end", -7, False), (points[-1], "start", 7, True)):
            chart.lines.append((((x, up(v)), (x, up(v))), "strong", DOT))
            chart.labels.append(Label(figure(v), x, up(v) + 4.5, "ink", anchor, dx, bold))
        described.append(f"{heading.lower()}: {figure(points[0][1])} to {figure(points[-1][1])}")
    chart.alt += f"{'; '.join(described)}."
    return chart


def last_days(days: Sequence[Row]) -> str:
    """A title for a trend's days: how many, and how many have records."""
    span = (days[-1].day - days[0].day).days + 1
    return f"The last {span} days" + (f", {len(days)} of them with records" if len(days) < span else "")


def ends(low: float, high: float) -> tuple[float, float]:
    """The ends of a scale for values: at least ten apart, so that noise does not look like a fall.

    They are within 0 to 100 if the values are.
    """
    spare = max(LEAST_SPAN - (high - low), 0) / 2
    low_end, high_end = low - spare, high + spare
    shift = max(-low_end, 0) if low >= 0 else 0
    shift += min(100 - high_end, 0) if high <= 100 else 0
    return round(low_end + shift, 6), round(high_end + shift, 6)


def _up(values: list[float], bottom: float, top: float) -> Callable[[float], float]:
    """A line's vertical scale."""
    return scale(*ends(min(values), max(values)), bottom - 4, top + 4)


def sparkline(steps: Sequence[tuple[int, float]] | None) -> list[tuple[float, float]]:
    """The points, in a box of 100 by 20, of a figure's steps: how many days ago each began (up to SPARK_DAYS), and the
    value, which holds until the next.
    """
    if not steps:
        return []
    across, up = scale(SPARK_DAYS, 0, 0, 100), _up([value for _, value in steps], 20, 0)
    ends = [*(ago for ago, _ in steps[1:]), 0]
    return [(across(ago), up(value)) for (first, value), end in zip(steps, ends, strict=True) for ago in (first, end)]


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """The place of a value between `start` and `end`."""
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 2)


def short_date(day: date) -> str:
    """A day in a chart: 23 Nov."""
    return f"{day.day} {day:%b}"


def day_on(day: date, newest: date) -> str:
    """A day on a page of another day, the newest: 23 Nov, or 23 Nov 2025 if that was in another year."""
    return short_date(day) if day.year == newest.year else f"{short_date(day)} {day.year}"


def with_days(text: str, short: Callable[[date], str]) -> str:
    """A text whose ISO dates are written as these."""
    return DAY.sub(lambda day: short(date.fromisoformat(day[0])), text)


def readable(reason: str, short: Callable[[date], str]) -> str:
    """A reason as the rest of a page is written: its days as these, its measures with one decimal."""
    return with_days(MEASURE.sub(lambda value: figure(float(value[0])), reason), short)


def severity_word(severity: float | None) -> str:
    """High, medium or low; empty for nobody to watch."""
    return "" if severity is None else next(words for least, words in SEVERITIES if severity >= least)


def long_date(day: date) -> str:
    """A page's day: Monday, 23 Nov 2026."""
    return f"{day:%A}, {short_date(day)} {day.year}"
