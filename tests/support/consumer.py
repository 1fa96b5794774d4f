"""Another system that polls a school's records: it knows `changes_since` and "read everything", and nothing else."""

from __future__ import annotations

import json
from typing import Any

import duckdb

from rollbook.store.schema import CHANGE_KEYS
from rollbook.tables import TABLES

WATCH = "students_to_watch"
KEYS = {**{name: table.key for name, table in TABLES.items()}, WATCH: ("student_id",)}
TOLD = f"SELECT epoch, number, table_name, change, record, {', '.join(CHANGE_KEYS)} FROM changes_since($1, $2)"

# A row's table and key.
Key = tuple[str, tuple[int, ...]]


class Consumer:
    """What the other system holds: each row as JSON, and the versions of its history, by table and key."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.number: int | None = None
        self.rows: dict[Key, Any] = {}
        self.versions: dict[Key, list[Any]] = {}
        # How often everything was read, and each kind of change told.
        self.whole = 0
        self.told: list[str] = []

    def poll(self, con: duckdb.DuckDBPyConnection) -> None:
        """Ask what became different since the last poll, and take it over."""
        seen, last = set(), 0
        for epoch, number, table, change, record, *ids in con.execute(TOLD, [self.epoch, self.number]).fetchall():
            self.epoch, self.number = epoch, number
            if change == "read everything":
                self.rows, self.versions = everything(con)
                self.whole += 1
                continue
            key = table, tuple(i for i in ids if i is not None)
            assert (number, key) not in seen, "two rows of a publish are about one row"
            assert number >= last, "the publishes are not in their order"
            seen.add((number, key))
            last = number
            self.told.append(change)
            self.rows.pop(key, None)
            if record is not None:
                self.rows[key] = json.loads(record)
            if table != WATCH:
                self.versions[key] = versions_of(con, *key)

    def differences(self, con: duckdb.DuckDBPyConnection) -> list[str]:
        """How what it holds differs from the file, a sentence each."""
        rows, versions = everything(con)
        held = {key: of for key, of in self.versions.items() if of}
        return [
            f"{kind} of {key}: {mine.get(key)} instead of {due.get(key)}"
            for kind, mine, due in (("the row", self.rows, rows), ("the history", held, versions))
            for key in mine.keys() | due.keys()
            if mine.get(key) != due.get(key)
        ]


def everything(con: duckdb.DuckDBPyConnection) -> tuple[dict[Key, Any], dict[Key, list[Any]]]:
    """All rows as JSON, and all versions, by table and key."""
    rows: dict[Key, Any] = {}
    versions: dict[Key, list[Any]] = {}
    for name, key in KEYS.items():
        for *ids, record in con.execute(
            f"SELECT {', '.join(key)}, CAST(TO_JSON(t) AS VARCHAR) FROM {name} t"
        ).fetchall():
            rows[name, tuple(ids)] = json.loads(record)
        if name != WATCH:
            kept = con.execute(f"SELECT {', '.join(key)}, h::VARCHAR FROM history.{name} AS h ORDER BY ALL").fetchall()
            for *ids, version in kept:
                versions.setdefault((name, tuple(ids)), []).append(version)
    return rows, versions


def versions_of(con: duckdb.DuckDBPyConnection, name: str, ids: tuple[int, ...]) -> list[Any]:
    """The versions of a record."""
    chosen = " AND ".join(f"{column} = {value}" for column, value in zip(KEYS[name], ids, strict=True))
    query = f"SELECT h::VARCHAR FROM history.{name} AS h WHERE {chosen} ORDER BY ALL"
    return [version for (version,) in con.execute(query).fetchall()]
