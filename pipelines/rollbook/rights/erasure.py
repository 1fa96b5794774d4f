"""Erases one student from the whole warehouse, for good.

    holdings    count what holds the student; nothing is written
    erase       count, ask, record the student's keyed hash and that an erasure is under way
    hold, lift  refuse to erase a student, while there is a legal duty to keep records
    readmit     let a new person in, to whom the service gave an erased student's id

From then on, recovery does the rest (`night.writing.recover`), also after a kill: it removes the student from the
landings, the lake and the published files, and then tells all listeners. All steps can be repeated, and work from what
is there. Students are matched by keyed hash only, so the journal names nobody.

The certificate says what was done, for a data-protection officer's files. It does not say who was erased.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec

from rollbook import __version__
from rollbook.errors import ArgumentError, NotConfirmedError
from rollbook.landing.erased import (
    ERASED,
    Erased,
    LegalHold,
    Matcher,
    Pending,
    StudentTraces,
    find,
    keyed,
    name_hash,
    word_hashes,
)
from rollbook.landing.manifest import Hold
from rollbook.landing.records import as_id
from rollbook.night.erasures import altered
from rollbook.night.listeners import ErasureUnderWay, Listener
from rollbook.night.place import Clock, Place, quiet
from rollbook.night.writing import Writer
from rollbook.reading import access
from rollbook.reading.formats import exported
from rollbook.rights.leftovers import leftovers
from rollbook.rights.personal import PersonalData
from rollbook.source.pagination import Progress
from rollbook.store import without
from rollbook.store.database import connect, count
from rollbook.store.published import EXPORTS
from rollbook.store.statements import statements
from rollbook.tables import SETS
from rollbook.util import files
from rollbook.util.text import listed
from rollbook.views import contacted

sql = statements("rollbook.rights")

# Whether a student was erased.
Gone = Callable[[int], bool]

WAIT_SECONDS = 30.0

_TOLD = re.compile(r"\b(?:students? |student/|more than once, such as )\d+(?:, \d+)*\b")
_HINT = "student"
# Where Dagster keeps what a person typed into a launch, and the reason there, as JSON.
_RUNS = "runs", "run_body"
_GIVEN = re.compile(r'("reason": )("(?:[^"\\]|\\.)*")')

# The reference id, email, name, first and last name.
Name = tuple[str | None, str | None, str | None, str | None, str | None]


# The counts, in the order of the certificate. `rollbook erase` shows the first of these before the erasure, too.
LABELS = {
    "landings": "landings with the student, in raw/",
    "bodies": "bodies in them, rewritten or removed",
    "records": "records in these bodies, removed",
    "lines": "lines of the school's own lists in these bodies, removed",
    "rejects": "refused records and values, removed",
    "searches": "searches for the student in manifests, removed",
    "reasons": "landings whose approval or discard has a reason with the student's id or name, replaced there",
    "days": "days of the lake, rewritten in snapshots/",
    "rows": "rows of the published file, removed",
    "expired": "expired days, of which only the history is left",
    "versions": "published files, made again",
    "altered": "altered copies in build/, removed",
    "exports": "files in exports/, deleted whatever they hold",
    "contacted": "lines of contacted.csv, removed",
    "dagster": "texts in Dagster's records, changed",
    "recognised": "remaining records with the student's email or reference id, under another id or none",
}
# Advice about records of Dagster that were not cleaned.
_BY_HAND = "look for the student's id in the logs of runs with details, and delete these runs."
TO_DO = (
    "Backups of the warehouse, of raw/ and of Dagster's folder still hold the student: delete them, or let them expire,"
    " and note by when. After a restore, the next sync removes the student from raw/, snapshots/, published/ and"
    " private/ again, as long as private/erasures/ is the latest one.",
    "Readers who opened the file before the erasure keep the old one until they close it: ask them to connect again.",
    "The disk may keep old blocks until they are overwritten: disk encryption or secure disposal covers that.",
    "The records service is not part of Rollbook: it may still list the student.",
)


@dataclass(frozen=True)
class Holdings:
    """The places that hold a student: counts by key (see LABELS), and all names that the student ever had.

    The first names are the names that a student is searched by. `exports` are deleted, whatever their content.
    `landings` are all landings, also those without the student.
    """

    counts: dict[str, int]
    exports: list[Path]
    names: list[Name]
    landings: dict[Path, StudentTraces]

    @property
    def anything(self) -> bool:
        """Whether anything in the warehouse is about the student."""
        return any(self.counts[key] for key in ("landings", "days", "rows"))


class Certificate(NamedTuple):
    """The certificate of an erasure, in Markdown, as kept at `path`; and the counts by key (see LABELS)."""

    path: Path
    text: str
    counts: dict[str, int]


class Erasure(Listener):
    """The erasures of one warehouse. The caller holds the writer lock."""

    name = "the record of an erasure"

    def __init__(
        self, place: Place, clock: Clock, personal: Sequence[PersonalData] = (), features: Collection[str] = ()
    ) -> None:
        """`personal` says what the `features` hold that are there."""
        self.raw = place.raw
        self.warehouse = place.warehouse
        self.clock = clock
        self.personal = personal
        self.features = features
        self.certificate: Certificate | None = None

    def holdings(self, student: int, progress: Progress = quiet) -> Holdings:
        """Count what holds a student. Reads every body of every landing; raises DamagedError."""
        rows = recognised = 0
        if self.warehouse.published_file.is_file():
            rows = without.rows_in_file(self.warehouse.published_file, self.warehouse.scratch, [student])
            with self._published() as con:
                recognised = count(con, sql("same_names"), {"student": student})
        names = self.names(student)
        erased = matcher_of(student, names, self.clock())
        folders = list(self.raw.folders())
        landings = {}
        for number, folder in enumerate(folders, start=1):
            landings[folder.path] = find(folder, erased)
            progress("landings read", number, len(folders))
        with self.warehouse.computing() as con:
            records = self.warehouse.lake.days().values()
            days = sum(bool(without.gone_on_day(con, self.warehouse.lake, r, erased.__contains__)) for r in records)
        exports, traces = exported(self.warehouse.root), landings.values()
        counts = {
            "landings": sum(f.anything for f in traces),
            "bodies": sum(f.bodies for f in traces),
            "records": sum(f.records for f in traces),
            "lines": sum(f.lines for f in traces),
            "rejects": sum(f.rejects for f in traces),
            "searches": sum(f.absences for f in traces),
            "reasons": sum(bool(f.reasons) for f in traces),
            "days": days,
            "rows": rows,
            "expired": len(self.raw.expired() - set(self.raw.days())),
            "versions": len(self.warehouse.versions.all()),
            "altered": len(altered(self.warehouse)),
            "exports": len(exports),
            "contacted": contacted.lines_about(self.warehouse.root, erased.knows),
            "recognised": recognised,
        }
        return Holdings(counts, exports, names, landings)

    def began(self, at: datetime) -> None:  # noqa: ARG002 - whatever was restored, and whenever
        """Take ids out of the access log, also out of a restored one."""
        if self.raw.erasure_register.count:
            access.forget_ids(self.warehouse.root)

    def erased(self, erased: ErasureUnderWay) -> None:
        """Delete the exports, clean Dagster's records, and write the certificate; composed last."""
        warehouse, pending, counts = self.warehouse, erased.pending, erased.counts
        exports, left_open = exported(warehouse.root), list[str]()
        empty_exports(warehouse.root)
        counts["exports"] = len(exports)
        home = Path(pending.home) if pending.home else None
        if home is None or not home.is_dir():
            left_open.append(
                "Dagster's records were not cleaned, as no folder of Dagster's was found (DAGSTER_HOME): if there is"
                f" one, {_BY_HAND}"
            )
        else:
            counts["dagster"], locked = take_out(home, erased.erased.__contains__, erased.erased.cleaned)
            left_open.append(
                f"Of Dagster's records, those below {home} were cleaned. If Rollbook ran with another DAGSTER_HOME,"
                f" there {_BY_HAND}"
            )
            if elsewhere := _kept_elsewhere(home):
                left_open.append(
                    f"Dagster keeps records outside of that folder ({elsewhere} in its dagster.yaml), such as in"
                    f" PostgreSQL, which were not cleaned: {_BY_HAND}"
                )
            if locked:
                left_open.append(
                    f"{locked} files below Dagster's folder were in use: stop `rollbook serve`, then look for the"
                    " student's id in them."
                )
        left_open += [each for data in self.personal for each in data.to_do]
        text = _certificate(erased.number, pending, self.clock(), counts, left_open, self.labels)
        path = self.raw.erasure_register.certificate(erased.number)
        files.write(path, text.encode())
        self.certificate = Certificate(path, text, counts)

    def leftovers(self) -> list[Path]:
        """Files of features that are not there (`rights.leftovers`)."""
        return leftovers(self.warehouse.root, self.warehouse.district, self.features)

    @property
    def labels(self) -> dict[str, str]:
        """What the counts are called, in the order of the certificate."""
        return LABELS | {key: label for data in self.personal for key, label in data.labels.items()}

    def _published(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        return connect(self.warehouse.published_file, scratch=self.warehouse.scratch, read_only=True)

    def names(self, student: int) -> list[Name]:
        """All names that the student has in the published file."""
        if not self.warehouse.published_file.is_file():
            return []
        columns = "reference_id, email, name, first_name, last_name"
        with self._published() as con:
            return con.execute(
                f"SELECT DISTINCT {columns} FROM history.students WHERE student_id = $1", [student]
            ).fetchall()


def _listener(writer: Writer) -> Erasure:
    if (found := writer.listeners.find(Erasure)) is None:
        raise LookupError("Erasure is not among the listeners in assembly.py")
    return found


def holdings(writer: Writer, student: int) -> Holdings:
    """Count what holds a student. Changes nothing, except that it recovers what a killed writer left.

    Raises ArgumentError for an invalid id, and what recovery raises.
    """
    _check(student)
    with writer.writing():
        return _listener(writer).holdings(student, writer.progress)


def erase(
    writer: Writer,
    student: int,
    *,
    reason: str,
    confirm: Callable[[Holdings], bool],
    home: Path | None = None,
) -> Certificate:
    """Erase a student, and leave them out of all later landings; returns the certificate.

    `confirm` asks whether to go on, given what holds the student. `home` is Dagster's folder, whose records are
    cleaned. An unknown student is kept out as well, if that is confirmed. Raises ArgumentError for an invalid id, a
    reason that is missing or identifies the student, a student under a legal hold, and files of a feature that is
    not installed; NotConfirmedError without a
    confirmation. Nothing is changed then.
    """
    _check(student, reason)
    writer.settings.check_words(reason)
    if left := _listener(writer).leftovers():
        raise ArgumentError(
            f"{listed([str(path) for path in left])} may hold the student, and the feature that would erase them there"
            " is not installed. Nothing was erased: delete these first (a copy elsewhere, too), or install the feature"
        )
    with writer.writing():
        erasure, register = _listener(writer), writer.place.raw.erasure_register
        holdings = erasure.holdings(student, writer.progress)
        content = register.begun()
        key = bytes.fromhex(content.key)
        ident = keyed(key, "id", str(student))
        if held := [hold for hold in content.holds if hold.id == ident]:
            raise ArgumentError(
                f"This student has been under a legal hold since {held[0].since:%Y-%m-%d} ({held[0].reason}), so"
                " nothing was erased. Once it is over, lift it with `rollbook erase STUDENT --lift`"
            )
        if student in register.matcher() and not holdings.anything:
            raise ArgumentError("This student was erased before, and nothing holds them now: there is nothing to do")
        if not confirm(holdings):
            raise NotConfirmedError("Held: it was not confirmed. Nothing was changed", Hold(reason="", counts=()))
        _check_reason(reason, student, holdings.names)
        now = writer.clock()
        names = _name_hashes(key, holdings.names)
        words = word_hashes(key, *_words(holdings.names))
        erased = Erased(id=ident, names=tuple(sorted(names)), words=tuple(sorted(words)), erased_at=now)
        pending = Pending(reason=reason.strip(), began_at=now, counts=holdings.counts, home=str(home or ""))
        # From here on the erasure can only be finished.
        register.write(msgspec.structs.replace(content, erased=(*content.erased, erased), pending=pending))
        writer.recover(holdings.landings)  # as the next writer would after a kill at this point
        if erasure.certificate is None:
            raise AssertionError("an erasure that was begun is not finished")
        return erasure.certificate


def hold(writer: Writer, student: int, *, reason: str) -> None:
    """Put a student under a legal hold, until `lift`. Raises ArgumentError for a student who is erased already, or a
    reason that identifies the student.
    """
    _check(student, reason)
    writer.settings.check_words(reason)
    register = writer.place.raw.erasure_register
    with writer.writing():
        if student in register.matcher():
            raise ArgumentError("This student was erased already: there is nothing left to hold")
        _check_reason(reason, student, _listener(writer).names(student))
        content = register.begun()
        ident = keyed(bytes.fromhex(content.key), "id", str(student))
        others = tuple(hold for hold in content.holds if hold.id != ident)
        added = LegalHold(id=ident, reason=reason.strip(), since=writer.clock())
        register.write(msgspec.structs.replace(content, holds=(*others, added)))


def lift(writer: Writer, student: int) -> None:
    """Lift the legal hold on a student. Raises ArgumentError if there is none."""
    _check(student)
    register = writer.place.raw.erasure_register
    with writer.writing():
        content = register.read()
        ident = keyed(bytes.fromhex(content.key), "id", str(student))
        left = tuple(hold for hold in content.holds if hold.id != ident)
        if left == content.holds:
            raise ArgumentError("This student is not under a legal hold: there is nothing to lift")
        register.write(msgspec.structs.replace(content, holds=left))


def readmit(writer: Writer, student: int) -> None:
    """Let a new person with an erased student's id in, from the next landing on; what was erased stays erased.

    Raises ArgumentError if no student with the id is kept out.
    """
    _check(student)
    register = writer.place.raw.erasure_register
    with writer.writing():
        content = register.read()
        ident = keyed(bytes.fromhex(content.key), "id", str(student))
        now = writer.clock()
        entries = tuple(
            msgspec.structs.replace(each, readmitted_at=now) if each.id == ident and each.is_kept_out else each
            for each in content.erased
        )
        if entries == content.erased:
            raise ArgumentError("No student with this id is kept out: there is nobody to readmit")
        register.write(msgspec.structs.replace(content, erased=entries))


def _check(student: int, reason: str = "given") -> None:
    if as_id(student) is None:
        raise ArgumentError("Give the student's id at the records service, a whole number from 1")
    if not reason.strip():
        raise ArgumentError('Say why: add --reason "...", which is kept. Without names')


def _check_reason(reason: str, student: int, names: Iterable[Name]) -> None:
    """Raise ArgumentError for a reason with the student's id, reference id, email, or a name."""
    if matcher_of(student, names, datetime.now(UTC)).cleaned(reason) != reason:
        raise ArgumentError("The reason identifies the student, and others will read it: write a case number")


def matcher_of(student: int, names: Iterable[Name], at: datetime) -> Matcher:
    """A matcher that recognises one student, with a key that nothing keeps."""
    key, names = secrets.token_bytes(32), list(names)
    words, hashes = word_hashes(key, *_words(names)), _name_hashes(key, names)
    ident = keyed(key, "id", str(student))
    return Matcher(key, [Erased(id=ident, names=tuple(hashes), words=tuple(words), erased_at=at)])


def _name_hashes(key: bytes, names: Iterable[Name]) -> set[str]:
    """The keyed hashes of the reference ids and emails."""
    fields = SETS["students"].names
    return {name_hash(key, of, value) for name in names for of, value in zip(fields, name, strict=False) if value}


def _words(names: Iterable[Name]) -> tuple[list[str], list[str]]:
    """What people may call a student: the whole names, and the first and last names, of which each may stand alone."""
    wholes, parts = list[str | None](), list[str | None]()
    for reference, email, name, first, last in names:
        wholes += [reference, email, name, *((f"{first} {last}", f"{last} {first}") if first and last else ())]
        parts += [first, last]
    return [*filter(None, wholes)], [*filter(None, parts)]


def empty_exports(warehouse: Path) -> None:
    """Delete everything in the folder of exports; the folders, too, whose names may be a student's."""
    for path in (warehouse / EXPORTS).glob("*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _certificate(
    number: int, pending: Pending, at: datetime, counts: dict[str, int], left_open: list[str], labels: Mapping[str, str]
) -> str:
    """The certificate in Markdown. `left_open` is for a person to do."""
    lines = [
        f"# Erasure {number}",
        "",
        f"One student was erased by Rollbook {__version__}, from {pending.began_at:%Y-%m-%d %H:%M:%S} to"
        f" {at:%Y-%m-%d %H:%M:%S} UTC. This page does not say who.",
        "",
        f"Reason: {pending.reason}",
        "",
        "| what | count |",
        "|---|--:|",
        *(f"| {label} | {counts[key]:,} |" for key, label in labels.items() if key in counts),
        "",
        "The history and the morning page were made again without the student. All other rows are unchanged, and so"
        " are the counts that the service states for a class, and the names and counts of undeclared fields. A keyed"
        " hash of the id is kept in private/erasures/, so that the student stays out of every later landing, rebuild,"
        " restore and backfill.",
        "",
        "Still to do, by a person:",
        "",
        *(f"- {each}" for each in (*left_open, *TO_DO)),
        "",
    ]
    return "\n".join(lines)


# -- Dagster's records -------------------------------------------------------------------------------------------------
#
# Names never get there by Rollbook (G12), and metadata and checks hold counts only. A few log lines give the id of the
# student that was fetched, and a run of the UI keeps the reason that a person gave. They are text in SQLite files and
# logs below Dagster's folder: the id, and a name in a reason, are replaced.


def _kept_elsewhere(home: Path) -> str:
    """The entries of Dagster's configuration by which Dagster may keep records elsewhere."""
    with suppress(OSError):
        text = (home / "dagster.yaml").read_text(encoding="utf-8", errors="replace")
        return ", ".join(re.findall(r"^((?:\w+_)?storage|compute_logs)\s*:", text, re.MULTILINE))
    return ""


def take_out(home: Path, erased: Gone, words: Callable[[str], str] = str) -> tuple[int, int]:
    """Remove students from all records below Dagster's folder; returns the texts changed, and the files not written.

    `words` cleans the reasons that people gave in the UI. Waits up to `WAIT_SECONDS` for a database that is in use.
    """
    changed = locked = 0
    for path in sorted(home.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        try:
            if path.name.endswith(".db"):
                changed += _of_database(path, erased, words)
            elif path.suffix in (".err", ".out", ".log") or "compute_logs" in path.parts:
                changed += take_out_of_text(path, erased)
        except (OSError, sqlite3.Error):
            locked += 1
    return changed, locked


def cleaned(text: str, erased: Gone) -> str:
    """Return a text from Dagster's records or an alert without students who are `erased`."""

    def left(match: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda digits: ERASED if erased(int(digits[0])) else digits[0], match[0])

    return _TOLD.sub(left, text)


def take_out_of_text(path: Path, erased: Gone) -> int:
    """Remove students from a text file, if there; returns 1 after a change."""
    text = path.read_bytes().decode(errors="surrogateescape") if path.is_file() else ""
    left = cleaned(text, erased)
    if left != text:
        files.write(path, left.encode(errors="surrogateescape"))
    return left != text


def _with_reason(run: str, words: Callable[[str], str]) -> str:
    """The text of a run with a cleaned reason."""

    def left(match: re.Match[str]) -> str:
        reason = json.loads(match[2])
        return match[1] + (match[2] if words(reason) == reason else json.dumps(words(reason)))

    return _GIVEN.sub(left, run)


def _of_database(path: Path, erased: Gone, words: Callable[[str], str]) -> int:
    with closing(sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)) as con:
        con.execute("PRAGMA secure_delete = ON")
        con.create_function("cleaned", 1, lambda text: cleaned(text, erased))
        con.create_function("with_reason", 1, lambda text: _with_reason(text, words))
        columns = con.execute(
            "SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c"
            " WHERE t.type = 'table' AND c.type NOT LIKE '%INT%'"
        )
        changed = 0
        for table, column in columns.fetchall():
            has_student = f"TYPEOF(\"{column}\") = 'text' AND \"{column}\" LIKE '%{_HINT}%'"
            update = f'UPDATE "{table}" SET "{column}" = cleaned("{column}") WHERE {has_student}'
            changed += con.execute(f'{update} AND cleaned("{column}") <> "{column}"').rowcount
            if (table, column) == _RUNS:
                update = f"UPDATE {table} SET {column} = with_reason({column})"
                changed += con.execute(f"{update} WHERE with_reason({column}) <> {column}").rowcount
        if changed:
            # Old values may remain in free pages and in the write-ahead log.
            con.execute("VACUUM")
            with suppress(sqlite3.Error):
                con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return changed
