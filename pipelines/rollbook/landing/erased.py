"""The erased students, recorded without names, and the gate that keeps them out of every landing.

    private/erasures/register.json        the warehouse's key, the keyed hashes of the erased ids, the legal holds, and
                                          the erasure in progress, if any

Only the warehouse's owner may read it. An id is a small number: with the key, all ids can be tried, so the key is as
private as the records. The file is always written whole, so that the key and the hashes stay consistent. Each landing
records how many erasures are reflected (`Manifest.erasures`), which reveals a landing from an old backup.

Later landings pass the gate before the bodies are written; earlier landings are read first (`find`), and then written
again through the gate (`rewrite`).
"""

from __future__ import annotations

import hmac
import re
import secrets
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rollbook.errors import DamagedError, MachineError
from rollbook.landing import own
from rollbook.landing.bodies import (
    BODIES,
    DISCARD,
    MANIFEST,
    PAGES,
    REJECTS,
    BodyWriter,
    LandingFolder,
    damaged,
    encode,
    swap,
)
from rollbook.landing.formats import Stored, decode
from rollbook.landing.manifest import NOBODY, Absence, Approval, Body, Discard, Manifest, Received, Reject, Walk
from rollbook.landing.records import UNREADABLE, Records, decode_page, id_reader, readable, records_of, unescaped
from rollbook.tables import OF_STUDENTS, SETS
from rollbook.util import files, machine

PRIVATE, ERASURES, REGISTER = "private", "erasures", "register.json"
STUDENTS = "students"
# Replaces an erased student's id or name in a person's words.
ERASED = "(erased)"
# A word of a person's words, and the most words that are looked for as one name.
_WORD = re.compile(r"[^\W_]+")
MOST_WORDS = 12
# A first or last name alone has so many letters at least: a shorter one may be any word.
_LEAST_LETTERS = 3
# The numbers of dates and times are no ids.
_MOMENT = re.compile(r"\d{4}-\d\d?-\d\d?|\d{1,2}\.\d{1,2}\.(?:\d{2,4})?|\d{1,2}/\d{1,2}/\d{2,4}|\d{1,2}:\d\d(?::\d\d)?")
_ID_DIGITS = 19
# What certificates said of deleted files, whose names may be a student's; and the reason on a certificate.
_DELETED_FILES = re.compile(
    r"^Deleted, since they may have held the student:$.*?(?=^Still to do)", re.MULTILINE | re.DOTALL
)
_REASON = re.compile(r"^(Reason: )(.*?)(?=^\| what)", re.MULTILINE | re.DOTALL)

_BODY = msgspec.json.Decoder(Body)
_KIND_OWN = b'"kind":"own"'
_ENVELOPE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RECORDS: msgspec.json.Decoder[Records] = msgspec.json.Decoder(Records)
_NAMES = msgspec.json.Decoder(msgspec.defstruct("Names", [(n, Any, None) for n in SETS[STUDENTS].names], gc=False))
_ID_OF = {name: id_reader(SETS[name].id_path) for name in OF_STUDENTS}


# What a person decided, with a reason.
Given = TypeVar("Given", Approval, Discard)


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """One erased student: the keyed hash of the id, of the names that identify new records, and of the `words` by
    which people name the student.

    From `readmitted_at` on the id is another person's, who is not kept out.
    """

    id: str
    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    erased_at: datetime
    readmitted_at: datetime | None = None

    @property
    def is_kept_out(self) -> bool:
        """Whether records with the id are kept out of new landings."""
        return self.readmitted_at is None


class LegalHold(msgspec.Struct, frozen=True, kw_only=True):
    """A student who may not be erased, by the keyed hash of the id, and why."""

    id: str
    reason: str
    since: datetime


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """The erasure in progress. No name is held: the student is the last in `RegisterContent.erased`.

    `counts` has the places that held the student before the erasure; `home` is Dagster's folder, if there is one.
    """

    reason: str
    began_at: datetime
    counts: dict[str, int] = {}
    home: str = ""


