"""The erased students, recorded without their names, and the gate that keeps them out of later landings.

    private/erasures/memory.json          the warehouse's key, the keyed hashes of the erased ids, the legal holds, and
                                          the erasure in progress, if any

Only the warehouse's owner may read it. An id is a small number: with the key, all of them can be tried, so the key is
as private as the records. It also marks the published files (`store.published.own_files`). The file is always written
whole, so that the key and the hashes stay consistent. Each landing records how many erasures it reflects
(`Manifest.erasures`), which reveals a landing from an old backup.

`rewriting` removes students from earlier landings.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from pipelines import files
from pipelines.errors import DamagedError
from pipelines.landing.manifest import Received, Walk
from pipelines.records import UNREADABLE, decode_page, id_reader, replace_lone_surrogates
from pipelines.tables import SETS

log = logging.getLogger(__name__)

PRIVATE, ERASURES, MEMORY = "private", "erasures", "memory.json"
STUDENTS, DETAILS = "students", "details"
# Replaces an erased student's id: the service's ids begin at 1.
NOBODY = 0

_ENVELOPE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RECORDS = msgspec.json.Decoder(list[msgspec.Raw])
_NAMES = msgspec.json.Decoder(msgspec.defstruct("Names", [(n, Any, None) for n in SETS[STUDENTS].names], gc=False))
_id_of = id_reader(SETS[STUDENTS].id_path)


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """One erased student: the keyed hash of the id, and of the names that identify the student's new records."""

    id: str
    names: tuple[str, ...] = ()
    erased_at: datetime


class LegalHold(msgspec.Struct, frozen=True, kw_only=True):
    """A student who may not be erased, by the keyed hash of the id, and why."""

    id: str
    reason: str
    since: datetime


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """The erasure in progress. It holds no name: the student is the last one in `Remembered.erased`.

    `found` counts the places that held the student before the erasure; `home` is Dagster's folder, if there is one.
    """

    reason: str
    began_at: datetime
    found: dict[str, int] = {}
    home: str = ""


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `memory.json`. The n-th erasure is the n-th entry of `erased`."""

    key: str
    erased: tuple[Erased, ...] = ()
    holds: tuple[LegalHold, ...] = ()
    pending: Pending | None = None


class Matcher:
    """Recognises erased students by id or name. Each id is hashed once."""

    def __init__(self, key: bytes, erased: Iterable[Erased]) -> None:
        self.key = key
        entries = tuple(erased)
        self._ids = frozenset(e.id for e in entries)
        self._names = frozenset(name for e in entries for name in e.names)
        self._known: dict[int, bool] = {}

    def __bool__(self) -> bool:
        """Whether any student is erased."""
        return bool(self._ids)

    def __contains__(self, student: int | None) -> bool:
        """Whether this is an erased student's id."""
        if student is None or not self._ids:
            return False
        known = self._known.get(student)
        if known is None:
            known = self._known[student] = keyed(self.key, "id", str(student)) in self._ids
        return known

    def knows_names(self, record: bytes) -> bool:
        """Whether a student's record has the email or the reference id of an erased student."""
        if not self._names:
            return False
        try:
            found = _NAMES.decode(record)
        except UNREADABLE:
            return False
        values = ((field, getattr(found, field)) for field in SETS[STUDENTS].names)
        return any(isinstance(v, str) and name_hash(self.key, f, v) in self._names for f, v in values)


