"""The morning page from its template: one file with everything in it, and nothing fetched when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

from pipelines.report.charts import Chart
from pipelines.report.morning import LEAST_STUDENTS, NAMED, Day, Morning

# After this many hours without a new page, the page itself says that it is old.
STALE_HOURS = 36


@cache
def _template() -> Template:
    text = files("pipelines.report").joinpath("page.html").read_text(encoding="utf-8")
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["number"] = lambda n: f"{n:,}"
    made.filters["day"] = _day
    return made.from_string(text)


def render(said: Morning, charts: Sequence[Chart], *, at: datetime, trouble: str = "") -> str:
    """The page's HTML; `at` is when it was made (UTC), `trouble` what has gone wrong since the data it shows."""
    return _template().render(
        said=said,
        charts={chart.name: chart for chart in charts},
        figures=_figures(said),
        sentence=_last_night(said),
        trouble=trouble,
        at=f"{at:%Y-%m-%d %H:%M} UTC",
        made=f"{at:%Y-%m-%dT%H:%M:%SZ}",
        stale_hours=STALE_HOURS,
        least_students=LEAST_STUDENTS,
        most_named=NAMED,
    )


def _last_night(said: Morning) -> str:
    """What became of the newest night, in a sentence."""
    counted = f"{said.students:,} students and {said.active_classes:,} active classes"
    last = said.nights[-1] if said.nights else None
    if last is None or last.outcome == "synced":
        return f"Last night's sync is complete: {counted}."
    if last.outcome == "unproven":
        return f"Last night's sync is in, but not proven complete, so nobody was taken off the lists: {counted}."
    return f"The night of {_day(last.day)}: {last.said} What follows is of {_day(said.day)}: {counted}."


def _figures(said: Morning) -> list[tuple[str, str, str]]:
    """The few numbers to look at first: what, how much, and against a week ago."""
    now = said.trend[-1] if said.trend else Day(said.day, said.students, None, None, None)
    then = said.before(7)
    share = f"{100 * said.to_watch / said.students:.0f} % of {said.students:,}" if said.students else ""
    return [
        ("students to watch", f"{said.to_watch:,}", f"{share}; {said.several_reasons:,} for several reasons"),
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