class RegisterContent(Stored, frozen=True, kw_only=True):
    """The content of `register.json`. The n-th erasure is the n-th entry of `erased`."""

    key: str
    erased: tuple[Erased, ...] = ()
    holds: tuple[LegalHold, ...] = ()
    pending: Pending | None = None


class Matcher:
    """Recognises erased students by id or name, also in a person's words. Each id is hashed once."""

    def __init__(self, key: bytes, erased: Iterable[Erased]) -> None:
        entries = tuple(erased)
        self.key = key
        self._ids = ids = frozenset(e.id for e in entries)
        self._names = frozenset(name for e in entries for name in e.names)
        self._words = frozenset(words for e in entries for words in e.words)
        self._until = {e.id: e.readmitted_at for e in entries}  # of an id that was erased twice, the last counts
        self._is_erased = cache(lambda student: keyed(key, "id", str(student)) in ids)

    def __bool__(self) -> bool:
        """Whether any student is erased."""
        return bool(self._ids)

    def __contains__(self, student: int | None) -> bool:
        """Whether the id is an erased student's."""
        return student is not None and bool(self._ids) and self._is_erased(student)

    def knows_names(self, record: bytes) -> bool:
        """Whether a student's record has the email or the reference id of an erased student."""
        if not self._names:
            return False
        try:
            named = _NAMES.decode(record)
        except UNREADABLE:
            return False
        values = ((field, getattr(named, field)) for field in SETS[STUDENTS].names)
        return any(type(v) in (str, int) and name_hash(self.key, f, str(v)) in self._names for f, v in values)

    def knows_name(self, field: str, value: str) -> bool:
        """Whether an email or a reference id (`field`) is an erased student's."""
        return bool(self._names) and name_hash(self.key, field, value) in self._names

    def knows(self, student: int, on: date) -> bool:
        """Whether something about an id, of a day, is about an erased student: for a readmitted id, what is earlier."""
        if student not in self:
            return False
        until = self._until[keyed(self.key, "id", str(student))]
        return until is None or on < until.date()

    def cleaned(self, text: str) -> str:
        """Return a person's words with `(erased)` for each id of an erased student and each name, in any case, that
        stands there as whole words. The numbers of dates and times are no ids.
        """
        composed = unicodedata.normalize("NFC", text)
        moments = {n for moment in _MOMENT.finditer(composed) for n in range(*moment.span())}
        found, left, at, n = [*_WORD.finditer(composed)], "", 0, 0
        while n < len(found):
            length = self._named(found[n : n + MOST_WORDS], moments)
            if length:
                left += composed[at : found[n].start()] + ERASED
                at = found[n + length - 1].end()
            n += length or 1
        return left + composed[at:] if at else text

    def _named(self, found: Sequence[re.Match[str]], moments: Container[int]) -> int:
        """How many of these words, from the first on, are an erased student's id or name; the most of them."""
        words = [word[0].casefold() for word in found]
        for length in range(len(words) if self._words else 0, 0, -1):
            if keyed(self.key, "words", " ".join(words[:length])) in self._words:
                return length
        is_number = words[0].isdecimal() and len(words[0]) <= _ID_DIGITS and found[0].start() not in moments
        return int(is_number and int(words[0]) in self)


