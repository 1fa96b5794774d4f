"""Renders rows, key figures and line charts as HTML that escapes all values. Does not use marimo."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment

from pipelines import pages
from pipelines.text import cell as text_of
from pipelines.text import printable

NOTHING = "\N{EN DASH}"
# A chart's axis covers at least this many units, so that a change of a tenth does not look dramatic.
LEAST_SPAN = 5.0

_DAY = re.compile(r"\d{4}-\d\d-\d\d")

Point = tuple[date, float | None]


class Link(NamedTuple):
    """A cell that leads to another page."""

    text: str
    href: str


@cache
def _environment() -> Environment:
    environment = pages.environment("pipelines.explore", cell=cell)
    environment.tests["day"] = lambda value: bool(_DAY.fullmatch(str(value)))
    return environment


def _render(template: str, **values: object) -> str:
    # One line: a notebook would render indented lines as Markdown code.
    return _environment().get_template(template).render(values).replace("\n", "")


def style() -> str:
    """The style sheet, as an element."""
    return f"<style>{_environment().get_template('explore.css').render()}</style>"


def cell(value: object) -> str:
    """A value as text: a dash if unknown, numbers with at most two decimals, ISO dates."""
    if value is None:
        return NOTHING
    if _is_number(value):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")
    return printable(text_of(value))


def page_of(page: str, **chosen: object) -> str:
    """The address of a page of the app, with the choices on it."""
    return f"?{urlencode({'page': page, **chosen})}"


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], ids: Sequence[int] = ()) -> str:
    """A table; numbers are right-aligned. `ids` are the indexes of columns without thousands separators."""
    listed = [[str(v) if n in ids and v is not None else v for n, v in enumerate(row)] for row in rows]
    numeric = {n for n in range(len(headings)) if _is_numeric([row[n] for row in listed])}
    return _render("table.html", headings=headings, rows=listed, numeric=numeric)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_numeric(values: Sequence[object]) -> bool:
    known = [v for v in values if v is not None]
    return bool(known) and all(map(_is_number, known))


def linked(rows: Iterable[Sequence[Any]], page: str, key: str) -> list[list[Any]]:
    """Rows without their first value, an id; their second value becomes a link to the id's page."""
    return [[Link(str(text or key_value), page_of(page, **{key: key_value})), *rest] for key_value, text, *rest in rows]


def figures(listed: Sequence[tuple[str, object, str]]) -> str:
    """Key figures: a name, a value and a note each."""
    return _render("figures.html", figures=listed)


def heading(title: str, below: str) -> str:
    """A title, with a line below it."""
    return _render("words.html", tag="h2", text=title, below=below, kind="heading")


def subtitle(text: str) -> str:
    """The title of a section."""
    return _render("words.html", tag="h3", text=text, below="", kind="subtitle")


def note(text: str) -> str:
    """A remark."""
    return _render("words.html", tag="p", text=text, below="", kind="note")


def verdict(text: str, below: str, good: bool) -> str:
    """The outcome of the newest night: a sentence, and the details below it."""
    return _render("words.html", tag="p", text=text, below=below, kind="verdict" if good else "verdict rb-bad")


def since(now: float | None, then: float | None, day: date | None, unit: str = "points") -> str:
    """A text that compares a figure with an earlier day's."""
    if now is None or then is None or day is None:
        return "nothing earlier to compare with"
    change = now - then
    if abs(change) < 0.005:
        return f"as on {_short(day)}"
    return f"{cell(round(abs(change), 2))} {unit} {'up' if change > 0 else 'down'} since {_short(day)}"


def lines(*drawn: str) -> str:
    """Several line charts side by side, or stacked if there is no room."""
    return f'<div class="rb-lines">{"".join(drawn)}</div>'


def line(title: str, points: Sequence[Point]) -> str:
    """A line chart of one value over landed days. Days without a value have no point."""
    known = [(day, value) for day, value in points if value is not None]
    if len({day for day, _ in known}) < 2:
        return _render("line.html", title=title, points=(), labels=(), text="Too few days for a line so far.")
    (first, begin), (last, end) = known[0], known[-1]
    values = [value for _, value in known]
    spare = max(LEAST_SPAN - (max(values) - min(values)), 0) / 2
    across = _scale(first.toordinal(), last.toordinal(), 0, 100)
    up = _scale(min(values) - spare, max(values) + spare, 100, 0)
    labels = (
        (14, 8 + up(begin) * 0.98 + 4, _figure(begin), "end", -6),
        (86, 8 + up(end) * 0.98 + 4, _figure(end), "start", 6),
        (14, 124, _short(first), "middle", 0),
        (86, 124, _short(last), "middle", 0),
    )
    text = f"{title}: {_figure(begin)} on {first}, {_figure(end)} on {last}"
    drawn = [(across(day.toordinal()), up(value)) for day, value in known]
    return _render("line.html", title=title, points=drawn, labels=labels, text=text)


def _short(day: date) -> str:
    return f"{day.day} {day:%b}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if isinstance(value, int) else f"{value:.1f}"


def _scale(low: float, high: float, start: float, stop: float) -> Callable[[float], float]:
    return lambda value: start + (value - low) / (high - low) * (stop - start)
