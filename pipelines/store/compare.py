"""Counts per table what a landing would add, change and remove in the published tables (G3).

It changes nothing. `sync.policy` decides whether the counts are held.
"""

from __future__ import annotations

from collections import defaultdict

import duckdb

from pipelines.landing.manifest import TableCounts
from pipelines.store.database import each_table, literal
from pipelines.store.lake import Candidate
from pipelines.store.statements import statements
from pipelines.tables import TABLES, Column, Table, of_set

sql = statements("pipelines.store")

Known = dict[str, set[tuple[str, str]]]


def compare(con: duckdb.DuckDBPyConnection, candidate: Candidate, current: str | None) -> tuple[TableCounts, ...]:
    """Count per table what a candidate would change in the database `current` (None: everything is added).

    `con` is the connection that composed it and still has the table `observed`.
    """
    if current is None:
        rows = candidate.rows()
        return tuple(TableCounts(table=t, before=0, added=rows[t], changed=0, removed=0) for t in TABLES)
    known = _known(con, current)

    def count(con: duckdb.DuckDBPyConnection, table: Table) -> TableCounts:
        new, columns = _rows_of(candidate, table), _alike(known, table)
        # A column declared since the last publish, or with another type, is new for all records: it changes none.
        tracked = [c for c in table.tracked if c in columns]
        old = f"{current}.main.{table.name}" if columns else f"(FROM {new} LIMIT 0)"
        return _counts(
            table, con.execute(sql("compare", table=table, tracked=tracked, new=new, current=old)).fetchone()
        )

    return tuple(each_table(con, count, TABLES.values()))


def changed_ids(con: duckdb.DuckDBPyConnection, candidate: Candidate, set_name: str, current: str) -> list[int]:
    """The sorted ids of a set's records whose statements differ from a database's current rows; `con` as above."""
    found: set[int] = set()
    known = _known(con, current)
    for table in of_set(set_name):
        columns = _alike(known, table)
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
        columns = _alike(known, table)
        if columns:
            query = sql("lost", table=table, columns=columns, before=f"{before}.main", after=f"{after}.main")
            found.append(_counts(table, con.execute(query).fetchone()))
    return tuple(found)


def _counts(table: Table, row: tuple[int, int, int, int] | None) -> TableCounts:
    before, added, changed, removed = row or (0, 0, 0, 0)
    return TableCounts(table=table.name, before=before, added=added, changed=changed, removed=removed)


def _rows_of(candidate: Candidate, table: Table) -> str:
    return f"read_parquet({literal(candidate.path(table.name))})"


def _known(con: duckdb.DuckDBPyConnection, database: str) -> Known:
    """The columns of every current table of a database, with their types."""
    known: Known = defaultdict(set)
    columns = con.execute(
        """
        SELECT table_name, column_name, data_type FROM duckdb_columns()
        WHERE database_name = $1 AND schema_name = 'main'
    """,
        [database],
    )
    for table, column, kind in columns.fetchall():
        known[table].add((column, kind))
    return known


def _alike(known: Known, table: Table) -> list[Column]:
    """The versioned columns that a table has with their declared types; none if the table is new."""
    return [c for c in table.versioned if (c.name, c.type) in known[table.name]]
