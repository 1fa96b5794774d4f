"""Lays out the charts of the morning page: where each bar, line and text goes. `chart.svg` draws them.

They show counts, classes and days, never a person's name. Horizontal positions are percentages of the chart's width, so
that a chart fits any screen while its text keeps its size; vertical positions and heights are pixels. Colours are names
of the page's CSS variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import NamedTuple

from pipelines.report.morning import CLASSES_TO_WATCH, LEAST_STUDENTS, Morning, Row

# Each outcome's mark and colour.
OUTCOMES = {
    "synced": ("", "good"),
    "unproven": ("?", "warn"),
    "held": ("!", "warn"),
    "failed": ("\N{MULTIPLICATION SIGN}", "bad"),
    "missing": ("\N{EN DASH}", "bad"),
    "discarded": ("/", "muted"),
}
SQUARE = "\N{BLACK SQUARE}"

LEGEND = 24  # a line of the legend
KEYS = 4  # legend entries per line, on the narrowest phone
ROW = 36  # a class with its bar below its title
SIDE = 27  # a class with its bar beside its title
PANEL = 128  # one of the month's lines, with its heading
DOT = 7


# A filled rectangle: x, y, width, height and colour.
Bar = tuple[float, float, float, float, str]
# A line through points, its colour and width; a dot if both ends are the same point.
Line = tuple[tuple[tuple[float, float], ...], str, int]
# A class's title, in a box that truncates it on a narrow screen: text, x, y, width and alignment.
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
    """One chart: its name, title, alternative text and shapes. `legend` entries are mark, colour, words."""

    name: str
    title: str
    alt: str
    height: int
    legend: tuple[tuple[str, str, str], ...] = ()
    bars: list[Bar] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    titles: list[Title] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)

    @property
    def heading(self) -> str:
        """A title that is the same every night."""
        return "Completion, score and activity" if self.name == "trend" else self.title


def draw(morning: Morning) -> tuple[Chart, ...]:
    """Lay out all charts that have data."""
    compared = (*morning.ahead, *reversed(morning.behind))
    charts = (
        _watch(morning.watched[:CLASSES_TO_WATCH]) if morning.watched else None,
        _compare(compared) if compared else None,
        _trend(morning.trend) if len(morning.trend) > 1 else None,
        _syncs(morning.nights) if morning.nights else None,
    )
    return tuple(chart for chart in charts if chart)


def _watch(shown: tuple[Row, ...]) -> Chart:
    described = (f"{w.class_title}: {w.watched} of {w.students}, {w.new} new" for w in shown)
    legend = ((SQUARE, "strong", "newly to watch"),) if any(w.new for w in shown) else ()
    chart = Chart(
        "watch",
        "Students to watch, by class",
        f"Bars, one per class, of its students to watch. {'; '.join(described)}.",
        LEGEND * bool(legend) + ROW * len(shown),
        (*legend, (SQUARE, "soft", "as before")) if legend else (),
    )
    across = _scale(0, max(w.watched for w in shown), 0, 100)
    for y, w in zip(range(LEGEND * bool(legend), chart.height, ROW), shown, strict=True):
        new, both = across(w.new), across(w.watched)
        chart.titles.append((w.class_title, 0, y, 62, "left"))
        more = f", {w.new} new" if w.new else ""
        chart.labels.append(Label(f"{w.watched} of {w.students}{more}", 100, y + 14, anchor="end"))
        chart.bars += [(0, y + 20, new, 9, "strong"), (new, y + 20, both - new, 9, "soft")]
    return chart


def _compare(shown: tuple[Row, ...]) -> Chart:
    """Each class has its bar on one side of the middle and its title on the other, so that they never overlap."""

    def described(some: Iterable[Row]) -> str:
        return "; ".join(f"{c.class_title}: {_signed(c)}" for c in some) or "none"

    chart = Chart(
        "compare",
        "Classes against their course",
        "Bars, one per class, of the points of completion that it is ahead of or behind the average of its course;"
        f" classes of {LEAST_STUDENTS} students and more."
        f" Furthest ahead: {described(c for c in shown if c.points > 0)}."
        f" Furthest behind: {described(c for c in reversed(shown) if c.points < 0)}.",
        LEGEND + SIDE * len(shown),
        ((SQUARE, "good", "points ahead"), (SQUARE, "bad", "points behind")),
    )
    most = max(abs(c.points) for c in shown)
    across = _scale(-most, most, 16, 84)
    for y, c in zip(range(LEGEND, chart.height, SIDE), shown, strict=True):
        end, ahead = across(c.points), c.points > 0
        chart.titles.append((c.class_title, 0 if ahead else 51.5, y + 3, 48.5, "right" if ahead else "left"))
        anchor, dx = ("start", 5) if ahead else ("end", -5)
        chart.labels.append(Label(_signed(c), end, y + 17, "ink", anchor, dx))
        chart.bars.append((min(50, end), y + 4, abs(end - 50), 17, "good" if ahead else "bad"))
    chart.lines.append((((50, LEGEND), (50, chart.height)), "muted", 1))
    return chart


_VALUES: tuple[tuple[str, Callable[[Row], float | None]], ...] = (
    ("Completion, %", lambda d: d.completion),
    ("Score", lambda d: d.score),
    ("Active within 7 days, %", lambda d: d.active),
)


def _trend(days: tuple[Row, ...]) -> Chart:
    first, last = days[0].day, days[-1].day
    span = (last - first).days
    across = _scale(first.toordinal(), last.toordinal(), 14, 86)
    # As many dates as fit on the narrowest phone.
    weeks = [last - timedelta(days=n) for n in range(0, span + 1, min(span, 7 if span < 21 else 14))]
    bottom = PANEL * len(_VALUES)
    chart = Chart("trend", last_days(days), f"Three lines from {_short(first)} to {_short(last)}. ", bottom + 12)
    chart.labels = [Label(_short(day), across(day.toordinal()), bottom + 4, anchor="middle") for day in weeks]
    described = []
    for top, (heading, value) in zip(range(0, bottom, PANEL), _VALUES, strict=True):
        high, low = top + 24, top + PANEL - 12
        chart.labels.append(Label(heading, 0, top + 13))
        chart.lines += [(((x, high), (x, low)), "grid", 1) for x in (across(day.toordinal()) for day in weeks)]
        known = [(across(d.day.toordinal()), v) for d in days if (v := value(d)) is not None]
        if not known:
            chart.labels.append(Label("no values", 50, (high + low) / 2, anchor="middle"))
            continue
        up = _up([v for _, v in known], low, high)
        chart.lines.append((tuple((x, up(v)) for x, v in known), "strong", 2))
        for (x, v), anchor, dx, bold in ((known[0], "end", -7, False), (known[-1], "start", 7, True)):
            chart.lines.append((((x, up(v)), (x, up(v))), "strong", DOT))
            chart.labels.append(Label(f"{v:.1f}", x, up(v) + 4.5, "ink", anchor, dx, bold))
        described.append(f"{heading.lower()}: {known[0][1]:.1f} to {known[-1][1]:.1f}")
    chart.alt += f"{'; '.join(described)}."
    return chart


def last_days(days: tuple[Row, ...]) -> str:
    """A title for a trend's days: how many, and how many have records."""
    span = (days[-1].day - days[0].day).days + 1
    return f"The last {span} days" + (f", {len(days)} of them with records" if len(days) < span else "")


