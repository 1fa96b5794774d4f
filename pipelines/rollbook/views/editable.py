"""The CSV files that the institution edits, next to the published file.

`thresholds.csv` has the thresholds of the view `students_to_watch`, which `sql/_watch.sql` and `sql/progress_daily.sql`
use; `terms.csv` the terms that the view `calendar` uses, at first none. Each publish reads them into their tables, so
that each published file has the thresholds and terms it was computed with. `contacted.csv` says who was spoken to:
lists for people have them at the end until a day, and no table has it.

Accepts what spreadsheet programs save: a byte order mark, semicolons, spaces around a cell, empty lines.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path

import duckdb

from rollbook.errors import SettingError
from rollbook.landing.records import as_id
from rollbook.store.statements import statements
from rollbook.util import files
from rollbook.util.text import decoded

THRESHOLDS, TERMS, CONTACTED = "thresholds.csv", "terms.csv", "contacted.csv"
OUTCOMES_HEADER = ("student_id", "on")
THRESHOLDS_HEADER, TERMS_HEADER = ("name", "value", "meaning"), ("name", "first_day", "last_day")
CONTACTED_HEADER = ("student_id", "on", "until")
# ISO, and the format of spreadsheet programs in much of Europe. 1/2/2026 is ambiguous, so it is refused.
FORMATS = ("%Y-%m-%d", "%d.%m.%Y")

sql = statements("rollbook.views")

# Whether what is said of a student and a day is about one who is gone.
Gone = Callable[[int, date], bool]


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
    Threshold("stays_school_days", 5, "How many school days a student stays on the list without a reason.", 3_650),
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
class Contacted:
    """One line of the file: who was spoken to on a day, and is at the end of lists until another, exclusive; and the
    cells of columns that a person `added`.
    """

    student_id: int
    on: date
    until: date
    added: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """One line that is not empty: its number in the file, its cells, and whether numbers have decimal commas."""

    number: int
    cells: Sequence[str]
    decimal_comma: bool


def ensure(root: Path, mode: int = files.PRIVATE_FILE, *, terms: Iterable[Term] = ()) -> None:
    """Write each file if there is none: the default thresholds, and the `terms`."""
    for name, text in ((THRESHOLDS, render_thresholds()), (TERMS, render_terms(terms))):
        if not (root / name).exists():
            files.write(root / name, text.encode(), mode)


def render_thresholds() -> str:
    """Return the text of `thresholds.csv` with the defaults."""
    return _render(THRESHOLDS_HEADER, ((t.name, f"{t.value:g}", t.meaning) for t in DEFAULTS))


def render_terms(terms: Iterable[Term] = ()) -> str:
    """Return the text of `terms.csv` with these terms."""
    return _render(TERMS_HEADER, ((t.name, str(t.first_day), str(t.last_day)) for t in terms))


def _render(header: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str = ",") -> str:
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
                advice = (
                    f"{name} decides nothing any more; write {instead} instead, such as {defaults[instead].value:g}"
                )
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
    term = Term(name, _day(path, line, "first_day", first), _day(path, line, "last_day", last))
    if term.last_day < term.first_day:
        raise malformed(path, line.number, f"{name[:40]!r} ends before it begins; swap its days")
    return term


def read_contacted(root: Path) -> tuple[Contacted, ...]:
    """Read who was spoken to, of the warehouse at `root`; nobody without the file.

    Raises SettingError, which names the line and what to write.
    """
    path, contacted = root / CONTACTED, list[Contacted]()
    for line in lines(path, CONTACTED_HEADER, needed=3) if path.exists() else ():
        student, on, until, *added = line.cells
        if (student_id := as_id(student)) is None:
            raise malformed(
                path, line.number, f"student_id is {student[:40]!r}; write a number, as in students_to_watch"
            )
        days = _day(path, line, "on", on), _day(path, line, "until", until)
        contacted.append(Contacted(student_id, *days, tuple(added)))
    return tuple(contacted)


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
        outcomes.append((student_id, _day(path, line, "on", line.cells[1])))
    return tuple(outcomes)


def resting(root: Path, day: date, con: duckdb.DuckDBPyConnection) -> dict[int, date]:
    """Return the students who were spoken to and rest on a day, each with the day on which that ends; nobody who was
    given the id later, by the open file. Raises SettingError.
    """
    rest = sorted((c for c in read_contacted(root) if c.on <= day < c.until), key=lambda c: c.until)
    given = "SELECT student_id, MAX(first_day) FROM main.student_identities WHERE is_reused GROUP BY student_id"
    since = dict(con.execute(given).fetchall()) if rest else {}
    return {each.student_id: each.until for each in rest if each.on >= since.get(each.student_id, each.on)}


def contact(root: Path, student: int, on: date, until: date | None) -> None:
    """Note that a student was spoken to, instead of what was noted of the student before; only remove that without
    `until`. The cells of columns that a person added stay. Raises SettingError.
    """
    path = root / CONTACTED
    with _changing(root):
        lines, before = [*read_contacted(root)], path.read_bytes() if path.exists() else b""
        kept = [each for each in lines if each.student_id != student]
        if until is not None:
            added = next((each.added for each in reversed(lines) if each.student_id == student), ())
            kept.append(Contacted(student, on, until, added))
        heading, delimiter = _heading(before.decode("utf-8-sig").splitlines() or [",".join(CONTACTED_HEADER)])
        rows = ((str(each.student_id), str(each.on), str(each.until), *each.added) for each in kept)
        mark = codecs.BOM_UTF8 if before.startswith(codecs.BOM_UTF8) else b""  # Excel needs it for what a person added
        files.write(path, mark + _render(heading, rows, delimiter).encode())


def lines_about(root: Path, is_gone: Gone) -> int:
    """Return how many lines of contacted.csv are about students who are gone."""
    path = root / CONTACTED
    return _without(decoded(path.read_bytes())[0], is_gone, str)[1] if path.is_file() else 0


def forget(root: Path, is_gone: Gone, cleaned: Callable[[str], str]) -> None:
    """Remove the lines about students who are gone, and clean what people wrote in columns of their own.

    All other lines stay as they are, also malformed ones, whatever encoding a spreadsheet program chose.
    """
    path = root / CONTACTED
    if path.is_file():
        with _changing(root):
            text, coding = decoded(path.read_bytes())
            left, _ = _without(text, is_gone, cleaned)
            if left != text:
                files.write(path, left.encode(coding))


def _without(text: str, is_gone: Gone, cleaned: Callable[[str], str]) -> tuple[str, int]:
    """A file's text without students who are gone, and how many lines went."""
    heading, *lines = text.splitlines(keepends=True) or [""]
    delimiter, kept = _heading([heading])[1], list[str]()
    if as_id(heading.split(delimiter)[0].strip()) is not None:  # somebody removed it
        heading, lines = "", [heading, *lines]
    for line in lines:
        student, on = _subject(line, delimiter)
        if student is None:  # whoever it is about, it is not to name one who is gone
            kept += [line] if cleaned(line) == line else []
        elif not is_gone(student, on):
            *ours, added = line.split(delimiter, len(CONTACTED_HEADER))
            kept.append(delimiter.join((*ours, cleaned(added))) if len(ours) == len(CONTACTED_HEADER) else line)
    return heading + "".join(kept), len(lines) - len(kept)


