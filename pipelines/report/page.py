"""Renders the morning page from its template: one self-contained HTML file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import date, datetime
from functools import cache

from jinja2 import Environment

from pipelines import pages
from pipelines.report.charts import KEYS, Chart, last_days
from pipelines.report.morning import CLASSES_TO_WATCH, LEAST_STUDENTS, NAMED, SEVERITIES, Morning, Row
from pipelines.text import markdown

# After this many hours without a new page, the page itself says that it is old.
STALE_HOURS = 36


@cache
def _environment() -> Environment:
    environment = pages.environment("pipelines.report", number=lambda n: f"{n:,}", day=_day)
    environment.globals["per_line"] = KEYS
    return environment


def _render(template: str, **values: object) -> str:
    return _environment().get_template(template).render(values)


def render(
    morning: Morning, charts: Sequence[Chart], *, at: datetime, trouble: str = "", unproven: Sequence[str] = ()
) -> str:
    """Return the page's HTML. `at` is the time shown (UTC), `trouble` what has gone wrong since the data, `unproven`
    what is wrong with sets that stay unproven.
    """
    return _render(
        "page.html",
        morning=morning,
        charts={chart.name: chart for chart in charts},
        figures=_figures(morning),
        verdict=_verdict(morning),
        sentence=_last_night(morning, is_old=bool(trouble)),
        trouble=trouble or _trouble(morning),
        unproven=unproven,
        syncs=_syncs(morning.nights),
        at=f"{at:%Y-%m-%d %H:%M} UTC",
        made=f"{at:%Y-%m-%dT%H:%M:%SZ}",
        stale_hours=STALE_HOURS,
        least_students=LEAST_STUDENTS,
        most_named=NAMED,
        classes_named=CLASSES_TO_WATCH,
        most_severe=SEVERITIES[0],
        trend=last_days(morning.trend) if morning.trend else "",
    )


def picture(chart: Chart) -> str:
    """A chart as Markdown, for Dagster's UI: an image, because the UI drops inline SVG."""
    svg = _render("picture.svg", chart=chart)
    return f"![{markdown(chart.alt)}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"


def _verdict(morning: Morning) -> str:
    """The page's headline: how many students are newly to watch."""
    turned = morning.turned
    if turned is None:
        return f"{_students(morning.to_watch)} to watch on this first night."
    if not turned.newly:
        return f"Nobody is newly to watch; {_students(morning.to_watch)} to watch as before."
    return f"{_students(turned.newly)} newly to watch, of {morning.to_watch:,} in all."


def _last_night(morning: Morning, *, is_old: bool) -> str:
    """How the newest night went, in a sentence; if the page shows older records (`is_old`), only their day."""
    counted = f"{morning.students:,} students and {morning.active_classes:,} active classes"
    last = morning.nights[-1] if morning.nights else None
    if is_old or (last and last.outcome not in ("synced", "unproven")):
        return f"These are the records of {_day(morning.day)}: {counted}."
    if last and last.outcome == "unproven":
        return f"Last night's sync could not be proven complete, so nobody was removed from the lists: {counted}."
    return f"Last night's sync is complete: {counted}."


# What the page says about a night without new data, if there is no error message.
_NOTHING_NEW = {
    "held": "brought more changes than a normal night does, so a person must approve it first.",
    "failed": "failed; whoever runs Rollbook sees why in its log.",
    "missing": "did not take place.",
    "discarded": "was discarded by a person.",
}


def _trouble(morning: Morning) -> str:
    """Why the page does not show the newest night, in a sentence; empty if it does."""
    last = morning.nights[-1] if morning.nights else None
    if last is None or last.outcome not in _NOTHING_NEW:
        return ""
    came = f" It brought {last.students:,} students and {last.classes:,} classes." if last.students else ""
    return f"The sync of {_day(last.day)} {_NOTHING_NEW[last.outcome]}{came}"


def _syncs(nights: Sequence[Row]) -> str:
    """How the last nights' syncs went, in a line."""
    synced = sum(night.outcome == "synced" for night in nights)
    others = [f"{night.day.day} {night.day:%b} {night.outcome}" for night in nights if night.outcome != "synced"]
    return "; ".join([f"{synced} of {len(nights)} nights synced", *others]) + "."


def _figures(morning: Morning) -> list[tuple[str, str, str]]:
    """The key figures: name, value, and comparison with one day about a week ago, the same for all."""
    now = morning.trend[-1] if morning.trend else Row(completion=None, score=None, active=None)
    then = morning.before(7)
    share = f"{100 * morning.to_watch / morning.students:.0f} % of {morning.students:,}" if morning.students else ""
    return [
        ("students to watch", f"{morning.to_watch:,}", f"{share}; {morning.several_reasons:,} for several reasons"),
        ("average completion", _shown(now.completion, " %"), _since(now, then, "completion")),
        ("average score", _shown(now.score), _since(now, then, "score")),
        ("active within 7 days", _shown(now.active, " %"), _since(now, then, "active")),
    ]


def _students(count: int) -> str:
    return "1 student is" if count == 1 else f"{count:,} students are"


def _shown(value: float | None, unit: str = "") -> str:
    return "\N{EN DASH}" if value is None else f"{value:.1f}{unit}"


def _since(today: Row, day: Row | None, measure: str) -> str:
    now, then = getattr(today, measure), getattr(day, measure, None)
    if now is None or day is None or then is None:
        return "nothing from a week ago to compare with"
    since = f"{day.day.day} {day.day:%B}"
    if abs(now - then) < 0.05:
        return f"as on {since}"
    return f"{abs(now - then):.1f} points {'up' if now > then else 'down'} since {since}"


def _day(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B %Y}"
