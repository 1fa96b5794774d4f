"""Removes erased students from earlier landings: from their bodies, index, rejects and manifest.

All landings are read first (`find`), and rewritten only if none of them is damaged (`rewrite`). The new folder is made
beside the old one and replaces it by renames. The manifest's proofs still hold: an erased student counts as seen.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pipelines import files
from pipelines.landing.bodies import (
    BODIES,
    MANIFEST,
    PAGES,
    REJECTS,
    BodyWriter,
    LandingFolder,
    damaged,
    encode,
    rejects,
    swap,
)
from pipelines.landing.erased import DETAILS, NOBODY, STUDENTS, Matcher, take_out
from pipelines.landing.manifest import Absence, Body, Drift, Manifest, Reject, Walk
from pipelines.records import UNREADABLE

# An id written with an exponent, or under an escaped key, cannot be found by its digits.
_DISGUISED = re.compile(rb'"id"\s*:\s*[-+.\d]*[eE]')
_ESCAPED = b"\\u00"

# Counts the undeclared fields of one record, by field and JSON type.
DriftOf = Callable[[bytes], Counter[tuple[str, str]]]


@dataclass
class Found:
    """What one landing holds about erased students. `bodies` are the positions of the bodies to rewrite."""

    folder: LandingFolder
    bodies: frozenset[int] = frozenset()
    records: int = 0
    rejects: int = 0
    absences: int = 0

    @property
    def anything(self) -> bool:
        """Whether the landing holds anything about an erased student."""
        return bool(self.bodies or self.rejects or self.absences)


def find(folder: LandingFolder, gone: Matcher, hints: Collection[int] | None = None) -> Found:
    """Search one landing for erased students. Raises DamagedError.

    With `hints`, the ids of all erased students, only bodies that contain their digits are decoded.
    """
    found, bodies = Found(folder), set()
    pages = [(position, body) for position, body in enumerate(folder.pages()) if body.set in (STUDENTS, DETAILS)]
    contents = folder.contents(body for _, body in pages)
    for (position, body), (_, content) in zip(pages, contents, strict=True):
        if body.sought in gone:
            bodies.add(position)
        if body.set == DETAILS:
            found.records += body.sought in gone
        elif hints is None or _may_hold(content, hints):
            _, taken = _taken_out(folder, content, gone)
            if taken:
                bodies.add(position)
                found.records += len(taken)
    found.bodies = frozenset(bodies)
    found.rejects = sum(_is_about(reject, gone) for reject in rejects(folder.path))
    found.absences = sum(_is_of(absence, gone) for absence in folder.manifest.absences)
    return found


def rewrite(found: Found, gone: Matcher, erasures: int, drift_of: DriftOf) -> None:
    """Rewrite one landing without erased students, and record in its manifest how many `erasures` it reflects."""
    folder, manifest = found.folder, found.folder.manifest
    taken = _Taken(set(), Counter())
    if not found.anything:
        noted = msgspec.structs.replace(manifest, erasures=erasures)
        files.write(folder.path / MANIFEST, encode(noted))
        return

    def write(aside: Path) -> None:
        writer = BodyWriter(aside)
        try:
            for body, content in _left(found, gone, taken, drift_of):
                writer.add(body, content)
            written = writer.seal()
        finally:
            writer.close()
        kept = [reject for reject in rejects(folder.path) if not _is_about(reject, gone)]
        for each in files.names(folder.path):
            if each not in (BODIES, PAGES, MANIFEST, REJECTS) and not each.endswith(files.PARTIAL):
                shutil.copyfile(folder.path / each, aside / each)
                (aside / each).chmod(files.PRIVATE_FILE)
                files.sync(aside / each)
        if (folder.path / REJECTS).exists():
            files.write(aside / REJECTS, b"".join(msgspec.json.encode(reject) + b"\n" for reject in kept))
        changed = _manifest(manifest, gone, taken, _rejected(manifest, folder.path, gone))
        stamped = msgspec.structs.replace(
            changed, bodies=written.bodies, bodies_sha256=written.sha256, erasures=erasures
        )
        files.write(aside / MANIFEST, encode(stamped))

    swap(folder.path, write)


@dataclass
class _Taken:
    """The student ids removed from bodies that count, and their records' undeclared fields."""

    ids: set[int]
    drift: Counter[tuple[str, str]]


def _left(found: Found, gone: Matcher, taken: _Taken, drift_of: DriftOf) -> Iterator[tuple[Body, bytes]]:
    """Yield each body without the erased students, leaving out their details."""
    folder = found.folder
    walk, slipped = folder.manifest.walk(STUDENTS), folder.manifest.found(STUDENTS)
    for position, (body, content) in enumerate(folder.contents(folder.pages())):
        if position not in found.bodies:
            yield body, content
            continue
        if body.set == DETAILS:
            continue
        left, records = _taken_out(folder, content, gone)
        if body.kind == "walk" and walk is not None and body.walk in walk.counted:
            taken.ids.update(student for student, _ in records)
            for _, record in records:
                taken.drift.update(drift_of(record))
        elif body.sought in slipped:
            for student, record in records:
                if student == body.sought:
                    taken.drift.update(drift_of(record))
        yield (
            msgspec.structs.replace(
                body, sought=NOBODY if body.sought in gone else body.sought, erased=body.erased + len(records)
            ),
            left,
        )


def _manifest(manifest: Manifest, gone: Matcher, taken: _Taken, rejected: dict[str, int]) -> Manifest:
    ids = taken.ids | {a.id for a in manifest.absences if _is_of(a, gone) and a.answer == "slipped"}
    return msgspec.structs.replace(
        manifest,
        walks=tuple(_without(w, ids) if w.set == STUDENTS else w for w in manifest.walks),
        absences=tuple(msgspec.structs.replace(a, id=NOBODY) if _is_of(a, gone) else a for a in manifest.absences),
        rejected=rejected,
        drift=tuple(d for d in (_less(d, taken.drift) for d in manifest.drift) if d.count > 0),
    )


def _without(walk: Walk, ids: set[int]) -> Walk:
    left = tuple(i for i in walk.repeated_ids if i not in ids)
    return msgspec.structs.replace(walk, erased=walk.erased + len(ids), repeated_ids=left)


def _less(drift: Drift, taken: Counter[tuple[str, str]]) -> Drift:
    count = drift.count - (taken[drift.field, drift.type] if drift.set == STUDENTS else 0)
    return Drift(drift.set, drift.field, drift.type, count)


def _rejected(manifest: Manifest, folder: Path, gone: Matcher) -> dict[str, int]:
    """Return a manifest's numbers of refused records per set, without those of erased students."""
    left = Counter(manifest.rejected)
    left.subtract(reject.set for reject in rejects(folder) if _is_about(reject, gone) and reject.set in left)
    return {name: count for name, count in left.items() if count > 0}


def _may_hold(content: bytes, hints: Collection[int]) -> bool:
    return (
        any(str(hint).encode() in content for hint in hints)
        or _ESCAPED in content
        or _DISGUISED.search(content) is not None
    )


def _taken_out(folder: LandingFolder, content: bytes, gone: Matcher) -> tuple[bytes, list[tuple[int, bytes]]]:
    try:
        left, taken, _ = take_out(content, gone)
    except UNREADABLE as error:
        raise damaged(folder.path, BODIES, f"a body is not a page of students: {type(error).__name__}") from None
    return left, taken


def _is_about(reject: Reject, gone: Matcher) -> bool:
    return reject.set in (STUDENTS, DETAILS) and reject.id in gone


def _is_of(absence: Absence, gone: Matcher) -> bool:
    return absence.set == STUDENTS and absence.id in gone
