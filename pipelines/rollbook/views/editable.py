"""The CSV files that the institution edits, next to the published file.

`thresholds.csv` has the thresholds of the view `students_to_watch`, which `sql/_watch.sql` and `sql/progress_daily.sql`
use; `terms.csv` the terms that the view `calendar` uses, at first none. Each publish reads them into their tables, so
that each published file has the thresholds and terms it was computed with. A list of outcomes is read when it is
asked for. `contacted.csv` is of `contacted`, which reads lines and dates as they are read here.

Accepts what spreadsheet programs save: a byte order mark, semicolons, spaces around a cell, empty lines.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path

import duckdb

from rollbook.errors import SettingError
from rollbook.landing.records import as_id
from rollbook.store.statements import statements
from rollbook.util import files

THRESHOLDS, TERMS = "thresholds.csv", "terms.csv"
OUTCOMES_HEADER = ("student_id", "on")
THRESHOLDS_HEADER, TERMS_HEADER = ("name", "value", "meaning"), ("name", "first_day", "last_day")
MARK = "\ufeff"
# ISO, and the format of spreadsheet programs in much of Europe. 1/2/2026 is ambiguous, so it is refused.
FORMATS = ("%Y-%m-%d", "%d.%m.%Y")

sql = statements("rollbook.views")


@dataclass(frozen=True)
class Threshold:
    """One line of the file: a value between 0 and `most`, and what it means."""

    name: str
    value: float
    meaning: str
    most: float


# Measured in made-up school years (tests/bench): all who stop working are found within six school days, most who slip
# within fifteen, and fewer than one in a hundred others a week is flagged wrongly. A threshold missing from the file
# has its default, so that older files stay valid.
DEFAULTS: tuple[Threshold, ...] = (
    Threshold("completion_below", 30, "Low completion: completion_rate under this, percent.", 100),
    Threshold(
        "low_completion_assignments",
        15,
        "Low completion: only with this many assignments or more; the first of a year are often not due yet.",
        36_500,
    ),
    Threshold("score_below", 50, "Low score: average_score under this.", 100),
    Threshold("inactive_school_days", 5, "Inactive: no activity for this many school days or more.", 3_650),
    Threshold(
        "never_logged_in_school_days", 15, "Never logged in, and registered this many school days ago or longer.", 3_650
    ),
    Threshold("missing_assignments", 2, "Missing work: this many assignments or more above what is expected.", 36_500),
    Threshold("missing_percent", 33, "Missing work: and this share or more of those that fell due, percent.", 100),
    Threshold("missing_school_days", 7, "Missing work: within this many school days.", 3_650),
    Threshold("stays_school_days", 5, "How many school days missing work, low completion and a low score last.", 3_650),
    Threshold("school_day_percent", 25, "A school day: this share or more of the students were active, percent.", 100),
    Threshold(
        "least_assignments",
        5,
        "Class comparison: only with this many assignments or more; one of fewer moves it by over 20 points.",
        36_500,
    ),
)
# Names of earlier versions, with their defaults and what decides instead. A file that has the default stays valid.
FORMER: Mapping[str, tuple[float, str]] = {
    "inactive_days": (21, "inactive_school_days"),
    "inactive_term_days": (7, "inactive_school_days"),
    "never_logged_in_days": (14, "never_logged_in_school_days"),
    "falling_points": (5, "missing_percent"),
    "falling_score_points": (20, "score_below"),
    "falling_days": (10, "missing_school_days"),
}


@dataclass(frozen=True)
class Term:
    """One line of the file: a term's name, and its first and last day, inclusive."""

    name: str
    first_day: date
    last_day: date


@dataclass(frozen=True)
class Line:
    """One line that is not empty: its number in the file, its cells, whether numbers have decimal commas, and the
    file's heading, in lower case.
    """

    number: int
    cells: Sequence[str]
    decimal_comma: bool
    heading: Sequence[str] = ()


