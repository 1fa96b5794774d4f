"""Removes students from Dagster's own records.

Names never get there (G12), and metadata and checks hold counts only. A few log lines give the id of the student that
was fetched. They are text in SQLite files and logs below Dagster's folder: the id is replaced.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from pipelines import files

Gone = Callable[[int], bool]

ERASED = "(erased)"
WAIT_SECONDS = 30.0

_TOLD = re.compile(r"\b(?:students? |more than once, such as )\d+(?:, \d+)*\b")
_HINT = "student"


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
            elif path.suffix in (".err", ".out", ".log") or "compute_logs" in path.parts:
                changed += take_out_of_text(path, gone)
        except (OSError, sqlite3.Error):
            locked += 1
    return changed, locked


def cleaned(text: str, gone: Gone) -> str:
    """Return a text from Dagster's records or an alert without students who are `gone`."""

    def left(told: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda found: ERASED if gone(int(found[0])) else found[0], told[0])

    return _TOLD.sub(left, text)


def take_out_of_text(path: Path, gone: Gone) -> int:
    """Remove students from a text file, if it is there; returns 1 if it was changed."""
    text = path.read_bytes().decode(errors="surrogateescape") if path.is_file() else ""
    left = cleaned(text, gone)
    if left != text:
        files.write(path, left.encode(errors="surrogateescape"))
    return left != text


def _of_database(path: Path, gone: Gone) -> int:
    with closing(sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)) as con:
        con.execute("PRAGMA secure_delete = ON")
        con.create_function("cleaned", 1, lambda text: cleaned(text, gone))
        columns = con.execute(
            "SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c"
            " WHERE t.type = 'table' AND c.type NOT LIKE '%INT%'"
        )
        changed = 0
        for table, column in columns.fetchall():
            has_student = f"TYPEOF(\"{column}\") = 'text' AND \"{column}\" LIKE '%{_HINT}%'"
            update = f'UPDATE "{table}" SET "{column}" = cleaned("{column}") WHERE {has_student}'
            changed += con.execute(f'{update} AND cleaned("{column}") <> "{column}"').rowcount
        if changed:
            # Old values may remain in free pages and in the write-ahead log.
            con.execute("VACUUM")
            with suppress(sqlite3.Error):
                con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return changed
