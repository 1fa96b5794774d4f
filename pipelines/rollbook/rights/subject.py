"""A subject access request: all that is held about one student, as sections of rows (GDPR Art. 15, FERPA 99.10).

Every table and view of the published file with rows about single students is included. Tables are found by columns, so
a new table is never forgotten. Also included are the student's own records in all landings, known copies and the code
in `private/`. Records are matched by id alone, read as everywhere here (`records`), so refused records with a readable
id are found, too. In undeclared fields, the service may have nested another pupil's record: that is redacted. `write`
makes a ZIP file:

    index.html           everything, for people; self-contained (`subject.html`)
    json/<section>.json  rows as objects
    csv/<section>.csv    the same for spreadsheets, with formulas disarmed
    contents.json        the sections, the columns and what each means

Pupils may choose their own names, so values are escaped in HTML and disarmed in CSV, as in exports.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import msgspec

from rollbook.errors import ArgumentError
from rollbook.flatten.rows import shape
from rollbook.landing.manifest import Body
from rollbook.landing.raw import RawStore
from rollbook.landing.records import UNREADABLE, as_id, cut_nesting
from rollbook.reading import access
from rollbook.reading.formats import check_target, exported
from rollbook.reading.query import disarmed
from rollbook.rights.personal import PersonalData, Section
from rollbook.store.database import connect
from rollbook.store.published import FOLDER, PSEUDONYMOUS, PUBLISHED
from rollbook.store.schema import OBSERVED, declared
from rollbook.store.statements import statements
from rollbook.store.warehouse import BUILD
from rollbook.tables import OF_STUDENTS, SETS, TELLS, Relation, Tells, of_set
from rollbook.util import files
from rollbook.util.text import cell, printable
from rollbook.views import contacted
from rollbook.views.catalog import views

sql = statements("rollbook.rights")

Row = tuple[Any, ...]

# The key of student records.
KEY = SETS["students"].key
LEFT_OUT = "left out: another person's record"
# Fields that only a person's record has. Not `name`: some services use it for class titles.
_OF_PERSONS = {step for t in of_set("students") for c in t.columns if c.personal and (step := c.path[-1]) != "name"}
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
# By what a table's rows tell; the rows of `ops` are about what was received.
_PART_OF: dict[Tells | None, str] = {
    "now": NOW, "changes": WORDS, "periods": VERSIONS, "days": DAYS, "bookkeeping": INTERNAL, None: RECEIVED,
}  # fmt: skip
# The first sections of each part; the rest follow by name.
_FIRST = (
    "main.student_progress", "main.students_to_watch", "main.student_timeline", "main.enrollment_spans",
    "main.watch_daily", "main.student_daily", "raw.records",
)  # fmt: skip

MOMENT = "TIMESTAMP WITH TIME ZONE"
LANDING = {"snapshot_date": "DATE", "landing": "BIGINT", "landing_is": "VARCHAR", "set_name": "VARCHAR"}
# Records as received. `set_name` and `kind` describe the request.
RECORDS = LANDING | {
    "kind": "VARCHAR", "walk": "BIGINT", "page": "BIGINT", "position": "BIGINT", "received_at": MOMENT,
    "record": "VARCHAR",
}  # fmt: skip
REFUSED = LANDING | {"page": "BIGINT", "position": "BIGINT", "reason": "VARCHAR", "record": "VARCHAR"}
# Searches for the student by name, after a walk no longer listed the record. `answer` is the result.
SEARCHES = {"snapshot_date": "DATE", "landing": "BIGINT", "asked_by": "VARCHAR", "answer": "VARCHAR"}
EXPORTS = {
    "at": MOMENT, "account": "VARCHAR", "login": "VARCHAR", "kind": "VARCHAR", "students": "BIGINT",
    "question": "VARCHAR",
}  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """All that is held about one student, part by part. `remarks` say what is missing, and why."""

    student: int
    at: datetime
    school: str
    sections: list[Section]
    remarks: list[str]


def gather(
    root: Path,
    student: int,
    progress: Callable[[int, int], None] = lambda *_: None,
    *,
    earlier_person: bool = False,
    personal: Iterable[PersonalData] = (),
    added: Iterable[Relation] = (),
) -> Subject:
    """Gather all that the warehouse at `root` holds about a student. `personal` says what the features hold,
    `added` are the tables that they add to the published file. Calls `progress` with (landings done, landings).

    If the id was another person's before, which the finding `id_reused` says, what is from before that day is left out
    unless `earlier_person`.

    Raises ArgumentError when there is nothing, DamagedError for a file that cannot be read, and MachineError when this
    account may not read the access log.
    """
    received, unnamed = _received(RawStore(root / "raw"), student, progress)
    is_published = (root / PUBLISHED).exists()
    school, published = _published(root, student, added) if is_published else ("", [])
    sections = [
        *received,
        *published,
        *(section for data in personal for section in data.sections(student)),
        section(
            WORDS,
            "private.contacted",
            "When somebody noted that the student was spoken to, until when the student is off the list, who noted it,"
            " and what people wrote into columns that they added.",
            {"on": "DATE", "until": "DATE", "by": "VARCHAR", "added": "VARCHAR"},
            [
                (each.on, each.until, each.by, "; ".join(filter(None, each.added)))
                for each in contacted.read(root)
                if each.student_id == student
            ],
        ),
    ]
    if not any(section.rows for section in sections):
        raise ArgumentError(
            f"Nothing is held about a student {student}: neither the published file nor raw/ has that id. Give the"
            f" {KEY} of the table students, not the institution's own reference"
        )
    since = _reused_since(root, student) if is_published else None
    left_out = 0
    if since is not None and not earlier_person:
        before = sum(len(section.rows) for section in sections)
        sections = [_since(section, since) for section in sections]
        left_out = before - sum(len(section.rows) for section in sections)
    sections += _copies(root)
    sections.sort(key=lambda section: (list(PARTS).index(section.part), section.name not in _FIRST, section.name))
    remarks = [] if is_published else ["Nothing is published yet, so this holds only what was landed."]
    remarks += [
        "Records are matched by the student's id alone. What the school keeps elsewhere, what people exported with"
        " other tools, and backups are not included.",
        "Undeclared fields may hold anything. Other pupils' records in them were left out, but names within a text"
        " cannot be detected. Read these fields before you hand this over. Other records' undeclared fields, which may"
        " name the student, were not searched.",
    ]
    if since is not None:
        held = (
            "is included, since --earlier-person was given: take it out before you hand this over"
            if earlier_person
            else f"was left out ({left_out:,} rows): --earlier-person includes it"
        )
        remarks.append(
            f"On {since} name, email and reference id of this id changed at once. What is from before may be another"
            f" person's and {held}."
        )
    if unnamed:
        remarks.append(
            f"{unnamed:,} refused records of students have no id that can be read. It is not known whose they are, so"
            " they are left out."
        )
    return Subject(student, datetime.now(UTC), school, sections, remarks)


def section(part: str, name: str, meaning: str, columns: Mapping[str, str], rows: list[Row]) -> Section:
    """A section whose columns are given as name and type."""
    return Section(part, name, meaning, [{"name": n, "type": t, "meaning": ""} for n, t in columns.items()], rows)


def _published(root: Path, student: int, added: Iterable[Relation]) -> tuple[str, list[Section]]:
    """The institution's name, and a section for each table and view."""
    sections = []
    tells = {(r.schema, r.name): r.tells for r in (*declared(), OBSERVED, *added)}
    tells |= {("main", view.name): view.tells for view in views()}
    with files.aside(root / BUILD) as scratch, connect(root / PUBLISHED, scratch=scratch, read_only=True) as con:
        ((school,),) = con.execute("SELECT ANY_VALUE(school_name) FROM main.institution").fetchall()
        for schema, table, meaning, listed in con.execute(sql("about_students"), {"key": KEY}).fetchall():
            columns = [dict(zip(("name", "type", "meaning"), column, strict=True)) for column in listed]
            where, values = f"{KEY} = $student", dict[str, Any](student=student)
            if not any(column["name"] == KEY for column in columns):
                where = "id = $student AND set_name IN (SELECT UNNEST($sets))"
                values["sets"] = list(OF_STUDENTS)
            # A filter of the view by a student would judge everybody on every day.
            source = "main.watch_daily_of([$student])" if table == "watch_daily" else f'{schema}."{table}"'
            matching = con.execute(f"SELECT * FROM {source} WHERE {where} ORDER BY ALL", values).fetchall()
            whole = [column["type"] == "JSON" or column["name"] == "record" for column in columns]
            rows = [
                tuple(without_others(v, student) if w and v else v for v, w in zip(row, whole, strict=True))
                for row in matching
            ]
            part = _PART_OF[tells.get((schema, table)) or TELLS.get(schema)]
            sections.append(Section(part, f"{schema}.{table}", meaning or "", columns, rows))
    return school or "", sections


