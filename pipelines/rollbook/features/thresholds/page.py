"""The words and the pages of what the thresholds did, and of contacts. They have counts alone, none of one to four
students.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

from jinja2 import Template

from rollbook.reading.charts import Chart, Row, trend
from rollbook.reading.contacts import Contacts, Group
from rollbook.reading.thresholds import LEAST_SHOWN, NOW, REASONS, TRIED, Measured, Report
from rollbook.store.published import EXPORTS
from rollbook.util import files
from rollbook.util.pages import environment
from rollbook.util.text import cell, listed

FILE, CONTACTS_FILE = "thresholds.html", "contacts.html"
TITLE, CONTACTS_TITLE = "What the thresholds did", "Before and after a contact"
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
CONTACTS_HEADINGS = ("reason and severity", "students", "before %", "after %", "still %")
CONTACTS_CAVEATS = (
    "before %, after %: of the assignments that were given in the two weeks before and after, so many were handed in"
    " (over 100: older work, too). still %: still on the list two weeks later. Not spoken to: on the list on the same"
    " days, with the same reason and severity, and nobody spoke to them in these four weeks. A reason or figure that"
    " is missing would tell of one to four students, or of nobody.",
    "This compares, and shows no cause: who is spoken to was chosen, perhaps for what no record says, and who is at the"
    " lowest often recovers anyway.",
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
    chart = chart and replace(chart, title="Students flagged in each week")
    return _written(root / EXPORTS / FILE, TITLE, about(report), HEADINGS, lines(report), CAVEATS, chart)


def _written(
    path: Path,
    title: str,
    about: str,
    headings: Sequence[str],
    lines: Sequence[tuple[object, ...]],
    caveats: Sequence[str],
    chart: Chart | None = None,
) -> Path:
    page = _template().render(title=title, about=about, headings=headings, lines=lines, caveats=caveats, chart=chart)
    files.folder(path.parent)
    files.write(path, page.encode())
    return path


def about_contacts(contacts: Contacts) -> str:
    """What was compared, in words."""
    some = "Some" if contacts.compared is None else contacts.compared
    return (
        f"{_known(contacts.contacts)} contacts, by contacted.csv as it is now. {some} of them are"
        " compared: the student was on the list, nobody had spoken to the student in the two weeks before,"
        " and the two weeks before and after are landed."
    )


def contact_lines(contacts: Contacts) -> list[tuple[object, ...]]:
    """The rows of the table: who was spoken to for a reason, and below them who was not. Without what is hidden."""
    return [
        line
        for each in contacts.rows
        if each.spoken.students
        for line in (
            _group_line(f"{REASONS[each.reason]}, {each.severity}: spoken to", each.spoken),
            _group_line("  not spoken to", each.others),
        )
    ]


def _group_line(name: str, of: Group) -> tuple[object, ...]:
    figures = (of.before_percent, of.after_percent, of.still_percent)
    return (name, *("" if figure is None else f"{figure:.0f}" for figure in (of.students, *figures)))


def write_contacts(root: Path, contacts: Contacts) -> Path:
    """Write the page of contacts into the warehouse's folder of exports."""
    path, lines = root / EXPORTS / CONTACTS_FILE, contact_lines(contacts)
    return _written(path, CONTACTS_TITLE, about_contacts(contacts), CONTACTS_HEADINGS, lines, CONTACTS_CAVEATS)


def _words(settings: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(each, "of thresholds.csv" if each == NOW else "that are tried") for each in settings]


def _of(setting: str) -> Callable[[Row], float | None]:
    return lambda row: row.flagged[setting]


@cache
def _template() -> Template:
    return environment("rollbook.features.thresholds", cell=cell).get_template("page.html")
