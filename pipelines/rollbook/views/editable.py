"""The CSV files that the institution edits, next to the published file.

`thresholds.csv` has the thresholds of the view `students_to_watch`, which `sql/_watch.sql` and `sql/progress_daily.sql`
use; `terms.csv` the terms that the view `calendar` uses, at first none. Each publish reads them into their tables, so
that each published file has the thresholds and terms it was computed with. `contacted.csv` says who was spoken to, a
line a time: until a day, the student rests, off the lists of whom to speak to. Pages read it as it is now, and a night
lands it (`landing.contacts`).

Accepts what spreadsheet programs save: a byte order mark, semicolons, spaces around a cell, empty lines.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
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
BY = "by"  # the column with who noted it; a file of before has none
# What was noted lately, and how long a spreadsheet program may have the file open without it.
NOTED, NOTED_FOR = Path("private") / "noted.csv", timedelta(days=2)
_MARK = "\ufeff"
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
class Contacted:
    """One line of the file: who was spoken to on a day, and rests until another, exclusive; who noted it, if known; and
    the cells of columns that a person `added`.
    """

    student_id: int
    on: date
    until: date
    by: str = ""
    added: tuple[str, ...] = ()

    def is_same(self, other: Contacted) -> bool:
        """Whether another line says the same, apart from what a person added."""
        return replace(self, added=()) == replace(other, added=())

    def is_of_same_contact(self, other: Contacted) -> bool:
        """Whether another line is of the same contact: a person may have changed how long the student rests."""
        return self.is_same(replace(other, until=self.until))


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
    term = Term(name, _day(path, line, "first_day", first), _day(path, line, "last_day", last))
    if term.last_day < term.first_day:
        raise malformed(path, line.number, f"{name[:40]!r} ends before it begins; swap its days")
    return term


def read_contacted(root: Path) -> tuple[Contacted, ...]:
    """Read who was spoken to, of the warehouse at `root`; nobody without the file. What was noted while the file was
    open in a spreadsheet program, whose save then lacks it, comes last.

    Raises SettingError, which names the line and what to write.
    """
    path = root / CONTACTED
    known = _contacted(path, _text(path)) if path.exists() else {}
    return *known.values(), *_lost(root, known)


def _contacted(path: Path, text: str) -> dict[int, Contacted]:
    """Who was spoken to, by the number of the line."""
    contacted = {}
    for line in lines(path, CONTACTED_HEADER, needed=3, text=text):
        student, on, until, *more = line.cells
        if (student_id := as_id(student)) is None:
            raise malformed(
                path, line.number, f"student_id is {student[:40]!r}; write a number, as in students_to_watch"
            )
        days = _day(path, line, "on", on), _day(path, line, "until", until)
        at = line.heading.index(BY, 3) - 3 if BY in line.heading[3:] else len(more)
        by, added = "".join(more[at : at + 1]), (*more[:at], *more[at + 1 :])
        contacted[line.number] = Contacted(student_id, *days, by, added)
    return contacted


def _noted(root: Path) -> list[Contacted]:
    """What was noted lately, as kept beside the file."""
    path, since = root / NOTED, date.today() - NOTED_FOR  # noqa: DTZ011 - of the people who note it
    noted = _contacted(path, _text(path)).values() if path.exists() else ()
    return [each for each in noted if each.on >= since]


def _lost(root: Path, known: Mapping[int, Contacted]) -> list[Contacted]:
    """What was noted lately and the file lacks. A line with another `until` is one of these that a person changed."""
    noted = _noted(root)
    changed = [each for each in known.values() if not any(each.is_same(other) for other in noted)]
    lost = list[Contacted]()
    for each in noted:
        if any(each.is_same(other) for other in known.values()):
            continue
        at = next((n for n, other in enumerate(changed) if each.is_of_same_contact(other)), None)
        if at is None:
            lost.append(each)
        else:
            del changed[at]
    return lost


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


def contacts(root: Path, con: duckdb.DuckDBPyConnection) -> list[Contacted]:
    """Read who was spoken to, by the day on which rest ends; without those of an id that was given to another person
    later, by the open file. Raises SettingError.
    """
    noted = sorted(read_contacted(root), key=lambda each: (each.until, each.on))
    given = "SELECT student_id, MAX(first_day) FROM main.student_identities WHERE is_reused GROUP BY student_id"
    since = dict(con.execute(given).fetchall()) if noted else {}
    return [each for each in noted if each.on >= since.get(each.student_id, each.on)]


def resting(noted: Iterable[Contacted], day: date) -> dict[int, Contacted]:
    """Return the students who rest on a day, each with what was noted; of several, the one that lasts longest."""
    return {each.student_id: each for each in noted if each.on <= day < each.until}


def contact(root: Path, student: int, on: date, until: date, by: str = "") -> None:
    """Note that a student was spoken to, in a line at the end; nothing if a line says so already. All other lines stay
    as they are. Raises SettingError.
    """
    noted = Contacted(student, on, until, by)

    def with_it(text: str, known: Mapping[int, Contacted]) -> str:
        return text if any(noted.is_same(each) for each in known.values()) else _with_line(text, noted)

    _change(root, with_it, noted.is_same, [noted])


def put_back(root: Path) -> None:
    """Write back what was noted lately and a save in a spreadsheet program lacks. Raises SettingError."""
    if (root / CONTACTED).exists():  # one that is missing says nothing, and one with these lines alone would end others
        _change(root, lambda text, _: text, lambda _: False)


def undo(root: Path, noted: Contacted) -> None:
    """Remove the last line that says this, whatever a person added there; nothing if there is none. Raises
    SettingError.
    """

    def without_it(text: str, known: Mapping[int, Contacted]) -> str:
        number = max((number for number, each in known.items() if each.is_same(noted)), default=0)
        return "".join(line for n, line in enumerate(text.splitlines(keepends=True), start=1) if n != number)

    _change(root, without_it, noted.is_of_same_contact)


def _with_line(text: str, noted: Contacted) -> str:
    """A file's text with a line more."""
    heading, *others = text.splitlines(keepends=True) or [",".join((*CONTACTED_HEADER, BY)) + "\n"]
    names, delimiter = _heading([heading])
    end = "\r\n" if heading.endswith("\r\n") else "\n"
    columns = [name.lower() for name in names]
    if noted.by and BY not in columns:
        # Behind every cell that there is: a person may have written some without a heading.
        more = max(map(len, csv.reader(others, delimiter=delimiter)), default=0) - len(columns)
        columns += [*[""] * more, BY]
        heading = heading.rstrip("\r\n") + delimiter * (max(more, 0) + 1) + BY
    whole = "".join(each if each.endswith(("\r", "\n")) else each + end for each in (heading, *others))
    row = [str(noted.student_id), str(noted.on), str(noted.until)]
    row += [noted.by if name == BY else "" for name in columns[3:]]
    return whole + _render(row, (), delimiter).removesuffix("\n") + end