def _reused_since(root: Path, student: int) -> date | None:
    """The day on which the student's id became another person's, the last time; None if the id never did."""
    query = f"SELECT MAX(first_day) FROM main.student_identities WHERE {KEY} = $1 AND is_reused"
    with files.aside(root / BUILD) as scratch, connect(root / PUBLISHED, scratch=scratch, read_only=True) as con:
        ((since,),) = con.execute(query, [student]).fetchall()
    return since  # type: ignore[no-any-return]


# The last of the days on which a row holds, or the day after; and the day that a row is about.
_LAST_DAY, _ENDS, _DAYS = "last_day", ("valid_to", "left_on"), ("week_begins", "snapshot_date", "on")
_SPOKEN_ON = "spoken_on"  # before a version's end: undone or not, it was this person then
# Besides changes, two views compare a day or week with the last.
_COMPARING = ("main.watch_daily", "main.student_weekly")


def _since(section: Section, since: date) -> Section:
    """The rows of a section that hold on a day or later; all rows of a section without days, which is about the
    present.

    Comparisons with the time before tell of the earlier person on that day, too.
    """
    names = [column["name"] for column in section.columns]
    dated = next((name for name in (_SPOKEN_ON, _LAST_DAY, *_ENDS, *_DAYS) if name in names), None)
    if dated is None:
        return section
    is_told_later = dated in _ENDS or (section.part == WORDS and dated != "on") or section.name in _COMPARING
    first, place = since + timedelta(days=is_told_later), names.index(dated)
    return replace(section, rows=[row for row in section.rows if row[place] is None or row[place] >= first])


