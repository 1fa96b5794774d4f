"""Renders the morning page from its template: one self-contained file, which loads nothing when it is opened."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import date, datetime
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from pipelines.report.charts import KEYS, Chart
from pipelines.report.morning import LEAST_STUDENTS, NAMED, Day, Morning
from pipelines.text import markdown, printable

# After this many hours without a new page, the page itself says that it is old.
STALE_HOURS = 36


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(lambda name: files("pipelines.report").joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda n: f"{n:,}"
    environment.filters["day"] = _day
    environment.filters["printable"] = printable
    environment.globals["per_line"] = KEYS
    return environment


def _render(template: str, **values: object) -> str:
    return _environment().get_template(template).render(values)


def render(morning: Morning, charts: Sequence[Chart], *, at: datetime, trouble: str = "") -> str:
    """The page's HTML. `at` is when it was made (UTC), `trouble` what has gone wrong since the data it shows."""
    return _render(
        "page.html",
        morning=morning,
        charts={chart.name: chart for chart in charts},
        figures=_figures(morning),
        sentence=_last_night(morning),
        trouble=trouble,
        at=f"{at:%Y-%m-%d %H:%M} UTC",
        made=f"{at:%Y-%m-%dT%H:%M:%SZ}",
        stale_hours=STALE_HOURS,
        least_students=LEAST_STUDENTS,
        most_named=NAMED,
    )


def picture(chart: Chart) -> str:
    """A chart as Markdown, for Dagster's UI: an image, since it leaves out drawings that are not one."""
    svg = _render("picture.svg", chart=chart)
    return f"![{markdown(chart.alt)}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"


def _last_night(morning: Morning) -> str:
    """How the newest night went, in a sentence."""
    counted = f"{morning.students:,} students and {morning.active_classes:,} active classes"
    last = morning.nights[-1] if morning.nights else None
    if last is None or last.outcome == "synced":
        return f"Last night's sync is complete: {counted}."
    if last.outcome == "unproven":
        return f"Last night's sync could not be proven complete, so nobody was removed from the lists: {counted}."
    return f"The night of {_day(last.day)}: {last.text} This page shows {_day(morning.day)}: {counted}."


def _figures(morning: Morning) -> list[tuple[str, str, str]]:
    """The key figures: name, value, and comparison with a week ago."""
    now = morning.trend[-1] if morning.trend else Day(morning.day, morning.students, None, None, None)
    then = morning.before(7)
    share = f"{100 * morning.to_watch / morning.students:.0f} % of {morning.students:,}" if morning.students else ""
    return [
        ("students to watch", f"{morning.to_watch:,}", f"{share}; {morning.several_reasons:,} for several reasons"),
        ("average completion", _percent(now.completion), _since(now.completion, then and then.completion)),
        ("average score", _score(now.score), _since(now.score, then and then.score)),
        ("active within 7 days", _percent(now.active), _since(now.active, then and then.active)),
    ]


def _percent(value: float | None) -> str:
    return "\N{EN DASH}" if value is None else f"{value:.1f} %"


def _score(value: float | None) -> str:
    return "\N{EN DASH}" if value is None else f"{value:.1f}"


def _since(now: float | None, then: float | None) -> str:
    if now is None or then is None:
        return "nothing from a week ago to compare with"
    if abs(now - then) < 0.05:
        return "as a week ago"
    return f"{abs(now - then):.1f} points {'up' if now > then else 'down'} in a week"


def _day(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B %Y}"
