"""A subject access request: all that is held about one student, as sections of rows (GDPR Art. 15, FERPA 99.10).

Every table and view of the published file with rows about single students is included. They are found by their columns,
so a new one is never forgotten. Also included are the records in the raw landings (`excerpts`), known copies (`copies`)
and the code in `private/`. `bundle` writes the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines import files
from pipelines.errors import ArgumentError
from pipelines.landing.raw import RawStore
from pipelines.privacy.codes import Codes
from pipelines.privacy.subject_access import copies
from pipelines.privacy.subject_access.excerpts import (
    KEY,
    OF_STUDENTS,
    WHOLE_RECORDS,
    Excerpt,
    Landings,
    Refused,
    Search,
    search,
    without_others,
)
from pipelines.store.database import connect
from pipelines.store.published.versions import PUBLISHED
from pipelines.store.statements import statements
from pipelines.store.warehouse import BUILD

sql = statements("pipelines.privacy")

RAW = "raw"

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
    """All that is held about one student. `remarks` say what is not in it, and why."""

    student: int
    at: datetime
    school: str
    sections: list[Section]
    remarks: list[str]

    def of(self, part: str) -> list[Section]:
        """The sections of one part, in display order."""
        ranks = {name: rank for rank, name in enumerate(_FIRST)}
        found = (section for section in self.sections if section.part == part)
        return sorted(found, key=lambda section: (ranks.get(section.name, len(ranks)), section.name))


def gather(root: Path, student: int, progress: Callable[[int, int], None] = lambda *_: None) -> Subject:
    """Gather all that the warehouse at `root` holds about a student. Calls `progress` with (landings done, landings).

    Raises ArgumentError when there is nothing, DamagedError for a file that cannot be read.
    """
    published = root / PUBLISHED
    found = search(RawStore(root / RAW), student, progress)
    school, sections = _published(published, root / BUILD, student) if published.exists() else ("", [])
    release = Codes(root).load()
    code = release.codes.get(student) if release else None
    received = found.excerpts or found.searches or found.refused
    if not (any(section.rows for section in sections) or received or code):
        raise ArgumentError(
            f"Nothing is held about a student {student}: neither the published file nor raw/ has that id. Give the"
            f" {KEY} of the table students, not the institution's own reference"
        )
    sections += _received(found)
    sections += _copies(root, student)
    meaning = "The code that stands for the student in the pseudonymous file."
    sections.append(Section(INTERNAL, "private.code", meaning, (Field("code", "BIGINT"),), [(code,)] if code else []))
    return Subject(student, datetime.now(UTC), school, sections, list(_remarks(found, published)))


def _published(published: Path, build: Path, student: int) -> tuple[str, list[Section]]:
    """The institution's name, and a section for each table and view."""
    sections = []
    with files.aside(build) as scratch, connect(published, scratch=scratch, read_only=True) as con:
        name = con.execute("SELECT ANY_VALUE(school_name) FROM main.institution").fetchone()
        for schema, table, meaning, listed in con.execute(sql("about_students"), {"key": KEY}).fetchall():
            columns = tuple(Field(*column) for column in listed)
            has_key = any(column.name == KEY for column in columns)
            query = sql("rows_of_student" if has_key else "rows_of_record", relation=f'{schema}."{table}"')
            values = {"student": student} if has_key else {"student": student, "sets": list(OF_STUDENTS)}
            rows = con.execute(query, values).fetchall()
            full = f"{schema}.{table}"
            part = _PART_OF.get(full, _PART_OF_SCHEMA.get(schema, NOW))
            sections.append(Section(part, full, meaning or "", columns, _own(columns, rows, student)))
    return (name[0] or "" if name else ""), sections


def _own(columns: Sequence[Field], rows: list[tuple[Any, ...]], student: int) -> list[tuple[Any, ...]]:
    """The rows, with other people's records redacted in columns that hold whole records."""
    at = {n: column.type == "JSON" for n, column in enumerate(columns) if column.name in WHOLE_RECORDS}
    return [
        tuple(
            without_others(value, student, is_own=not at[n]) if n in at and isinstance(value, str) else value
            for n, value in enumerate(row)
        )
        for row in rows
    ]


def _received(found: Landings) -> list[Section]:
    """The sections from the landings."""
    return [
        _section(
            RECEIVED, "raw.records", "One row per record as received, on each day and in each response.", Excerpt,
            found.excerpts,
        ),
        _section(
            RECEIVED, "raw.refused", "One row per record that was refused, in every landing that is kept.", Refused,
            found.refused,
        ),
        _section(
            RECEIVED, "raw.searches",
            "One row per search for the student at the records service, when a night no longer listed the student.",
            Search, found.searches,
        ),
    ]  # fmt: skip


def _copies(root: Path, student: int) -> list[Section]:
    known = copies.find(root, student)
    return [
        _section(
            COPIES, "copies.exports",
            "One row per export and download in the access log. Whether the student was in it is not known.",
            copies.Exported, known.exported,
        ),
        _section(
            COPIES, "copies.files", "One row per file in the warehouse that may hold the student.", copies.File,
            known.files,
        ),
    ]  # fmt: skip


def _section(part: str, name: str, meaning: str, of: type[Any], rows: Iterable[Any]) -> Section:
    """A section with one row per dataclass instance."""
    columns = tuple(Field(f.name, _TYPES.get(str(f.type), "VARCHAR")) for f in fields(of))
    return Section(part, name, meaning, columns, [astuple(row) for row in rows])


_TYPES = {"date": "DATE", "datetime": "TIMESTAMP WITH TIME ZONE", "int": "BIGINT", "int | None": "BIGINT"}


def _remarks(found: Landings, published: Path) -> Iterable[str]:
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
