"""The charts of the morning page: drawn once by Matplotlib, without a screen, and available in two formats.

As SVG they take their colours from the page (light, dark, print) and their text stays text; as PNG they go into a
run's metadata. They show counts, classes and days, never a person's name. Their data are in `morning`.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.report.morning import CLASSES_TO_WATCH, LEAST_STUDENTS, Compared, Day, Morning, Night

# Used as they are in a PNG; in the page's SVG each is replaced by the style sheet's variable of that name.
COLOURS = {
    "page": "#fffffe",
    "ink": "#1c2430",
    "muted": "#5b6675",
    "grid": "#d9dee5",
    "strong": "#1f5fa8",
    "soft": "#a9c8ea",
    "bad": "#b3401f",
    "warn": "#8a5f00",
    "good": "#2a7f62",
}
WIDTH = 4.4  # inches: as wide as a phone, and two side by side on a desk
OUTCOMES = {
    "synced": "good",
    "unproven": "warn",
    "held": "warn",
    "failed": "bad",
    "missing": "bad",
    "discarded": "muted",
}
MARKS = {"unproven": "?", "held": "!", "failed": "\N{MULTIPLICATION SIGN}", "missing": "\N{EN DASH}", "discarded": "/"}

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud, and takes the page's font
    "svg.hashsalt": "rollbook",  # equal charts are equal files
    "text.parse_math": False,  # a class may have a dollar in its name
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": COLOURS["grid"],
    "axes.labelcolor": COLOURS["muted"],
    "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["ink"],
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


@dataclass(frozen=True)
class Chart:
    """One chart: its name, title, alternative text, and its two formats."""

    name: str
    title: str
    alt: str
    svg: str
    figure: Figure

    def png(self) -> bytes:
        """The chart as a PNG on white, drawn on demand: only a run in Dagster shows it."""
        png = io.BytesIO()
        with _styled():
            self.figure.set_facecolor("white")
            self.figure.savefig(png, format="png", metadata={"Software": None})
        return png.getvalue()

    def markdown(self) -> str:
        """The chart as Markdown with the PNG embedded."""
        return f"**{self.title}**\n\n![{self.alt}](data:image/png;base64,{base64.b64encode(self.png()).decode()})"


def draw(morning: Morning) -> tuple[Chart, ...]:
    """Draw all charts that have data."""
    all_charts: list[tuple[str, str, str, Callable[[], Figure], bool]] = [
        ("watch", "Students to watch, by class", _watch_alt(morning), lambda: _watch(morning), bool(morning.watched)),
        (
            "compare",
            "Classes against their course",
            _compare_alt(morning),
            lambda: _compare(morning),
            bool(morning.ahead or morning.behind),
        ),
        ("trend", "The last month", _trend_alt(morning), lambda: _trend(morning.trend), len(morning.trend) > 1),
        (
            "syncs",
            "The nightly syncs",
            _syncs_alt(morning.nights),
            lambda: _syncs(morning.nights),
            bool(morning.nights),
        ),
    ]
    with _styled():
        return tuple(
            _chart(name, title, alt, figure()) for name, title, alt, figure, has_data in all_charts if has_data
        )


@contextmanager
def _styled() -> Iterator[None]:
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # A class title may have characters that this font lacks; the browser's fonts will have them.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def _chart(name: str, title: str, alt: str, figure: Figure) -> Chart:
    svg = io.StringIO()
    figure.savefig(svg, format="svg", metadata={"Date": None})
    return Chart(name, title, alt, _for_page(name, svg.getvalue()), figure)


def _for_page(name: str, svg: str) -> str:
    """The bare <svg> element: no prologue, no fixed size, the page's colours, ids that no other chart has."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    used = set(re.findall(r'(?:url\(|href=")#([\w-]+)', svg))
    svg = re.sub(r' id="([\w-]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'(url\(|href=")#([\w-]+)', rf"\1#{name}-\2", svg)
    for variable, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{variable})")
    return svg.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1)


def _axes(height: float, rows: int = 1) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(rows, 1, sharex=True, squeeze=False)
    return figure, list(axes[:, 0])


# -- students to watch ----------------------------------------------------------------------------------------------


def _watch(morning: Morning) -> Figure:
    shown = morning.watched[:CLASSES_TO_WATCH]
    figure, (axes,) = _axes(0.7 + 0.3 * len(shown))
    places = range(len(shown))
    several = axes.barh(places, [w.several for w in shown], color=COLOURS["strong"], height=0.66)
    one = axes.barh(places, [w.one for w in shown], left=[w.several for w in shown], color=COLOURS["soft"], height=0.66)
    for place, w in enumerate(shown):
        axes.annotate(
            f"{w.several + w.one} of {w.students}",
            (w.several + w.one, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=COLOURS["muted"],
        )
    _named_rows(axes, [w.class_title for w in shown])
    axes.set_xlim(0, max(w.several + w.one for w in shown) * 1.25)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    figure.legend(
        handles=[several[0], one[0]],
        labels=["several reasons", "one reason"],
        loc="outside upper left",
        ncols=2,
        frameon=False,
        borderpad=0,
    )
    return figure


def _watch_alt(morning: Morning) -> str:
    shown = "; ".join(
        f"{w.class_title}: {w.several + w.one} of {w.students}, {w.several} for several reasons"
        for w in morning.watched[:CLASSES_TO_WATCH]
    )
    return f"Bars, one per class, of its students to watch. {shown}."


# -- classes compared -----------------------------------------------------------------------------------------------


def _compare(morning: Morning) -> Figure:
    shown = [*morning.ahead, *reversed(morning.behind)]
    figure, (axes,) = _axes(0.4 + 0.3 * len(shown))
    colours = [COLOURS["good"] if c.points > 0 else COLOURS["bad"] for c in shown]
    axes.barh(range(len(shown)), [c.points for c in shown], color=colours, height=0.66)
    for place, c in enumerate(shown):
        axes.annotate(
            f"{c.points:+.0f}".replace("-", "\N{MINUS SIGN}"),
            (c.points, place),
            xytext=(4 if c.points > 0 else -4, 0),
            textcoords="offset points",
            va="center",
            ha="left" if c.points > 0 else "right",
        )
    _named_rows(axes, [c.class_title for c in shown])
    most = max(abs(c.points) for c in shown) * 1.22
    axes.set_xlim(-most if morning.behind else 0, most if morning.ahead else 0)
    axes.axvline(0, color=COLOURS["muted"], linewidth=0.8)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    return figure


def _compare_alt(morning: Morning) -> str:
    def listed(some: tuple[Compared, ...]) -> str:
        return "; ".join(f"{c.class_title}: {c.points:+.0f}" for c in some) or "none"

    return (
        "Bars, one per class, of the points of completion that it is ahead of or behind the average of its course;"
        f" classes of {LEAST_STUDENTS} students and more. Furthest ahead: {listed(morning.ahead)}."
        f" Furthest behind: {listed(morning.behind)}."
    )


def _named_rows(axes: Axes, titles: list[str]) -> None:
    short = [t if len(t) <= 26 else f"{t[:25]}…" for t in titles]
    axes.set_yticks(range(len(short)), short)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()


# -- the month ------------------------------------------------------------------------------------------------------

_LINES: tuple[tuple[str, str, Callable[[Day], float | None]], ...] = (
    ("Completion, %", "strong", lambda d: d.completion),
    ("Score", "strong", lambda d: d.score),
    ("Active within 7 days, %", "strong", lambda d: d.active),
)


def _trend(days: tuple[Day, ...]) -> Figure:
    figure, lines = _axes(3.7, rows=len(_LINES))
    for axes, (title, colour, value) in zip(lines, _LINES, strict=True):
        points = [(d.day.toordinal(), v) for d in days if (v := value(d)) is not None]
        axes.set_title(title, loc="left", fontsize=10, color=COLOURS["muted"], pad=3)
        axes.yaxis.set_visible(False)
        axes.grid(axis="y", color=COLOURS["grid"], linewidth=0.6)
        if not points:
            continue
        axes.plot([p[0] for p in points], [p[1] for p in points], color=COLOURS[colour], linewidth=1.8)
        low, high = min(p[1] for p in points), max(p[1] for p in points)
        # At least five points from bottom to top: a change of a tenth must not look dramatic.
        spare = max(5 - (high - low), 0) / 2 + 0.15 * max(high - low, 5)
        axes.set_ylim(low - spare, high + spare)
        for (day, number), side in ((points[0], -1), (points[-1], 1)):
            axes.plot([day], [number], "o", color=COLOURS[colour], markersize=4)
            axes.annotate(
                f"{number:.1f}",
                (day, number),
                xytext=(7 * side, 0),
                textcoords="offset points",
                va="center",
                ha="left" if side > 0 else "right",
                fontweight="bold" if side > 0 else "normal",
            )
    first, last = days[0].day, days[-1].day
    lines[-1].set_xticks([d.toordinal() for d in (first, last)], [_short(first), _short(last)])
    lines[-1].margins(x=0.12)
    return figure


def _trend_alt(morning: Morning) -> str:
    parts = []
    for title, _, value in _LINES:
        numbers = [v for d in morning.trend if (v := value(d)) is not None]
        if numbers:
            parts.append(f"{title.lower()}: {numbers[0]:.1f} to {numbers[-1]:.1f}")
    since = f" from {_short(morning.trend[0].day)} to {_short(morning.trend[-1].day)}" if morning.trend else ""
    return f"Three lines{since}. {'; '.join(parts)}."


# -- the syncs ------------------------------------------------------------------------------------------------------


def _syncs(nights: tuple[Night, ...]) -> Figure:
    figure, (axes,) = _axes(0.75)
    for place, night in enumerate(nights):
        axes.barh(0, 0.86, left=place + 0.07, height=0.9, color=COLOURS[OUTCOMES[night.outcome]])
        if mark := MARKS.get(night.outcome):
            axes.text(place + 0.5, 0, mark, ha="center", va="center", color=COLOURS["page"], fontweight="bold")
    axes.set_xlim(0, max(len(nights), 14))
    axes.yaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    ends = [0.5, len(nights) - 0.5] if len(nights) > 1 else [0.5]
    axes.set_xticks(ends, [_short(n.day) for n in (nights[0], nights[-1])][: len(ends)])
    axes.tick_params(axis="x", length=0)
    return figure


def _syncs_alt(nights: tuple[Night, ...]) -> str:
    other = "; ".join(f"{_short(n.day)} {n.outcome}" for n in nights if n.outcome != "synced")
    synced = sum(n.outcome == "synced" for n in nights)
    return f"A row of squares, one per night: {synced} of {len(nights)} synced. {other or 'No other outcome'}."


def _short(day: date) -> str:
    return f"{day.day} {day:%b}"