class Memory:
    """The file `memory.json` of one warehouse. Only the holder of the writer lock may write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / MEMORY
        self._file = files.Decoded(msgspec.json.Decoder(Remembered).decode)

    def read(self) -> Remembered:
        """Return the content, which is empty before the first publish, erasure or hold. Raises DamagedError."""
        try:
            return self._file.read(str(self.path))
        except FileNotFoundError:
            return Remembered(key="")
        except (OSError, ValueError) as error:
            raise _damaged(f"cannot be read ({type(error).__name__})") from None

    def write(self, remembered: Remembered) -> None:
        """Replace the file, durably."""
        for above in (self.folder.parent, self.folder):
            files.folder(above)
        files.write(self.path, msgspec.json.encode(remembered))

    def begun(self) -> Remembered:
        """Return the content with a key, which is created for the first publish, erasure or hold."""
        found = self.read()
        return found if found.key else msgspec.structs.replace(found, key=secrets.token_hex(32))

    @property
    def count(self) -> int:
        """How many students were erased."""
        return len(self.read().erased)

    def matcher(self, since: int = 0) -> Matcher:
        """Return the matcher of the erased students, without the first `since` erasures."""
        found = self.read()
        return Matcher(bytes.fromhex(found.key), found.erased[since:])

    def check(self, erasures: int) -> None:
        """Raise DamagedError if a landing reflects more `erasures` than are recorded."""
        if erasures > self.count:
            raise _damaged(f"lists {self.count} erasures, but a landing was made after {erasures}")


class Gate:
    """Removes erased students from each body of one landing before it is written anywhere."""

    def __init__(self, memory: Memory | None = None) -> None:
        self.erasures = memory.count if memory else 0
        self._gone = memory.matcher() if memory and self.erasures else Matcher(b"", ())
        self._taken: dict[tuple[str, int], set[int]] = {}
        self.recognised = 0

    def admit(self, received: Received, content: bytes) -> tuple[Received, bytes] | None:
        """Return a body without the erased students; None if it is only about an erased student."""
        if not self._gone or received.set not in (STUDENTS, DETAILS):
            return received, content
        if received.set == DETAILS:
            return None if received.sought in self._gone else (received, content)
        left, taken, recognised = take_out(content, self._gone)
        self.recognised += recognised
        if not taken:
            return received, content
        if received.kind == "walk":
            self._taken.setdefault((received.set, received.walk), set()).update(i for i, _ in taken)
        return msgspec.structs.replace(received, erased=len(taken)), left

    def without_erased(self, walk: Walk) -> Walk:
        """Return how a set was read, without the students that were removed from the walks that count."""
        taken = set().union(*(self._taken.get((walk.set, number), set()) for number in walk.counted))
        left = tuple(i for i in walk.repeated_ids if i not in taken)
        return msgspec.structs.replace(walk, erased=len(taken), repeated_ids=left)


def take_out(content: bytes, gone: Matcher) -> tuple[bytes, list[tuple[int, bytes]], int]:
    """Return a page without the students in `gone`; the removed (id, record) pairs; how many others have their names.

    The other records stay byte for byte, except for unreadable text (see `records`). Raises one of `records.UNREADABLE`
    for a body that is not a page.
    """
    page = decode_page(_ENVELOPE, replace_lone_surrogates(content))
    kept, taken, recognised = [], [], 0
    if "data" not in page:
        raise msgspec.DecodeError("a page without records")
    for raw in _RECORDS.decode(page["data"]):
        record = bytes(raw)
        found = _id_of(record)
        if found is not None and found in gone:
            taken.append((found, record))
        else:
            kept.append(record)
            recognised += gone.knows_names(record)
    if not taken:
        return content, [], recognised
    fields = {key: bytes(raw) for key, raw in page.items()} | {"data": b"[%s]" % b",".join(kept)}
    return b"{%s}" % b",".join(b"%s:%s" % (msgspec.json.encode(k), v) for k, v in fields.items()), taken, recognised


def keyed(key: bytes, kind: str, value: str) -> str:
    """Return the keyed hash (HMAC-SHA-256, hex) of a value: useless without the key."""
    return hmac.digest(key, f"{kind}:{value}".encode(errors="replace"), "sha256").hex()


def name_hash(key: bytes, field: str, value: str) -> str:
    """Return the keyed hash of an email or a reference id, ignoring case."""
    return keyed(key, field, value.strip().casefold())


def _damaged(problem: str) -> DamagedError:
    return DamagedError(
        f"{PRIVATE}/{ERASURES}/{MEMORY} {problem}. It lists the erased students, who must not come back, so nothing is"
        f" fetched or made without it: restore {PRIVATE}/{ERASURES}/ from its newest backup"
    )