def _subject(line: str, delimiter: str) -> tuple[int | None, date]:
    """Whom a line is about, and since when; the first day of all if it does not say."""
    student, on, *_ = [*(cell.strip(' "\r\n') for cell in line.split(delimiter)), ""]
    for form in FORMATS:
        with suppress(ValueError):
            return as_id(student), datetime.strptime(on, form).date()  # noqa: DTZ007 - a date has no zone
    return as_id(student), date.min


@contextmanager
def _changing(root: Path) -> Iterator[None]:
    """Let no other process change contacted.csv meanwhile."""
    with files.Lock(files.folder(root / "private") / "contacted.lock"):
        yield


def _heading(lines: Sequence[str]) -> tuple[list[str], str]:
    """The columns of a file, and what separates them."""
    delimiter = ";" if lines[0].count(";") > lines[0].count(",") else ","
    return [cell.strip() for cell in next(csv.reader([lines[0]], delimiter=delimiter), [])], delimiter


def _day(path: Path, line: Line, column: str, text: str) -> date:
    for form in FORMATS:
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a date has no zone
        except ValueError:
            continue
    raise malformed(path, line.number, f"{column} is {text[:40]!r}; write a date such as 2026-09-01")


def lines(path: Path, header: Sequence[str], needed: int) -> Iterator[Line]:
    """Yield the lines below the heading, each padded to at least `needed` cells; empty lines are skipped.

    Raises SettingError if the file is not a CSV file whose first `needed` columns are those of `header`.
    """
    try:
        text = path.read_text("utf-8-sig").splitlines()
    except (ValueError, IsADirectoryError):
        raise malformed(path, 1, "it is not a CSV text file; save it as CSV (UTF-8)") from None
    delimiter = _heading(text)[1] if text else ","
    rows = [_cells(path, number, line, delimiter) for number, line in enumerate(text, start=1)]
    if not rows or [cell.lower() for cell in rows[0][:needed]] != list(header[:needed]):
        raise malformed(path, 1, f"the heading must be {','.join(header)}")
    for number, cells in enumerate(rows[1:], start=2):
        if any(cells):
            yield Line(number, [*cells, *[""] * (needed - len(cells))], delimiter == ";")


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
