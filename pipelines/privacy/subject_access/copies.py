"""Known copies of a student's records: what was exported, and which files hold the student.

Exports are named, not searched. One that was written elsewhere, moved or sent is known only from its line in the access
log, which does not say whom it named.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from pipelines import files
from pipelines.errors import RollbookError
from pipelines.export import exported
from pipelines.privacy import access
from pipelines.store.database import connect, count
from pipelines.store.published.versions import FOLDER, PSEUDONYMOUS
from pipelines.store.warehouse import BUILD

# The kinds of access in the log that write a file.
KINDS = ("export", "explore download")

UNKNOWN = "not known"


@dataclass(frozen=True)
class Exported:
    """One export or download. `login` is the person behind `account`, if known; `question` is the redacted query."""

    at: datetime
    account: str
    login: str
    kind: str
    students: int | None
    question: str


@dataclass(frozen=True)
class File:
    """A file in the warehouse. `holds_the_student` is "yes", "no", or why that is not known."""

    file: str
    written_at: datetime
    holds_the_student: str


@dataclass(frozen=True)
class Copies:
    """The known copies."""

    exported: list[Exported]
    files: list[File]


def find(root: Path, student: int) -> Copies:
    """Find the known copies. Raises MachineError when this account may not read the access log."""
    log = [
        Exported(entry.at, entry.user, entry.login, entry.kind, entry.students, entry.what)
        for entry in access.entries(root).entries
        if entry.kind in KINDS
    ]
    found = [
        File(str(path.relative_to(root)), _written(path), f"{UNKNOWN}: exports are not searched")
        for path in exported(root)
    ]
    found += [
        File(str(path.relative_to(root)), _written(path), _in_version(root, path, student))
        for folder in (root / FOLDER, root / BUILD / "altered")
        for path in sorted(folder.glob("rollbook.*"))
        if path.is_file() and not path.name.endswith(".wal")
    ]
    if (path := root / PSEUDONYMOUS).exists():
        found.append(File(path.name, _written(path), "the same records, without names and under a code"))
    return Copies(log, found)


def _written(path: Path) -> datetime:
    return datetime.fromtimestamp(path.lstat().st_mtime, UTC)


def _in_version(root: Path, path: Path, student: int) -> str:
    query = f"SELECT COUNT(*) FROM history.students WHERE {access.STUDENT_ID} = $student"
    with (
        suppress(RollbookError, duckdb.Error),
        files.aside(root / BUILD) as scratch,
        connect(path, scratch=scratch, read_only=True) as con,
    ):
        return "yes" if count(con, query, {"student": student}) else "no"
    return f"{UNKNOWN}: it cannot be read"