def _up(values: list[float], bottom: float, top: float) -> Callable[[float], float]:
    """A line's vertical scale. It spans at least five points, so that a change of a tenth does not look dramatic."""
    low, high = min(values), max(values)
    spare = max(5 - (high - low), 0) / 2
    return _scale(low - spare, high + spare, bottom - 4, top + 4)


def _syncs(nights: tuple[Row, ...]) -> Chart:
    outcomes = [night.outcome for night in nights]
    described = "; ".join(f"{_short(night.day)} {night.outcome}" for night in nights if night.outcome != "synced")
    legend = tuple((mark or SQUARE, colour, o) for o, (mark, colour) in OUTCOMES.items() if o in outcomes)
    top = LEGEND * (2 if len(legend) > KEYS else 1)
    chart = Chart(
        "syncs",
        "The nightly syncs",
        f"A row of squares, one per night: {outcomes.count('synced')} of {len(nights)} synced."
        f" {described or 'No other outcome'}.",
        top + 58,
        legend,
    )
    across = _scale(0, max(len(nights), 14), 6, 94)
    for n, night in enumerate(nights):
        mark, colour = OUTCOMES[night.outcome]
        chart.bars.append((across(n + 0.07), top, across(n + 0.93) - across(n + 0.07), 34, colour))
        chart.labels.append(Label(mark, across(n + 0.5), top + 22, "page", "middle", bold=True))
    for n in range(len(nights) - 1, -1, -7):
        chart.labels.append(Label(_short(nights[n].day), across(n + 0.5), top + 50, anchor="middle"))
    return chart


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: round(start + (value - low) / (high - low) * (end - start), 2)


def _signed(compared: Row) -> str:
    return f"{compared.points:+.1f}".replace("-", "\N{MINUS SIGN}")


def _short(day: date) -> str:
    return f"{day.day} {day:%b}"