class ErasureRegister:
    """The file `register.json` of one warehouse. Only the holder of the writer lock may write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / REGISTER
        self._file = files.Decoded(lambda content, path: decode(content, RegisterContent, path))

    def read(self) -> RegisterContent:
        """Return the content, which is empty before the first publish, erasure or hold. Raises DamagedError, and
        MachineError if this account may not read the file: a backup would be the wrong advice.
        """
        try:
            return self._file.read(str(self.path))
        except FileNotFoundError:
            return RegisterContent(key="")
        except PermissionError as error:
            raise MachineError(machine.message_for_error(error, self.folder.parent.parent) or "") from None
        except (OSError, ValueError) as error:
            raise _damaged(f"cannot be read ({type(error).__name__})") from None

    def write(self, content: RegisterContent) -> None:
        """Replace the file, durably."""
        files.folder(self.folder)
        files.write(self.path, msgspec.json.encode(content))

    def begun(self) -> RegisterContent:
        """Return the content with a key, which is created for the first publish, erasure or hold."""
        register = self.read()
        return register if register.key else msgspec.structs.replace(register, key=secrets.token_hex(32))

    @property
    def count(self) -> int:
        """How many students were erased."""
        return len(self.read().erased)

    def matcher(self, reflected: int | None = None) -> Matcher:
        """Return the matcher of the erased students who are kept out; with `reflected=0`, of all who were ever erased.

        For what reflects only so many erasures, such as a landing from a backup, also of students who were erased since
        and readmitted: a record with such an id is theirs, not the new person's.
        """
        register = self.read()
        entries = (
            e for n, e in enumerate(register.erased) if e.is_kept_out or (reflected is not None and n >= reflected)
        )
        return Matcher(bytes.fromhex(register.key), entries)

    def certificate(self, number: int) -> Path:
        """Return the path of an erasure's certificate."""
        return self.folder / f"certificate-{number}.md"

    def certificates(self) -> list[Path]:
        """Return the certificates that there are, sorted by name."""
        return sorted(self.folder.glob("certificate-*.md"))

    def check(self, erasures: int) -> None:
        """Raise DamagedError if a landing reflects more `erasures` than are recorded."""
        if erasures > self.count:
            raise _damaged(f"lists {self.count} erasures, but a landing was made after {erasures}")


class Gate:
    """Takes erased students out of the bodies of one landing: before they are written, or when the landing is
    rewritten.

    `taken` has each body that held an erased student, with the id. `recognised` counts other records with an erased
    student's email or reference id, and `lines` those of the school's own lists that are about one.
    """

    def __init__(self, erased: Matcher) -> None:
        self.taken: list[tuple[Received, int]] = []
        self.recognised = self.lines = 0
        self._gone = erased

    def admit(self, received: Received, content: bytes) -> tuple[Received, bytes] | None:
        """Return a body without the erased students; None if the body is only about an erased student.

        Raises one of `records.UNREADABLE` for a body that is not a page.
        """
        if received.kind == "own":
            left, lines = own.without(content, self._gone) if self._gone else (content, 0)
            self.lines += lines
            return msgspec.structs.replace(received, erased=received.erased + lines), left
        sought, is_sought = received.sought, received.sought in self._gone
        is_page = SETS[received.set].walked
        if not self._gone or received.set not in OF_STUDENTS or not (is_page or is_sought):
            return received, content
        if sought is not None and not is_page:
            self.taken.append((received, sought))
            return None
        left, taken, recognised = take_out(content, self._gone, received.set)
        self.taken += [(received, student) for student in taken]
        self.recognised += recognised
        if not (taken or is_sought):
            return received, content
        erased = received.erased + len(taken)
        return msgspec.structs.replace(received, sought=NOBODY if is_sought else sought, erased=erased), left

    def without_erased(self, walk: Walk) -> Walk:
        """Return how a set was read, without the students that were taken out of what counts."""
        taken = {student for body, student in self.taken if _counts(body, student, walk)}
        left = tuple(i for i in walk.repeated_ids if i not in taken)
        return msgspec.structs.replace(walk, erased=walk.erased + len(taken), repeated_ids=left)

    def stamped(self, manifest: Manifest, folder: Path, erasures: int) -> Manifest:
        """Return the manifest of the bodies in `folder`, which passed the gate: without erased students."""
        index = (folder / PAGES).read_bytes()
        lists = {} if manifest.own is None else manifest.own | _lists(index)
        return msgspec.structs.replace(
            manifest,
            walks=tuple(map(self.without_erased, manifest.walks)),
            erasures=erasures,
            own=None if manifest.own is None else lists,
            bodies=index.count(b"\n"),
            bodies_sha256=sha256(index).hexdigest(),
        )


