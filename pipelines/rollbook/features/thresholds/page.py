"""The words and the page of what the thresholds did. It has counts alone, none of one to four students."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

from jinja2 import Template

from rollbook.reading.charts import Row, trend
from rollbook.reading.thresholds import LEAST_SHOWN, NOW, REASONS, TRIED, Measured, Report
from rollbook.store.published import EXPORTS
from rollbook.util import files
from rollbook.util.pages import environment
from rollbook.util.text import cell, listed

FILE = "thresholds.html"
HEADINGS = ("reason", "flagged", "right %", "found %", "early", "lasts", "back %", "a week")
MEANINGS = (
    "flagged: how many students, each once a term. right %: those of them with the outcome later. found %: those of all"
    " with the outcome who were flagged before. early: days of term from the first flag to the outcome (median). lasts:"
    " days of a flag (median). back %: flags that came back within a week. a week: students with the flag in an average"
    " week. A figure that is missing would tell of one to four students, or of nobody."
)
CAVEATS = (
    MEANINGS,
    "These figures cannot know what would have happened otherwise: a student who is flagged may be spoken to, recover,"
    " and look flagged wrongly. Low completion and low score are also the outcome, so they find it by themselves.",
)


def about(report: Report) -> str:
    """What was measured, in words."""
    any_reason = next(each for each in report.rows if each.reason == "any")
    so_already = any_reason.already
    sentences = [
        f"{report.days} landed days, {report.first_day} to {report.last_day}; outcome: {report.outcome}"
        f" ({listed(list(report.periods))}), {_known(any_reason.outcomes)} students."
    ]
    if so_already is not None:
        sentences.append(
            f"{so_already} of the {_known(any_reason.rightly)} who were flagged rightly were under the bounds already"
            " when first flagged."
        )
    if report.tried:
        sentences.append(f"Tried: {', '.join(f'{name}={value:g}' for name, value in report.tried.items())}.")
    return " ".join(sentences)


def lines(report: Report) -> list[tuple[object, ...]]:
    """The rows of the table: each reason, and below it what is tried."""
    by = {(row.reason, row.setting): row for row in report.rows}
    settings = (NOW, TRIED) if report.tried else (NOW,)
    return [
        _line(REASONS[reason] if setting == NOW else "  tried", by[reason, setting])
        for reason in REASONS
        for setting in settings
    ]


def _line(name: str, row: Measured) -> tuple[object, ...]:
    figures = (row.precision_percent, row.recall_percent, row.lead_days, row.lasts_days, row.back_percent, row.a_week)
    return (name, _known(row.flagged), *("" if figure is None else f"{figure:.0f}" for figure in figures))


def _known(count: int | None) -> str:
    return f"under {LEAST_SHOWN}" if count is None else str(count)


def write(root: Path, report: Report) -> Path:
    """Write the page into the warehouse's folder of exports."""
    weeks = sorted({week for _, week, _ in report.weeks})
    flagged = {(setting, week): count for setting, week, count in report.weeks}
    settings = (NOW, TRIED) if report.tried else (NOW,)
    days = [
        Row(day=date.fromisoformat(week), flagged={each: flagged[each, week] for each in settings}) for week in weeks
    ]
    chart = (
        trend(days, [(f"By the thresholds {words}", _of(each)) for each, words in _words(settings)])
        if days[1:]
        else None
    )
    page = _template().render(
        about=about(report),
        headings=HEADINGS,
        lines=lines(report),
        caveats=CAVEATS,
        chart=chart and replace(chart, title="Students flagged in each week"),
    )
    path = files.folder(root / EXPORTS) / FILE
    files.write(path, page.encode())
    return path


def _words(settings: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(each, "of thresholds.csv" if each == NOW else "that are tried") for each in settings]


def _of(setting: str) -> Callable[[Row], float | None]:
    return lambda row: row.flagged[setting]


@cache
def _template() -> Template:
    return environment("rollbook.features.thresholds", cell=cell).get_template("page.html")
