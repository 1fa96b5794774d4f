"""A subject access request: all that is held about one student, as sections of rows (GDPR Art. 15, FERPA 99.10).

Every table and view of the published file with rows about single students is included. They are found by their columns,
so a new one is never forgotten. Also included are the records in the raw landings (`excerpts`), known copies and the
code in `private/`. `write` makes one ZIP file of it:

    index.html           everything, for people; self-contained (`subject.html`)
    json/<section>.json  rows as objects
    csv/<section>.csv    the same for spreadsheets, with formulas disarmed
    contents.json        the sections, their columns and what they mean

Pupils may choose their own names, so values are escaped in HTML and disarmed in CSV, as in exports.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import duckdb

from pipelines import files
from pipelines.errors import ArgumentError, RollbookError
from pipelines.export import check_target, exported
from pipelines.export.formats import disarmed
from pipelines.landing.raw import RawStore
from pipelines.privacy import access
from pipelines.privacy.codes import Codes
from pipelines.privacy.subject_access.excerpts import (
    KEY,
    OF_STUDENTS,
    RECORDS,
    REFUSED,
    SEARCHES,
    WHOLE_RECORDS,
    Landings,
    Row,
    search,
    without_others,
)
from pipelines.store.database import connect, count
from pipelines.store.published.versions import FOLDER, PSEUDONYMOUS, PUBLISHED
from pipelines.store.statements import statements
from pipelines.store.warehouse import BUILD
from pipelines.text import cell, printable

sql = statements("pipelines.privacy")

RAW = "raw"
# The kinds of access in the log that write a file.
WRITING = ("export", "explore download")

# The page's parts, in order, and what each shows.
NOW, WORDS, VERSIONS, DAYS, RECEIVED, COPIES, INTERNAL = (
    "Now", "What changed", "History", "Day by day", "As the records service sent it", "Who got it", "Bookkeeping",
)  # fmt: skip
PARTS = {
    NOW: "What the warehouse says at present.",
    WORDS: "Each change since the first night, in words and field by field.",
    VERSIONS: "What was recorded, from when to when, and why the student was on the list of students to watch.",
    DAYS: "The state on each day that is kept.",
    RECEIVED: "The student's own records in the service's responses, as received, without anything of other pupils.",
    COPIES: "Copies, as far as they are known. Values in queries are not logged, so neither is whom an export named.",
    INTERNAL: "What Rollbook keeps for its own work: the same records as ranges of days, and entries in private files.",
}
_PART_OF_SCHEMA = {"history": VERSIONS, "snapshots": DAYS, "ops": RECEIVED, "spans": INTERNAL}
_PART_OF = {
    "main.changes": WORDS,
    "main.student_timeline": WORDS,
    "main.enrollment_changes": WORDS,
    "main.enrollment_spans": VERSIONS,
    "main.watch_daily": VERSIONS,
    "main.student_daily": DAYS,
    "main.student_weekly": DAYS,
    "snapshots.observed": INTERNAL,
}

# The first sections of each part; the rest follow by name.
_FIRST = (
    "main.student_progress", "main.students_to_watch", "main.student_timeline", "main.enrollment_spans",
    "main.watch_daily", "main.student_daily", "raw.records",
)  # fmt: skip


@dataclass(frozen=True)
class Field:
    """One column of a section: its name, DuckDB type and meaning."""

    name: str
    type: str
    meaning: str = ""


@dataclass(frozen=True)
class Section:
    """The rows of one table, view or other source about the student. `name` becomes the names of its files."""

    part: str
    name: str
    meaning: str
    columns: tuple[Field, ...]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Subject:
    """All that is held about one student, part by part. `remarks` say what is not in it, and why."""

    student: int
    at: datetime
    school: str
    sections: list[Section]
    remarks: list[str]


def gather(root: Path, student: int, progress: Callable[[int, int], None] = lambda *_: None) -> Subject:
    """Gather all that the warehouse at `root` holds about a student. Calls `progress` with (landings done, landings).

    Raises ArgumentError when there is nothing, DamagedError for a file that cannot be read, and MachineError when this
    account may not read the access log.
    """
    published = root / PUBLISHED
    found = search(RawStore(root / RAW), student, progress)
    school, sections = _published(published, root / BUILD, student) if published.exists() else ("", [])
    release = Codes(root).load()
    code = release.codes.get(student) if release else None
    if not (any(section.rows for section in sections) or any(found[:3]) or code):
        raise ArgumentError(
            f"Nothing is held about a student {student}: neither the published file nor raw/ has that id. Give the"
            f" {KEY} of the table students, not the institution's own reference"
        )
    meaning = "The code that stands for the student in the pseudonymous file."
    sections += [
        *_received(found),
        *_copies(root, student),
        _section(INTERNAL, "private.code", meaning, {"code": "BIGINT"}, [(code,)] if code else []),
    ]
    parts = list(PARTS)
    sections.sort(key=lambda section: (parts.index(section.part), section.name not in _FIRST, section.name))
    return Subject(student, datetime.now(UTC), school, sections, list(_remarks(found, published)))


def _published(published: Path, build: Path, student: int) -> tuple[str, list[Section]]:
    """The institution's name, and a section for each table and view."""
    sections = []
    with files.aside(build) as scratch, connect(published, scratch=scratch, read_only=True) as con:
        ((name,),) = con.execute("SELECT ANY_VALUE(school_name) FROM main.institution").fetchall()
        for schema, table, meaning, listed in con.execute(sql("about_students"), {"key": KEY}).fetchall():
            columns = tuple(Field(*column) for column in listed)
            where, values = f"{KEY} = $student", dict[str, Any](student=student)
            if not any(column.name == KEY for column in columns):
                where = "id = $student AND set_name IN (SELECT UNNEST($sets))"
                values["sets"] = list(OF_STUDENTS)
            rows = con.execute(f'SELECT * FROM {schema}."{table}" WHERE {where} ORDER BY ALL', values).fetchall()
            full = f"{schema}.{table}"
            part = _PART_OF.get(full, _PART_OF_SCHEMA.get(schema, NOW))
            sections.append(Section(part, full, meaning or "", columns, _own(columns, rows, student)))
    return name or "", sections