def _lists(index: bytes) -> dict[str, str]:
    """The digests of the school's own lists in an index of bodies."""
    lines = (line for line in index.splitlines() if _KIND_OWN in line)
    return {body.name: body.sha256 for body in map(_BODY.decode, lines) if body.kind == "own"}


def _counts(body: Received, student: int, walk: Walk) -> bool:
    """Whether a student's record in a body counted: on a page of a counted walk, or found by a search."""
    counted = body.kind == "walk" and body.walk in walk.counted
    return body.set == walk.set and (counted or student == body.sought)


def take_out(content: bytes, erased: Matcher, set_name: str = STUDENTS) -> tuple[bytes, list[int], int]:
    """Return a page without the students in `erased`; the removed ids; how many other records have the names.

    The other records stay byte for byte, except for what JSON does not allow (see `records.readable`). Raises one of
    `records.UNREADABLE` for a body that is not a page.
    """
    page = decode_page(_ENVELOPE, readable(content))
    left, taken, recognised = [], [], 0
    if (records := records_of(_RECORDS.decode(page.get("data", b"null")))) is None:
        raise msgspec.DecodeError("a page without records")
    for raw in records:
        record = bytes(raw)
        student = _ID_OF[set_name](record)
        if student is not None and student in erased:
            taken.append(student)
        else:
            left.append(record)
            recognised += erased.knows_names(record)
    if not taken:
        return content, [], recognised
    fields = {key: bytes(raw) for key, raw in page.items()} | {"data": b"[%s]" % b",".join(left)}
    return b"{%s}" % b",".join(b"%s:%s" % (msgspec.json.encode(k), v) for k, v in fields.items()), taken, recognised


@dataclass
class StudentTraces:
    """Traces of erased students in a landing: how many bodies, records, lines of the school's own lists, rejects,
    searches and reasons of people.
    """

    landing: LandingFolder
    bodies: int = 0
    records: int = 0
    lines: int = 0
    rejects: int = 0
    absences: int = 0
    reasons: int = 0

    @property
    def anything(self) -> bool:
        """Whether the landing holds anything about an erased student."""
        return bool(self.bodies or self.rejects or self.absences or self.reasons)


def find(landing: LandingFolder, erased: Matcher) -> StudentTraces:
    """Search one landing for erased students. Raises DamagedError."""
    gate = Gate(erased)
    bodies = sum(left != body for body, left in _through(gate, landing))
    return StudentTraces(
        landing,
        bodies=bodies,
        records=len(gate.taken),
        lines=gate.lines,
        rejects=sum(_is_about(reject, erased) for reject in landing.rejects()),
        absences=sum(_is_about(absence, erased) for absence in landing.manifest.absences)
        + sum(student in erased for name in OF_STUDENTS for student in landing.manifest.unverified.get(name, ())),
        reasons=sum(erased.cleaned(reason) != reason for reason in _reasons(landing)),
    )


def rewrite(traces: StudentTraces, erased: Matcher, erasures: int) -> None:
    """Rewrite one landing without erased students, and record in the manifest how many `erasures` are reflected.

    The new folder is made next to the old one and takes its place by renames. The manifest's proofs still hold: an
    erased student counts as seen.
    """
    landing, gate = traces.landing, Gate(erased)
    if not traces.anything:
        files.write(landing.path / MANIFEST, encode(msgspec.structs.replace(landing.manifest, erasures=erasures)))
        return

    def write(aside: Path) -> None:
        with closing(BodyWriter(aside)) as writer:
            for _, left in _through(gate, landing):
                if left is not None:
                    writer.add(*left)
            writer.seal()
        rejects = [reject for reject in landing.rejects() if not _is_about(reject, erased)]
        files.write(aside / REJECTS, b"".join(msgspec.json.encode(reject) + b"\n" for reject in rejects))
        if discards := [_without(discard, erased) for discard in landing.discards()]:
            files.write(aside / DISCARD, msgspec.json.encode(discards))
        manifest = gate.stamped(_manifest(landing, erased), aside, erasures)
        files.write(aside / MANIFEST, encode(manifest))

    swap(landing.path, write)


