"""Counts per table what a landing would add, change and remove in the published tables (G3).

It changes nothing. `sync.policy` decides whether the counts are held.
"""

from __future__ import annotations

import duckdb

from pipelines.landing.manifest import TableCounts
from pipelines.store.database import each_table, literal
from pipelines.store.lake import Candidate
from pipelines.store.statements import statements
from pipelines.tables import TABLES, Column, Table, of_set

sql = statements("pipelines.store")


def compare(con: duckdb.DuckDBPyConnection, candidate: Candidate, current: str | None) -> tuple[TableCounts, ...]:
    """Count per table what a candidate would change in the database `current` (None: everything is added).

    `con` is the connection that composed it and still has the table `observed`.
    """
    if current is None:
        rows = candidate.rows()
        return tuple(TableCounts(table=t, before=0, added=rows[t], changed=0, removed=0) for t in TABLES)

    def count(con: duckdb.DuckDBPyConnection, table: Table) -> TableCounts:
        new, columns = _rows_of(candidate, table), _alike(con, current, table)
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
    for table in of_set(set_name):
        columns = _alike(con, current, table)
        if columns:
            new, old = _rows_of(candidate, table), f"{current}.main.{table.name}"
            query = sql("changed_ids", table=table, columns=columns, new=new, current=old)
            found.update(r[0] for r in con.execute(query).fetchall())
    return sorted(found)


def lost(con: duckdb.DuckDBPyConnection, before: str, after: str) -> tuple[TableCounts, ...]:
    """Count per table how many current rows the database `after` adds, changes and lacks compared with `before`."""
    found = []
    for table in TABLES.values():
        columns = _alike(con, before, table)
        if columns:
            query = sql("lost", table=table, columns=columns, before=f"{before}.main", after=f"{after}.main")
            found.append(_counts(table, con.execute(query).fetchone()))
    return tuple(found)


def _counts(table: Table, row: tuple[int, int, int, int] | None) -> TableCounts:
    before, added, changed, removed = row or (0, 0, 0, 0)
    return TableCounts(table=table.name, before=before, added=added, changed=changed, removed=removed)


def _rows_of(candidate: Candidate, table: Table) -> str:
    return f"read_parquet({literal(candidate.path(table.name))})"


def _alike(con: duckdb.DuckDBPyConnection, database: str, table: Table) -> list[Column]:
    """The versioned columns that a database's table has with their declared types; none if it has no such table."""
    try:  # not duckdb_columns(), which binds every view first
        there = {row[:2] for row in con.execute(f"DESCRIBE {database}.main.{table.name}").fetchall()}
    except duckdb.CatalogException:
        return []
    return [c for c in table.versioned if (c.name, c.type) in there]
