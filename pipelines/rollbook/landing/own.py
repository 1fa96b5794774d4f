"""The school's own lists: CSV files as spreadsheet programs save them, with a line per student, class or teacher.

A landing holds the lists of its night as bodies of the set `own`, byte for byte, but without lines about erased
students. Here is what a list's bytes say; `features.lists` says which files there are and what becomes of them.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from rollbook.landing.records import as_id
from rollbook.util.text import decoded

if TYPE_CHECKING:  # `erased` takes lines out of lists
    from rollbook.landing.erased import Matcher

# The set, and the kind of request, under which a list's bytes lie in a landing.
OWN: Final = "own"
# The bytes of each list, by name; None for one that cannot be read, of which the night before counts.
Own = Mapping[str, bytes | None]
# Whom a list's lines are about, by the first column: the table, and the column there.
ABOUT: Mapping[str, tuple[str, str]] = {
    "student_id": ("students", "student_id"),
    "reference_id": ("students", "reference_id"),
    "email": ("students", "email"),
    "class_id": ("classes", "class_id"),
    "class_code": ("classes", "class_code"),
    "teacher_email": ("classes", "teacher_email"),
}
# The heading of the lists of who was spoken to, which Rollbook writes itself; the last column is in people's words.
CONTACTS = ("student_id", "on", "until", "by")
MOST_LISTS, MOST_COLUMNS, MOST_LINES = 100, 100, 10_000
MOST_BYTES, LONGEST_CELL = 10_000_000, 1_000
# Columns that Rollbook adds to a list's own.
RESERVED = frozenset({*ABOUT, "valid_from", "valid_to", "snapshot_date", "institution", "day"})

_NAME = re.compile(r"[^\W\d]\w{0,59}")
# OneRoster 1.2, users.csv: what says whom a line is about, in this order, and what is kept.
_ROSTER, _ROSTER_KEPT = {"identifier": "reference_id", "email": "email"}, "grades"
_ROSTER_COLUMNS = frozenset({"sourcedid", "enableduser", *_ROSTER, _ROSTER_KEPT})
_TO_BE_DELETED = "tobedeleted"
_EXCEL = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")


class UnreadableListError(ValueError):
    """A list that cannot be read: the line, what is wrong there, and what to write."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


@dataclass(frozen=True)
class OwnLine:
    """A line: its number in the file, whom it is about (an entry per kind in `OwnList.about`), and what it says, by
    column, without blanks.
    """

    number: int
    who: tuple[str | None, ...]
    values: Mapping[str, str]


@dataclass(frozen=True)
class OwnList:
    """A list as read. `about` are the kinds of ids (keys of ABOUT) that say whom a line is about: of several, the first
    that somebody has. `columns` are the school's, in order; `remark` is what should be corrected.
    """

    about: tuple[str, ...]
    columns: tuple[str, ...]
    lines: tuple[OwnLine, ...]
    remark: str = ""


def column_name(text: str) -> str:
    """A heading as the name of a column: `Tutor group` becomes tutor_group."""
    return re.sub(r"[\s\-./]+", "_", unicodedata.normalize("NFC", text).strip()).lower()


def is_name(name: str) -> bool:
    """Whether a list or a column may have the name."""
    return _NAME.fullmatch(name) is not None


def read(content: bytes) -> OwnList:
    """Read a list. Raises UnreadableListError."""
    text, remark = _decoded(content)
    rows = _rows(text)
    _, heading = next(rows, (1, []))
    if not any(heading):
        raise UnreadableListError(1, f"the heading is missing; begin with one of {', '.join(ABOUT)}")
    names = [column_name(cell) for cell in heading]
    if {*names} >= _ROSTER_COLUMNS:
        return _roster(names, rows, remark)
    columns = _columns(heading, names)
    lines = []
    for number, cells in rows:
        if any(cells[len(columns) + 1 :]):
            raise UnreadableListError(
                number, "it has more cells than the heading; put a cell that has a separator in it into quotes"
            )
        values = {name: cell for name, cell in zip(columns, cells[1:], strict=False) if cell and name}
        lines.append(OwnLine(number, (cells[0] or None,), values))
    return OwnList((names[0],), tuple(filter(None, columns)), tuple(lines), remark)


def digests_of(lists: Own | None, erased: Matcher) -> dict[str, str] | None:
    """Return what a landing's manifest would say of the lists (`Manifest.own`)."""
    if lists is None:
        return None
    read = {name: content for name, content in lists.items() if content is not None}
    digests = {name: sha256(without(content, erased)[0]).hexdigest() for name, content in read.items()}
    return dict.fromkeys(lists, "") | digests


def without(content: bytes, erased: Matcher) -> tuple[bytes, int]:
    """Return a list's bytes without the lines about erased students, and how many lines went. All other lines stay byte
    for byte, also where the list cannot be read; but for who noted a contact, where an erased student is named there.
    """
    text, coding = decoded(content)
    kept = list[str]()
    lines = _lines(text)
    delimiter = _delimiter(lines[0]) if lines else ","
    names = [column_name(cell) for cell in _cells(lines[0], delimiter)] if lines else []
    for line in lines:
        if not any(_names_erased(erased, name, cell, n == 0) for n, (name, cell) in _told(names, line, delimiter)):
            kept.append(line)
    removed = len(lines) - len(kept)
    if (*names,) == CONTACTS:
        kept = [kept[0], *(_cleaned(line, erased) for line in kept[1:])]
    return ("".join(kept).encode(coding) if kept != lines else content), removed