def _own(columns: Sequence[Field], rows: list[Row], student: int) -> list[Row]:
    """The rows, with other people's records redacted in columns that hold whole records."""
    at = {n: column.type == "JSON" for n, column in enumerate(columns) if column.name in WHOLE_RECORDS}
    return [
        tuple(
            without_others(value, student, is_own=not at[n]) if n in at and isinstance(value, str) else value
            for n, value in enumerate(row)
        )
        for row in rows
    ]


def _section(part: str, name: str, meaning: str, columns: Mapping[str, str], rows: list[Row]) -> Section:
    return Section(part, name, meaning, tuple(Field(*column) for column in columns.items()), rows)


def _received(found: Landings) -> list[Section]:
    """The sections from the landings."""
    record = "One row per record as received, on each day and in each response."
    refused = "One row per record that was refused, in every landing that is kept."
    asked = "One row per search for the student at the records service, when a night no longer listed the student."
    return [
        _section(RECEIVED, "raw.records", record, RECORDS, found.records),
        _section(RECEIVED, "raw.refused", refused, REFUSED, found.refused),
        _section(RECEIVED, "raw.searches", asked, SEARCHES, found.searches),
    ]


def _copies(root: Path, student: int) -> list[Section]:
    """The sections of known copies: what was exported, and which files hold the student.

    Exports are named, not searched. One that was written elsewhere, moved or sent is known only from its line in the
    access log, which does not say whom it named.
    """
    log: list[Row] = [
        (entry.at, entry.user, entry.login, entry.kind, entry.students, entry.what)
        for entry in access.entries(root).entries
        if entry.kind in WRITING
    ]
    held = dict.fromkeys(exported(root), "not known: exports are not searched")
    versions = [path for folder in (root / FOLDER, root / BUILD / "altered") for path in folder.glob("rollbook.*")]
    held |= {
        path: _in_version(root, path, student)
        for path in sorted(versions)
        if path.is_file() and not path.name.endswith(".wal")
    }
    if (path := root / PSEUDONYMOUS).exists():
        held[path] = "the same records, without names and under a code"
    there: list[Row] = [
        (str(path.relative_to(root)), datetime.fromtimestamp(path.lstat().st_mtime, UTC), what)
        for path, what in held.items()
    ]
    moment = "TIMESTAMP WITH TIME ZONE"
    lines = {"at": moment, "account": "VARCHAR", "login": "VARCHAR", "kind": "VARCHAR", "students": "BIGINT"}
    known = "One row per export and download in the access log. Whether the student was in it is not known."
    may_hold = "One row per file in the warehouse that may hold the student."
    columns = {"file": "VARCHAR", "written_at": moment, "holds_the_student": "VARCHAR"}
    return [
        _section(COPIES, "copies.exports", known, lines | {"question": "VARCHAR"}, log),
        _section(COPIES, "copies.files", may_hold, columns, there),
    ]


