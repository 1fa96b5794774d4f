"""Counts per table what a landing would add, change and remove in the published tables (G3).

It changes nothing. `sync.policy` decides whether the counts are held.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path

import duckdb

from pipelines import files
from pipelines.landing.manifest import TableCounts
from pipelines.store.database import each_table, literal
from pipelines.store.history import Delta, find_delta
from pipelines.store.lake import Candidate
from pipelines.store.statements import statements
from pipelines.tables import TABLES, Column, Table, of_set

sql = statements("pipelines.store")

# The schemas that a delta is compared with.
_OLD = ("main", "spans")

Known = dict[tuple[str, str], set[tuple[str, str]]]


def compare(
    con: duckdb.DuckDBPyConnection, candidate: Candidate, current: str | None, aside: Path
) -> tuple[tuple[TableCounts, ...], Delta | None]:
    """Count per table what a candidate would change in the database `current` (None: everything is added).

    `con` is the connection that composed it and still has the table `observed`. If the candidate is the newest day, its
    delta is written into the folder `aside` and returned, so that the merge need not find it again.
    """
    if current is None:
        rows = candidate.rows()
        return tuple(TableCounts(table=t, before=0, added=rows[t], changed=0, removed=0) for t in TABLES), None
    known = _known(con, current)
    merged = dict(con.execute(f"SELECT snapshot_date, digest FROM {current}.spans.days ORDER BY 1").fetchall())
    delta = Delta(candidate.day, merged, files.empty(aside)) if merged and max(merged) < candidate.day else None
    if any(_alike(known, schema, t) != [*t.versioned] for t in TABLES.values() for schema in _OLD):
        delta = None  # a declaration has changed: the merge will be a full refresh
    work = partial(_compare, candidate, current, known, delta)
    return tuple(each_table(con, work, TABLES.values())), delta


def changed_ids(con: duckdb.DuckDBPyConnection, candidate: Candidate, set_name: str, current: str) -> list[int]:
    """The sorted ids of a set's records whose statements differ from a database's current rows; `con` as above."""
    found: set[int] = set()
    known = _known(con, current)
    for table in of_set(set_name):
        columns = _alike(known, "main", table)
        if columns:
            new, old = _rows_of(candidate, table), f"{current}.main.{table.name}"
            query = sql("changed_ids", table=table, columns=columns, new=new, current=old)
            found.update(r[0] for r in con.execute(query).fetchall())
    return sorted(found)


def lost(con: duckdb.DuckDBPyConnection, before: str, after: str) -> tuple[TableCounts, ...]:
    """Count per table how many current rows the database `after` adds, changes and lacks compared with `before`."""
    found = []
    known = _known(con, before)
    for table in TABLES.values():
        columns = _alike(known, "main", table)
        if columns:
            query = sql("lost", table=table, columns=columns, before=f"{before}.main", after=f"{after}.main")
            found.append(_counts(table, con.execute(query).fetchone()))
    return tuple(found)


def _compare(
    candidate: Candidate,
    current: str,
    known: Known,
    delta: Delta | None,
    con: duckdb.DuckDBPyConnection,
    table: Table,
) -> TableCounts:
    if delta is not None:
        find_delta(con, table, delta, f"{current}.spans", candidate.scan(table), candidate.scan_observed())
    new, columns = _rows_of(candidate, table), _alike(known, "main", table)
    # A column declared since the last publish, or with another type, is new for all records: it changes none of them.
    tracked = [c for c in table.tracked if c in columns]
    old = f"{current}.main.{table.name}" if columns else f"(FROM {new} LIMIT 0)"
    query = sql("compare", table=table, tracked=tracked, new=new, current=old, by_delta=delta is not None)
    return _counts(table, con.execute(query).fetchone())


def _counts(table: Table, row: tuple[int, int, int, int] | None) -> TableCounts:
    before, added, changed, removed = row or (0, 0, 0, 0)
    return TableCounts(table=table.name, before=before, added=added, changed=changed, removed=removed)


def _rows_of(candidate: Candidate, table: Table) -> str:
    return f"read_parquet({literal(candidate.path(table.name))})"


def _known(con: duckdb.DuckDBPyConnection, database: str) -> Known:
    """The columns of every table of a database, with their types, by schema and table."""
    query = "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = $1"
    known: Known = defaultdict(set)
    for schema, table, column, kind in con.execute(query, [database]).fetchall():
        known[schema, table].add((column, kind))
    return known


def _alike(known: Known, schema: str, table: Table) -> list[Column]:
    """The versioned columns that a table has with their declared types; none if the table is new."""
    return [c for c in table.versioned if (c.name, c.type) in known[schema, table.name]]