def ensure(root: Path, mode: int = files.PRIVATE_FILE, *, terms: Iterable[Term] = ()) -> None:
    """Write each file if there is none: the default thresholds, and the `terms`."""
    for name, text in ((THRESHOLDS, render_thresholds()), (TERMS, render_terms(terms))):
        if not (root / name).exists():
            files.write(root / name, text.encode(), mode)


def render_thresholds() -> str:
    """Return the text of `thresholds.csv` with the defaults."""
    return render(THRESHOLDS_HEADER, ((t.name, f"{t.value:g}", t.meaning) for t in DEFAULTS))


def render_terms(terms: Iterable[Term] = ()) -> str:
    """Return the text of `terms.csv` with these terms."""
    return render(TERMS_HEADER, ((t.name, str(t.first_day), str(t.last_day)) for t in terms))


def render(header: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str = ",") -> str:
    """Return the text of a CSV file."""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def fill(con: duckdb.DuckDBPyConnection, thresholds: Iterable[Threshold], terms: Iterable[Term]) -> None:
    """Replace the rows of `main.thresholds` and `main.terms`, and of `main.active_days`, which need no file."""
    con.execute("DELETE FROM main.thresholds")
    con.executemany("INSERT INTO main.thresholds VALUES (?, ?, ?)", [(t.name, t.value, t.meaning) for t in thresholds])
    con.execute("DELETE FROM main.terms")
    for term in terms:
        con.execute("INSERT INTO main.terms VALUES ($1, $2, $3)", [term.name, term.first_day, term.last_day])
    con.execute("DELETE FROM main.active_days")
    con.execute(f"INSERT INTO main.active_days {sql('active_days')}")


def read_thresholds(path: Path) -> tuple[Threshold, ...]:
    """Read every threshold: the file's value, or the default where it has none.

    Raises SettingError, which names the line and what to write instead.
    """
    defaults = {t.name: t for t in DEFAULTS}
    thresholds: dict[str, Threshold] = {}
    for line in lines(path, THRESHOLDS_HEADER, needed=2):
        name = line.cells[0]
        if name in FORMER:
            default, instead = FORMER[name]
            if _value(line) != default:
                advice = f"{name} decides nothing any more: remove the line; {instead} decides instead"
                raise malformed(path, line.number, advice)
            continue
        if name not in defaults:
            raise malformed(path, line.number, f"{name[:40]!r} is not a threshold; write one of {', '.join(defaults)}")
        if name in thresholds:
            raise malformed(path, line.number, f"{name} is listed twice; keep one of the lines")
        thresholds[name] = replace(defaults[name], value=_number(path, line, defaults[name]))
    return tuple(thresholds.get(t.name, t) for t in DEFAULTS)


def _value(line: Line) -> float:
    try:
        return float(line.cells[1].replace(",", ".") if line.decimal_comma else line.cells[1])
    except ValueError:
        return -1.0


def _number(path: Path, line: Line, default: Threshold) -> float:
    value = _value(line)
    if not 0 <= value <= default.most:  # also refuses nan
        advice = f"write a number from 0 to {default.most:g}, such as {default.value:g}"
        raise malformed(path, line.number, f"{default.name} is {line.cells[1][:40]!r}; {advice}")
    return value


def read_terms(path: Path) -> tuple[Term, ...]:
    """Read the terms, in the order of their days. Raises SettingError, which names the line and what to write."""
    terms: dict[str, tuple[Term, int]] = {}
    for line in lines(path, TERMS_HEADER, needed=3):
        term = _term(path, line)
        if term.name in terms:
            raise malformed(path, line.number, f"{term.name[:40]!r} is listed twice; give each term its own name")
        terms[term.name] = term, line.number
    in_order = sorted(terms.values(), key=lambda entry: entry[0].first_day)
    for (one, _), (next_, number) in pairwise(in_order):
        if next_.first_day <= one.last_day:
            raise malformed(
                path,
                number,
                f"{next_.name[:40]!r} begins on {next_.first_day}, before {one.name[:40]!r} is over: a day is in one"
                " term at most",
            )
    return tuple(term for term, _ in in_order)