def _in_version(root: Path, path: Path, student: int) -> str:
    query = f"SELECT COUNT(*) FROM history.students WHERE {KEY} = $student"
    with (
        suppress(RollbookError, duckdb.Error),
        files.aside(root / BUILD) as scratch,
        connect(path, scratch=scratch, read_only=True) as con,
    ):
        return "yes" if count(con, query, {"student": student}) else "no"
    return "not known: it cannot be read"


def _remarks(found: Landings, published: Path) -> Iterator[str]:
    if not published.exists():
        yield "Nothing is published yet, so this holds only what was landed."
    yield (
        "Records are matched by the student's id alone. What the school keeps elsewhere, what people exported with"
        " other tools, and backups are not included."
    )
    yield (
        "Undeclared fields may hold anything. Other pupils' records in them were left out, but names within a text"
        " cannot be detected. Read these fields before you hand this over."
    )
    if found.unnamed:
        yield (
            f"{found.unnamed:,} refused records of students have no id that can be read. It is not known whose they"
            " are, so they are left out."
        )


# -- the file ----------------------------------------------------------------------------------------------------------


def check_out(out: Path, *, replace: bool) -> None:
    """Raise ArgumentError unless `out` can be written. An existing file is only overwritten with `replace`."""
    check_target(out)
    if not replace and (out.exists() or out.is_symlink()):
        raise ArgumentError(f"{out} is there already: name another file, or write over it with --replace")


def write(subject: Subject, out: Path, *, replace: bool = False) -> None:
    """Write the ZIP file, whole or not at all; only the owner may read it. Raises ArgumentError as `check_out`."""
    with files.handing_out(out) as file, ZipFile(file, "w", ZIP_DEFLATED) as bundle:
        for name, content in contents(subject):
            info = ZipInfo(name, subject.at.timetuple()[:6])
            info.compress_type = ZIP_DEFLATED
            info.external_attr = files.PRIVATE_FILE << 16  # the mode when unpacked
            bundle.writestr(info, content.encode(errors="replace"))
        check_out(out, replace=replace)  # the file may have appeared while the landings were read


def contents(subject: Subject) -> Iterator[tuple[str, str]]:
    """The files in the ZIP file, by name."""
    from pipelines import pages

    environment = pages.environment(__package__, shown=lambda value: printable(cell(value), lines=True))
    yield "index.html", environment.get_template("subject.html").render(subject=subject, parts=PARTS)
    yield (
        "contents.json",
        _json({
            "student_id": subject.student, "made_at": subject.at, "institution": subject.school,
            "remarks": subject.remarks,
            "sections": [
                vars(s) | {"rows": len(s.rows), "columns": [vars(c) for c in s.columns]} for s in subject.sections
            ],
        }),
    )  # fmt: skip
    for section in subject.sections:
        names = [column.name for column in section.columns]
        yield f"json/{section.name}.json", _json([dict(zip(names, row, strict=True)) for row in section.rows])
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([names, *([_csv_cell(value) for value in row] for row in section.rows)])
        yield f"csv/{section.name}.csv", f"\ufeff{text.getvalue()}"  # without the mark, Excel does not read UTF-8


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=_plain)


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _csv_cell(value: Any) -> Any:
    """A value for CSV. Text that a spreadsheet program would run gets a leading apostrophe, as in exports."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if value is None or isinstance(value, (int, float)) else disarmed(_plain(value))
