"""An analyst who has the published file open all the time, in a process of their own: every read is of one night."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

from tests.support.nights import SET_OF

PAUSE_SECONDS = 0.5
# Per table what is current and what is open in the history.
QUERY = " UNION ALL ".join(
    f"SELECT '{t}', (SELECT COUNT(*) FROM main.{t}), (SELECT COUNT(*) FROM history.{t} WHERE valid_to IS NULL)"
    for t in SET_OF
)

RELATIONS = """
SELECT schema_name, table_name FROM duckdb_tables() UNION ALL
SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal
"""
MACROS = """
SELECT function_name, parameters FROM duckdb_functions() WHERE function_type = 'table_macro' AND NOT internal
"""


class Reader:
    """Reads as long as its block lasts. While the file is `disturbed` by other hands, nothing is asked of it."""

    def __init__(self, published: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        # Even while the file is whole; odd while somebody other than Rollbook has changed it.
        self._hands = context.Value("L", 0)
        self._reads = context.Value("L", 0)
        self._ours, theirs = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_read_on, args=(published, self._hands, self._reads, theirs), daemon=True, name="reader"
        )

    @property
    def reads(self) -> int:
        """How often the file was read so far."""
        return int(self._reads.value)

    def disturb(self) -> None:
        """Somebody changes the file."""
        if self._hands.value % 2 == 0:
            self._hands.value += 1

    def calm(self) -> None:
        """The file is whole again."""
        if self._hands.value % 2 == 1:
            self._hands.value += 1

    def complaints(self) -> list[str]:
        """What was wrong with reads since the last time."""
        found = []
        while self._ours.poll():
            found.append(self._ours.recv())
        return found

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Read until the block ends."""
        self._process.start()
        try:
            yield self
        finally:
            self._process.kill()
            self._process.join(10)


def read_everything(published: Path, day: date) -> None:
    """Read every row of every table, view and macro; the macros for a student, and as of a day."""
    with duckdb.connect(published, read_only=True) as con:
        for schema, name in con.execute(RELATIONS).fetchall():
            con.execute(f"SELECT * FROM {schema}.{name}").fetchall()
        for name, parameters in con.execute(MACROS).fetchall():
            given = ["[1]" if parameter == "students" else f"DATE '{day}'" for parameter in parameters]
            con.execute(f"SELECT * FROM {name}({', '.join(given)})").fetchall()


def _read_on(published: Path, hands: Any, reads: Any, results: Any) -> None:
    while True:
        time.sleep(PAUSE_SECONDS)
        before = hands.value
        if before % 2 or not published.exists():
            continue
        wrong = _read(published)
        reads.value += 1
        if wrong and hands.value == before:
            results.send(wrong)


def _read(published: Path) -> str:
    """Read all tables once; returns what was wrong, in words."""
    try:
        with duckdb.connect(published, read_only=True) as con:
            rows = con.execute(QUERY).fetchall()
    except duckdb.Error as error:
        return f"{type(error).__name__}: {error}"
    return "; ".join(f"{t}: {now} current rows, {still} open versions" for t, now, still in rows if now != still)
