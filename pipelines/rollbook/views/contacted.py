"""contacted.csv, next to the published file: who was spoken to, a line a time. Until a day, the student rests, off the
lists of whom to speak to.

A person may edit it, also while it is open in a spreadsheet program. Pages read it as it is now, and a night lands it
(`landing.contacts`).
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path

import duckdb

from rollbook.landing.records import as_id
from rollbook.util import files
from rollbook.util.text import decoded
from rollbook.views.editable import FORMATS, MARK, day_in, heading_of, lines, malformed, render

FILE = "contacted.csv"
HEADER = ("student_id", "on", "until")
BY = "by"  # the column with who noted it; a file of before has none
# What was noted lately, and how long a spreadsheet program may have the file open without it.
NOTED, NOTED_FOR = Path("private") / "noted.csv", timedelta(days=2)

# Whether what is said of a student and a day is about one who is gone.
Gone = Callable[[int, date], bool]


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


def read(root: Path) -> tuple[Contacted, ...]:
    """Read who was spoken to, of the warehouse at `root`; nobody without the file. What was noted while the file was
    open in a spreadsheet program, whose save then lacks it, comes last.

    Raises SettingError, which names the line and what to write.
    """
    path = root / FILE
    known = _contacted(path, _text(path)) if path.exists() else {}
    return *known.values(), *_lost(root, known)


def _contacted(path: Path, text: str) -> dict[int, Contacted]:
    """Who was spoken to, by the number of the line."""
    contacted = {}
    for line in lines(path, HEADER, needed=3, text=text):
        student, on, until, *more = line.cells
        if (student_id := as_id(student)) is None:
            raise malformed(
                path, line.number, f"student_id is {student[:40]!r}; write a number, as in students_to_watch"
            )
        days = day_in(path, line, "on", on), day_in(path, line, "until", until)
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


def contacts(root: Path, con: duckdb.DuckDBPyConnection) -> list[Contacted]:
    """Read who was spoken to, by the day on which rest ends; without those of an id that was given to another person
    later, by the open file. Raises SettingError.
    """
    noted = sorted(read(root), key=lambda each: (each.until, each.on))
    given = "SELECT student_id, MAX(first_day) FROM main.student_identities WHERE is_reused GROUP BY student_id"
    since = dict(con.execute(given).fetchall()) if noted else {}
    return [each for each in noted if each.on >= since.get(each.student_id, each.on)]


def resting(noted: Iterable[Contacted], day: date) -> dict[int, Contacted]:
    """Return the students who rest on a day, each with what was noted; of several, the one that lasts longest."""
    return {each.student_id: each for each in noted if each.on <= day < each.until}


def add(root: Path, student: int, on: date, until: date, by: str = "") -> None:
    """Note that a student was spoken to, in a line at the end; nothing if a line says so already. All other lines stay
    as they are. Raises SettingError.
    """
    noted = Contacted(student, on, until, by)

    def with_it(text: str, known: Mapping[int, Contacted]) -> str:
        return text if any(noted.is_same(each) for each in known.values()) else _with_line(text, noted)

    _change(root, with_it, noted.is_same, [noted])


def put_back(root: Path) -> None:
    """Write back what was noted lately and a save in a spreadsheet program lacks. Raises SettingError."""
    if (root / FILE).exists():  # one that is missing says nothing, and one with these lines alone would end others
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
    heading, *others = text.splitlines(keepends=True) or [",".join((*HEADER, BY)) + "\n"]
    names, delimiter = heading_of([heading])
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
    return whole + render(row, (), delimiter).removesuffix("\n") + end


def lines_about(root: Path, is_gone: Gone) -> int:
    """Return how many lines of contacted.csv are about students who are gone."""
    path = root / FILE
    return _without(decoded(path.read_bytes())[0], is_gone, str)[1] if path.is_file() else 0


def forget(root: Path, is_gone: Gone, cleaned: Callable[[str], str]) -> None:
    """Remove the lines about students who are gone, and clean what people wrote in columns of their own.

    All other lines stay as they are, also malformed ones, whatever encoding a spreadsheet program chose.
    """
    with _changing(root):  # both files at once, or a contact that is noted meanwhile would put the lines back
        for path in filter(Path.is_file, (root / NOTED, root / FILE)):
            text, coding = decoded(path.read_bytes())
            left, _ = _without(text, is_gone, cleaned)
            if left != text:
                files.write(path, left.encode(coding))


def _without(text: str, is_gone: Gone, cleaned: Callable[[str], str]) -> tuple[str, int]:
    """A file's text without students who are gone, and how many lines went."""
    heading, *lines = text.splitlines(keepends=True) or [""]
    delimiter, kept = heading_of([heading])[1], list[str]()
    if as_id(heading.split(delimiter)[0].strip()) is not None:  # somebody removed it
        heading, lines = "", [heading, *lines]
    for line in lines:
        student, on = _subject(line, delimiter)
        if student is None:  # it may be about anybody, and is not to name one who is gone
            kept += [line] if cleaned(line) == line else []
        elif not is_gone(student, on):
            *ours, added = line.split(delimiter, len(HEADER))
            kept.append(delimiter.join((*ours, cleaned(added))) if len(ours) == len(HEADER) else line)
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
    path = root / FILE
    with _changing(root):
        while True:
            before = path.read_bytes() if path.exists() else None
            text, coding = decoded(before or b"")
            lost = _lost(root, _contacted(path, text.removeprefix(MARK)) if before else {})
            for each in lost:
                text = _with_line(text, each)
            left = changed(text, _contacted(path, text.removeprefix(MARK)) if text else {})
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


def _text(path: Path) -> str:
    """A file's text, in whatever encoding a spreadsheet program chose."""
    return decoded(path.read_bytes())[0].removeprefix(MARK)