def _through(gate: Gate, landing: LandingFolder) -> Iterator[tuple[tuple[Body, bytes], tuple[Received, bytes] | None]]:
    """Yield each body of a landing, and what the gate leaves."""
    for body in landing.contents(landing.pages()):
        try:
            yield body, gate.admit(*body)
        except UNREADABLE as error:
            problem = f"a body is not a page of students: {type(error).__name__}"
            raise damaged(landing.path, BODIES, problem) from None


def _manifest(landing: LandingFolder, erased: Matcher) -> Manifest:
    """Return a landing's manifest without the searches and rejects of erased students, and without their names in the
    reasons that people gave.

    The counts of undeclared fields name nobody, and stay.
    """
    manifest = landing.manifest
    return msgspec.structs.replace(
        manifest,
        absences=tuple(msgspec.structs.replace(a, id=NOBODY) if _is_about(a, erased) else a for a in manifest.absences),
        unverified={
            name: tuple(NOBODY if name in OF_STUDENTS and i in erased else i for i in ids)
            for name, ids in manifest.unverified.items()
        },
        approval=manifest.approval and _without(manifest.approval, erased),
        rejected=dict(
            Counter(manifest.rejected)
            - Counter(r.set for r in landing.rejects() if not r.column and _is_about(r, erased))
        ),
    )


def _reasons(landing: LandingFolder) -> list[str]:
    """The words of people about a landing."""
    approval = landing.manifest.approval
    return [*([approval.reason] if approval else []), *(d.reason for d in landing.discards())]


def _without(given: Given, erased: Matcher) -> Given:
    return msgspec.structs.replace(given, reason=erased.cleaned(given.reason))


def _is_about(entry: Reject | Absence, erased: Matcher) -> bool:
    return entry.set in OF_STUDENTS and entry.id in erased


def keyed(key: bytes, kind: str, value: str) -> str:
    """Return the keyed hash (HMAC-SHA-256, hex) of a value: useless without the key."""
    return hmac.digest(key, f"{kind}:{value}".encode(errors="replace"), "sha256").hex()


def name_hash(key: bytes, field: str, value: str) -> str:
    """Return the keyed hash of an email or a reference id, as stored, ignoring case."""
    return keyed(key, field, unicodedata.normalize("NFC", unescaped(value)).strip().casefold())


def clean_certificate(text: str, erased: Matcher) -> str:
    """Return a certificate without the names of deleted files, and with a reason that names no erased student."""
    without_files = _DELETED_FILES.sub("", text)
    return _REASON.sub(lambda reason: reason[1] + erased.cleaned(reason[2]), without_files)


def word_hashes(key: bytes, names: Iterable[str], parts: Iterable[str]) -> set[str]:
    """Return the keyed hashes by which `Matcher.cleaned` finds names in a person's words: whole names, and those
    `parts` of them that are long enough to name somebody alone.
    """
    wholes = [*names, *(part for part in parts if len(part.strip()) >= _LEAST_LETTERS)]
    texts = (unicodedata.normalize("NFC", unescaped(name)).casefold() for name in wholes)
    words = (_WORD.findall(text) for text in texts)
    return {keyed(key, "words", " ".join(each)) for each in words if 0 < len(each) <= MOST_WORDS}


def _damaged(problem: str) -> DamagedError:
    return DamagedError(
        f"{PRIVATE}/{ERASURES}/{REGISTER} {problem}. It lists the erased students, who must not come back, so nothing"
        f" is fetched or made without it: restore {PRIVATE}/{ERASURES}/ from its newest backup"
    )