def lines_about(root: Path, is_gone: Gone) -> int:
    """Return how many lines of contacted.csv are about students who are gone."""
    path = root / CONTACTED
    return _without(decoded(path.read_bytes())[0], is_gone, str)[1] if path.is_file() else 0


def forget(root: Path, is_gone: Gone, cleaned: Callable[[str], str]) -> None:
    """Remove the lines about students who are gone, and clean what people wrote in columns of their own.

    All other lines stay as they are, also malformed ones, whatever encoding a spreadsheet program chose.
    """
    with _changing(root):  # both files at once, or a contact that is noted meanwhile would put the lines back
        for path in filter(Path.is_file, (root / NOTED, root / CONTACTED)):
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


def _change(
    root: Path,
    changed: Callable[[str, Mapping[int, Contacted]], str],
    is_done: Callable[[Contacted], bool],
    also: Sequence[Contacted] = (),
) -> None:
    """Change the file's text, given what its lines say. What was noted lately and a save lacks is put back first, once:
    a person who removes such a line again means it. Then lately noted is `also` this, and all before that is not done.
    """
    path = root / CONTACTED
    with _changing(root):
        while True:
            before = path.read_bytes() if path.exists() else None
            text, coding = decoded(before or b"")
            lost = _lost(root, _contacted(path, text.removeprefix(_MARK)) if before else {})
            for each in lost:
                text = _with_line(text, each)
            left = changed(text, _contacted(path, text.removeprefix(_MARK)) if text else {})
            try:
                content = left.encode(coding)
            except UnicodeEncodeError:  # a login that the file's own characters do not write
                content = codecs.BOM_UTF8 + left.encode()
            # A person may have saved the file since: then begin with what is there now.
            if before == (path.read_bytes() if path.exists() else None):
                break
        # The file first: what was noted lately stays known until it is there.
        if content != (before or b""):
            files.write(path, content, files.PRIVATE_FILE if before is None else path.stat().st_mode & 0o777)
        lately = [each for each in _noted(root) if each not in lost and not is_done(each)] + [*also]
        noted = ""
        for each in lately:
            noted = _with_line(noted, each)
        if noted:
            files.write(root / NOTED, noted.encode())
        else:
            (root / NOTED).unlink(missing_ok=True)


@contextmanager
def _changing(root: Path) -> Iterator[None]:
    """Let no other process change contacted.csv meanwhile."""
    with files.Lock(files.folder(root / "private") / "contacted.lock"):
        yield


def _heading(lines: Sequence[str]) -> tuple[list[str], str]:
    """The columns of a file, and what separates them."""
    delimiter = ";" if lines[0].count(";") > lines[0].count(",") else ","
    heading = lines[0].removeprefix(_MARK)
    return [cell.strip() for cell in next(csv.reader([heading], delimiter=delimiter), [])], delimiter


def _day(path: Path, line: Line, column: str, text: str) -> date:
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
    delimiter = _heading(whole)[1] if whole else ","
    rows = [_cells(path, number, line, delimiter) for number, line in enumerate(whole, start=1)]
    heading = [cell.lower() for cell in rows[0]] if rows else []
    if not rows or heading[:needed] != list(header[:needed]):
        raise malformed(path, 1, f"the heading must be {','.join(header)}")
    for number, cells in enumerate(rows[1:], start=2):
        if any(cells):
            yield Line(number, [*cells, *[""] * (needed - len(cells))], delimiter == ";", heading)


def _text(path: Path) -> str:
    """A file's text, in whatever encoding a spreadsheet program chose."""
    return decoded(path.read_bytes())[0].removeprefix(_MARK)


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