def _cleaned(line: str, erased: Matcher) -> str:
    *said, by = line.split(",", len(CONTACTS) - 1)
    return ",".join((*said, erased.cleaned(by)))


def _told(names: list[str], line: str, delimiter: str) -> Iterator[tuple[int, tuple[str, str]]]:
    cells = _cells(line, delimiter)
    return enumerate(zip([*names, *[""] * (len(cells) - len(names))], cells, strict=False))


def _names_erased(erased: Matcher, name: str, cell: str, is_first: bool) -> bool:
    """Whether a cell says that its line is about an erased student. A number is an id in the first column alone."""
    if not cell:
        return False
    is_id = is_first and name in ("student_id", "") and as_id(cell) in erased
    return is_id or erased.knows_name("email", cell) or erased.knows_name("reference_id", cell)


def _columns(heading: list[str], names: list[str]) -> tuple[str, ...]:
    """The names of the school's columns; empty for a column without a heading. Raises UnreadableListError."""
    if names[0] not in ABOUT:
        raise UnreadableListError(
            1, f"the first column is {heading[0][:40]!r}, which does not say whom a line is about: {_FIRST}"
        )
    columns = names[1:]
    while columns and not columns[-1]:  # spreadsheet programs save empty columns
        columns.pop()
    if len(columns) > MOST_COLUMNS:
        raise UnreadableListError(1, f"it has {len(columns)} columns; a list has {MOST_COLUMNS} at most")
    for name, cell in zip(columns, heading[1:], strict=False):
        if not is_name(name):
            raise UnreadableListError(
                1, f"{cell[:40]!r} is not the name of a column; use letters, digits and _, and begin with a letter"
            )
        if name in RESERVED:
            raise UnreadableListError(1, f"{cell[:40]!r} is a name of Rollbook's own; name the column otherwise")
    if twice := [name for name, n in Counter(columns).items() if n > 1]:
        raise UnreadableListError(1, f"two columns are named {twice[0]}; names may not differ in case or blanks alone")
    return tuple(columns)


_FIRST = f"name it {', '.join([*ABOUT][:-1])} or {[*ABOUT][-1]}"


def _roster(names: list[str], rows: Iterator[tuple[int, list[str]]], remark: str) -> OwnList:
    """OneRoster's users.csv. Lines without a grade are teachers' and others'."""
    lines = []
    for number, cells in rows:
        said = dict(zip(names, cells, strict=False))
        if said.get(_ROSTER_KEPT) and said.get("status", "").casefold() != _TO_BE_DELETED:
            who = tuple(said.get(column) or None for column in _ROSTER)
            lines.append(OwnLine(number, who, {_ROSTER_KEPT: said[_ROSTER_KEPT]}))
    return OwnList(tuple(_ROSTER.values()), (_ROSTER_KEPT,), tuple(lines), remark)


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the line's number: normalised and trimmed. Raises UnreadableListError."""
    lines = [line.rstrip("\r\n") for line in _lines(text)]
    if len(lines) > MOST_LINES + 1:
        raise UnreadableListError(
            MOST_LINES + 2,
            f"it has {len(lines):,} lines; a list has {MOST_LINES:,} at most, and {MOST_COLUMNS} columns",
        )
    delimiter = _delimiter(lines[0]) if lines else ","
    for number, line in enumerate(lines, start=1):
        try:
            (cells,) = csv.reader([line], delimiter=delimiter, strict=True) if line else ([],)
        except (csv.Error, ValueError):
            raise UnreadableListError(
                number, 'a quotation mark is not closed in its cell; a cell has no line breaks, and "" for a quote'
            ) from None
        cells = [unicodedata.normalize("NFC", cell).strip() for cell in cells]
        if long := next((cell for cell in cells if len(cell) > LONGEST_CELL), None):
            raise UnreadableListError(
                number, f"a cell has {len(long):,} characters; it may have {LONGEST_CELL:,} at most"
            )
        if number == 1 or any(cells):
            yield number, cells


def _lines(text: str) -> list[str]:
    """The lines with their ends. No other character ends one, or a note's would split it."""
    return [*io.StringIO(text, newline="")]


def _decoded(content: bytes) -> tuple[str, str]:
    """A list's text, and what should be said of the encoding. Raises UnreadableListError."""
    if content.startswith(_EXCEL):
        raise UnreadableListError(1, "it is an Excel file, not CSV: open it in Excel and save it as CSV UTF-8")
    if len(content) > MOST_BYTES:
        raise UnreadableListError(1, f"it has {len(content):,} bytes; a list has {MOST_BYTES:,} at most")
    text, coding = decoded(content)
    if "\0" in text:
        raise UnreadableListError(text[: text.index("\0")].count("\n") + 1, "it is not text: save it as CSV UTF-8")
    remark = "it was read as Windows text (cp1252): save it as CSV UTF-8, to be sure of accents"
    return text.removeprefix("\ufeff"), "" if coding.startswith("utf") else remark


def _delimiter(heading: str) -> str:
    """What separates the cells: a comma, a semicolon or a tab, whichever the heading has most of."""
    return max(",;\t", key=heading.count)


def _cells(line: str, delimiter: str) -> list[str]:
    """The cells of a line, as far as it can be read."""
    try:
        return [cell.strip() for row in csv.reader([line.strip("\ufeff\r\n")], delimiter=delimiter) for cell in row]
    except csv.Error:
        return [cell.strip(' "') for cell in line.split(delimiter)]