def _term(path: Path, line: Line) -> Term:
    name, first, last = line.cells[:3]
    if not name:
        raise malformed(path, line.number, "a term needs a name, such as Autumn 2026")
    term = Term(name, day_in(path, line, "first_day", first), day_in(path, line, "last_day", last))
    if term.last_day < term.first_day:
        raise malformed(path, line.number, f"{name[:40]!r} ends before it begins; swap its days")
    return term


def read_outcomes(path: Path) -> tuple[tuple[int, date], ...]:
    """Read a school's own list of outcomes, a student and a day a line, such as who left without a certificate.

    Raises SettingError, which names the line and what to write.
    """
    outcomes = list[tuple[int, date]]()
    for line in lines(path, OUTCOMES_HEADER, needed=2):
        if (student_id := as_id(line.cells[0])) is None:
            raise malformed(
                path, line.number, f"student_id is {line.cells[0][:40]!r}; write a number, as in students_to_watch"
            )
        outcomes.append((student_id, day_in(path, line, "on", line.cells[1])))
    return tuple(outcomes)


def heading_of(lines: Sequence[str]) -> tuple[list[str], str]:
    """Return the columns of a file, and what separates them."""
    delimiter = ";" if lines[0].count(";") > lines[0].count(",") else ","
    heading = lines[0].removeprefix(MARK)
    return [cell.strip() for cell in next(csv.reader([heading], delimiter=delimiter), [])], delimiter


def day_in(path: Path, line: Line, column: str, text: str) -> date:
    """Read a date of a line. Raises SettingError."""
    for form in FORMATS:
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a date has no zone
        except ValueError:
            continue
    raise malformed(path, line.number, f"{column} is {text[:40]!r}; write a date such as 2026-09-01")


def lines(path: Path, header: Sequence[str], needed: int, text: str | None = None) -> Iterator[Line]:
    """Yield the lines below the heading, each padded to at least `needed` cells; empty lines are skipped. `text` is the
    file's, if it is read already.

    Raises SettingError if the file is not a CSV file whose first `needed` columns are those of `header`.
    """
    try:
        whole = (path.read_text("utf-8-sig") if text is None else text).splitlines()
    except (ValueError, IsADirectoryError):
        raise malformed(path, 1, "it is not a CSV text file; save it as CSV (UTF-8)") from None
    delimiter = heading_of(whole)[1] if whole else ","
    rows = [_cells(path, number, line, delimiter) for number, line in enumerate(whole, start=1)]
    heading = [cell.lower() for cell in rows[0]] if rows else []
    if not rows or heading[:needed] != list(header[:needed]):
        raise malformed(path, 1, f"the heading must be {','.join(header)}")
    for number, cells in enumerate(rows[1:], start=2):
        if any(cells):
            yield Line(number, [*cells, *[""] * (needed - len(cells))], delimiter == ";", heading)


def _cells(path: Path, number: int, line: str, delimiter: str) -> list[str]:
    """The cells of one line. Each is read by itself, or a quotation mark that is not closed would swallow the rest."""
    try:
        return [cell.strip() for row in csv.reader([line], delimiter=delimiter, strict=True) for cell in row]
    except csv.Error:
        raise malformed(
            path, number, 'a quotation mark is not closed in its cell; a cell has no line breaks, and "" for a quote'
        ) from None


def malformed(path: Path, line: int, problem: str) -> SettingError:
    """Return the error for an invalid line."""
    advice = "Nothing was published and nothing is lost; correct the line, or remove the file to get the defaults back"
    if path.name not in (THRESHOLDS, TERMS):
        return SettingError(f"{path}, line {line}: {problem}. Correct the line, or remove it")
    return SettingError(f"{path}, line {line}: {problem}. {advice}, and sync again")