# -- the landings ------------------------------------------------------------------------------------------------------


def _received(raw: RawStore, student: int, progress: Callable[[int, int], None]) -> tuple[list[Section], int]:
    """The records of a student in all landings, also of landings and walks that did not count.

    Also returns how many rejects have no readable id. Raises DamagedError for a landing that cannot be read: the answer
    must not silently skip a landing.
    """
    manifests = [(m, m.verdict.value if m.verdict else "without a verdict") for m in raw.manifests()]
    manifests += [(m, "discarded") for m, _ in raw.discarded()]
    manifests.sort(key=lambda landing: (landing[0].snapshot_date, landing[0].landing))
    records: list[Row] = []
    refused: list[Row] = []
    searches: list[Row] = []
    unnamed = 0
    for number, (manifest, landing_is) in enumerate(manifests, start=1):
        at, landing = (manifest.snapshot_date, manifest.landing), raw.open(manifest)
        for name in OF_STUDENTS:
            for b, content in landing.contents(b for b in landing.pages() if b.set == name):
                for position, record in _own(b, content, student):
                    row = (*at, landing_is, name, b.kind, b.walk, b.page, position, b.received_at)
                    records.append((*row, without_others(record.decode(errors="replace"), student)))
        for r in landing.rejects():
            if r.set in OF_STUDENTS and r.id == student:
                text = without_others(r.record, student)
                refused.append((*at, landing_is, r.set, r.page, r.position, r.why, text))
            unnamed += r.set in OF_STUDENTS and r.id is None
        absences = (a for a in manifest.absences if a.set in OF_STUDENTS and a.id == student)
        searches.extend((*at, ", ".join(a.asked_by), a.answer) for a in absences)
        if any(student in manifest.unverified.get(name, ()) for name in OF_STUDENTS):
            searches.append((*at, "", "too many to search for"))
        progress(number, len(manifests))
    bodies = (
        ("raw.records", "One row per record as received, on each day and in each response.", RECORDS, records),
        ("raw.refused", "One row per record that was refused, in every landing that is kept.", REFUSED, refused),
        (
            "raw.searches",
            "One row per search for the student at the records service, when a night no longer listed them.",
            SEARCHES,
            searches,
        ),
    )
    return [section(RECEIVED, *each) for each in bodies], unnamed


