"""Removes students from Dagster's own records.

Names never get there (G12). Ids do: snapshot previews show the first rows of a day, the table of a hold shows some ids,
and a few log lines name the student that was fetched. All of it is text in SQLite files and logs below Dagster's
folder. A preview's row is removed whole, an id elsewhere is replaced; runs, events and their counts stay.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from pipelines import files

Gone = Callable[[int], bool]

ERASED = "(erased)"
WAIT_SECONDS = 30.0

# A Markdown table in JSON, possibly escaped twice: each line break is one or more backslashes and an n.
_ROW = re.compile(r'(?P<line>\\+n|\n)\| (?P<id>\d+) \|.*?\|(?=\\+n\||\n|\\*"|$)')
_SOME_IDS = re.compile(r"(?P<before>\| )(?P<ids>\d+(?:, \d+)*)(?P<after> \|)")
_TOLD = re.compile(r"(?P<before>\bstudents? |about id |details of student )(?P<id>\d+)\b")
_HINTS = ("student", "about id ")


def take_out(home: Path, gone: Gone) -> tuple[int, int]:
    """Remove students from all records below Dagster's folder; returns the texts changed, and the files not written.

    Waits up to `WAIT_SECONDS` for a database that is in use.
    """
    changed = locked = 0
    for path in sorted(home.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        try:
            if path.name.endswith(".db"):
                changed += _of_database(path, gone)
            elif _is_log(path):
                changed += _of_log(path, gone)
        except (OSError, sqlite3.Error):
            locked += 1
    return changed, locked


def cleaned(text: str, gone: Gone) -> str:
    """Return a text from Dagster's records without students who are `gone`."""
    if not any(hint in text for hint in _HINTS):
        return text
    if "student_id" in text:
        text = _ROW.sub(lambda m: "" if gone(int(m["id"])) else m[0], text)
    if "some of the ids" in text:
        text = _SOME_IDS.sub(lambda m: f"{m['before']}{_others(m['ids'], gone)}{m['after']}", text)
    return _TOLD.sub(lambda m: f"{m['before']}{ERASED}" if gone(int(m["id"])) else m[0], text)


def _others(ids: str, gone: Gone) -> str:
    return ", ".join(i for i in ids.split(", ") if not gone(int(i)))


def _is_log(path: Path) -> bool:
    return path.suffix in (".err", ".out", ".log") or "compute_logs" in path.parts


def _of_log(path: Path, gone: Gone) -> int:
    text = path.read_bytes().decode(errors="surrogateescape")
    left = cleaned(text, gone)
    if left == text:
        return 0
    files.write(path, left.encode(errors="surrogateescape"))
    return 1


def _of_database(path: Path, gone: Gone) -> int:
    with closing(sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)) as con:
        con.execute("PRAGMA secure_delete = ON")
        changes = list(_changes(con, gone))
        if not changes:
            return 0
        con.execute("BEGIN IMMEDIATE")
        for table, column, rowid, text in changes:
            con.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (text, rowid))
        con.execute("COMMIT")
        # Old values may remain in free pages and in the write-ahead log.
        con.execute("VACUUM")
        with suppress(sqlite3.Error):
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return len(changes)


def _changes(con: sqlite3.Connection, gone: Gone) -> Iterator[tuple[str, str, int, str]]:
    tables = [row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        columns = [row[1] for row in con.execute(f'PRAGMA table_info("{table}")') if "INT" not in row[2].upper()]
        for column in columns:
            like = " OR ".join(f"\"{column}\" LIKE '%{hint}%'" for hint in _HINTS)
            query = f'SELECT rowid, "{column}" FROM "{table}" WHERE {like}'
            for rowid, text in con.execute(query).fetchall():
                if isinstance(text, str) and (left := cleaned(text, gone)) != text:
                    yield table, column, rowid, left
