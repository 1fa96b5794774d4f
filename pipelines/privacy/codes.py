"""The codes that stand for students in the pseudonymous file: random, stored separately, readable by the owner (G12).

A student's code is drawn once and never changes, even after the student has left. It is random, not derived from the
id, so only this table maps a code to a student. A release is one set of codes; `rollbook codes rotate` starts a new
release, after which the earlier codes map to nobody.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from pipelines import files
from pipelines.errors import DamagedError

FOLDER, FILE = "private", "codes.json"
# Fifteen digits: spreadsheet programs keep no more, and every language's floating point numbers (2^53) hold them.
LEAST, MOST = 10**14, 10**15


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One set of codes: its random name, its first use (UTC), and each student's code by id."""

    name: str
    began_at: datetime
    codes: dict[int, int]

    def covering(self, students: Iterable[int]) -> Release:
        """The release with codes for these students added. No code equals any student's id."""
        missing = [student for student in dict.fromkeys(students) if student not in self.codes]
        taken = {*self.codes, *self.codes.values(), *missing}
        drawn: dict[int, None] = {}
        while len(drawn) < len(missing):
            if (code := LEAST + secrets.randbelow(MOST - LEAST)) not in taken:
                drawn[code] = None
        return msgspec.structs.replace(self, codes=self.codes | dict(zip(missing, drawn, strict=True)))


class Codes:
    """The table of codes of one warehouse. Only a writer changes it."""

    def __init__(self, root: Path) -> None:
        self.path = root / FOLDER / FILE

    def load(self) -> Release | None:
        """The release in use; None before the first. Raises DamagedError for a damaged file."""
        try:
            found = msgspec.json.decode(self.path.read_bytes(), type=Release)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self.damaged("cannot be read") from None
        if len({*found.codes.values()}) < len(found.codes):
            raise self.damaged("has a code twice")
        return found

    def save(self, release: Release) -> None:
        """Use this release from now on. It replaces the file's content."""
        files.folder(self.path.parent).chmod(files.PRIVATE_FOLDER)
        files.write(self.path, msgspec.json.encode(release))

    def damaged(self, how: str) -> DamagedError:
        """The error for a table of codes that cannot be used."""
        return DamagedError(
            f"{FOLDER}/{FILE}, which says whom each code stands for, {how}. Put it back from a backup, or begin a new"
            " release with `rollbook codes rotate`: every student then gets another code"
        )


def begin(at: datetime) -> Release:
    """A new, empty release."""
    return Release(name=secrets.token_hex(16), began_at=at, codes={})