def _own(body: Body, content: bytes, student: int) -> Iterator[tuple[int | None, bytes]]:
    """The student's records in a body, with their positions in a page; a whole answer to a request for the student."""
    if SETS[body.set].walked:
        places = enumerate(shape(body.set).places(content), start=1)
        yield from ((position, content[where]) for position, (listed, where) in places if listed == student)
    elif body.sought == student:
        yield None, content


def without_others(text: str, student: int) -> str:
    """JSON with other people's records redacted; text that is not JSON is returned unchanged."""
    try:
        value = msgspec.json.decode(cut_nesting(text.encode()))
    except UNREADABLE:
        return text
    redacted = _redacted(value, student)
    return text if redacted == value else msgspec.json.encode(redacted).decode()


def _redacted(value: Any, student: int) -> Any:
    if isinstance(value, list):
        return [_redacted(item, student) for item in value]
    if not isinstance(value, dict):
        return value
    ids = {as_id(value.get(KEY)), as_id(value.get("id")) if _OF_PERSONS & value.keys() else None} - {None}
    if ids and student not in ids:
        return LEFT_OUT
    return {key: _redacted(item, student) for key, item in value.items()}


# -- copies ------------------------------------------------------------------------------------------------------------


def _copies(root: Path) -> list[Section]:
    """The export log, and which files may hold the student. They are named, not searched.

    An export that was written elsewhere, moved or sent is known only from a line in the access log, which does not say
    whom the export named.
    """
    log: list[Row] = [
        (entry.at, entry.user, entry.reader or entry.login, entry.kind, entry.students, entry.what)
        for entry in access.entries(root)[0]
        if entry.kind in WRITING
    ]
    versions = [path for folder in (root / FOLDER, root / BUILD / "altered") for path in folder.glob("rollbook.*")]
    coded = [path for path in (root / PSEUDONYMOUS,) if path.exists()]
    there: list[Row] = [
        (str(path.relative_to(root)), datetime.fromtimestamp(path.lstat().st_mtime, UTC))
        for path in (*exported(root), *sorted(versions), *coded)
    ]
    return [
        section(
            COPIES,
            "copies.exports",
            "One row per export and download in the access log. Whether the student was in it is not known.",
            EXPORTS,
            log,
        ),
        section(
            COPIES,
            "copies.files",
            "One row per file in the warehouse that may hold the student.",
            {"file": "VARCHAR", "written_at": MOMENT},
            there,
        ),
    ]


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
    from rollbook.util import pages

    environment = pages.environment("rollbook.rights", shown=lambda value: printable(cell(value), lines=True))
    yield "index.html", environment.get_template("subject.html").render(subject=subject, parts=PARTS)
    yield (
        "contents.json",
        _json({
            "student_id": subject.student, "made_at": subject.at, "institution": subject.school,
            "remarks": subject.remarks,
            "sections": [
                vars(s) | {"rows": len(s.rows)} for s in subject.sections
            ],
        }),
    )  # fmt: skip
    for section in subject.sections:
        names = [column["name"] for column in section.columns]
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
