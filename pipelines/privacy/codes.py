"""The codes that stand for students in the pseudonymous file: random, kept apart, the owner's alone (G12).

A code is drawn for a student once and stays: from night to night, and when the student is gone. It is made from
nothing, so that only this table leads from a code to a student. A release is one set of codes; `rollbook codes rotate`
begins another, and the codes of the one before lead nowhere.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from pipelines import files
from pipelines.errors import DamagedError

FOLDER, FILE = "private", "codes.json"
# Fifteen digits: spreadsheet programs keep no more, and every language's floating point numbers (2^53) hold them.
LEAST, MOST = 10**14, 10**15


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One set of codes: its own random name, since when it is used (UTC), and each student's code by the id."""

    name: str
    began_at: datetime
    codes: dict[int, int]

    def covering(self, students: Iterable[int]) -> Release:
        """The same release, with codes for these students as well. No code is any student's id."""
        missing = [student for student in dict.fromkeys(students) if student not in self.codes]
        taken = {*self.codes, *self.codes.values(), *missing}
        drawn: dict[int, int] = {}
        for student in missing:
            code = LEAST + secrets.randbelow(MOST - LEAST)
            while code in taken:
                code = LEAST + secrets.randbelow(MOST - LEAST)
            taken.add(code)
            drawn[student] = code
        return msgspec.structs.replace(self, codes=self.codes | drawn)

    def student(self, code: int) -> int | None:
        """The id of the student whom a code stands for; None when it stands for nobody."""
        return next((student for student, known in self.codes.items() if known == code), None)


class _File(msgspec.Struct, frozen=True, kw_only=True):
    """What is written: a release, and a digest that tells a damaged file."""

    release: Release
    sha256: str


class Codes:
    """The table of codes of one warehouse. Only a writer changes it."""

    def __init__(self, root: Path) -> None:
        self.path = root / FOLDER / FILE

    def load(self) -> Release | None:
        """The release in use; None before the first. Raises DamagedError."""
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=_File)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self.damaged("cannot be read") from None
        if found.sha256 != _digest(found.release) or len({*found.release.codes.values()}) < len(found.release.codes):
            raise self.damaged("is not as it was written")
        return found.release

    def save(self, release: Release) -> None:
        """Use this release from now on. What the file held before is in it no longer."""
        files.folder(self.path.parent).chmod(files.PRIVATE_FOLDER)
        files.write(self.path, msgspec.json.encode(_File(release=release, sha256=_digest(release))))

    def forget(self, student: int) -> bool:
        """Take one student's code out of the table; returns whether there was one. For a writer. Raises DamagedError.

        The file that was made with it still has the student's rows, under a code that leads nowhere: the next publish
        makes it again, without them once the published file lacks them.
        """
        release = self.load()
        if release is None or student not in release.codes:
            return False
        rest = {s: code for s, code in release.codes.items() if s != student}
        self.save(msgspec.structs.replace(release, codes=rest))
        return True

    def damaged(self, how: str) -> DamagedError:
        """The error for a table that cannot be used."""
        return DamagedError(
            f"{FOLDER}/{FILE}, which says whom each code stands for, {how}. Put it back from a backup, or begin a new"
            " release with `rollbook codes rotate`: every student then gets another code"
        )


def begin(at: datetime) -> Release:
    """A new release, without a code yet."""
    return Release(name=secrets.token_hex(16), began_at=at, codes={})


def _digest(release: Release) -> str:
    return sha256(msgspec.json.encode(release)).hexdigest()
