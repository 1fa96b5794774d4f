"""Creates the database's schemas and tables from the declarations, with comments on the tables and their columns.

`main` holds the current state, `history` the versions, `ops` the record of the syncs, `snapshots` views of the lake,
`spans` the writer's own bookkeeping. Other modules fill them; `views` creates views and macros.

There are no constraints: the indexes of primary keys in `main` and `history` would make a file of 100,000 students four
times as large (107 MB instead of 26) and a fifth slower to fill. Tests check the keys instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import duckdb

from pipelines.store.database import literal
from pipelines.store.relations import KEPT, SPAN, VALID
from pipelines.tables import TABLES, Relation

# Suffix of a table's name while its replacement is made.
REPLACED = "_was"

# DuckDB takes no comment on a schema; the data dictionary shows these.
SCHEMAS = {
    "main": "The current state, and the views that answer questions.",
    "history": "One row per version of a record: what it was, from when to when.",
    "snapshots": "All landed days' rows, read from the Parquet lake.",
    "ops": "The record of every sync.",
    "spans": "Internal: Rollbook's own bookkeeping, which the views read. Not for analysis.",
}


def declared() -> Iterator[Relation]:
    """Every declared table of a database file."""
    for table in TABLES.values():
        yield Relation("main", table.name, table.comment, table.columns, table.key)
        yield Relation(
            "history",
            table.name,
            f"Versions: {table.comment}",
            (*table.versioned, *VALID),
            (*table.key, VALID[0].name),
        )
        runs = f"Internal: runs of days that state the same: {table.comment}"
        yield Relation("spans", table.name, runs, (*table.versioned, *SPAN))
    yield from KEPT


def ensure(con: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Create missing tables and adapt the others. Returns the schemas with tables whose declaration has changed.

    Such a table is made again from its old rows, as far as they have its columns; new columns must be filled from the
    lake or `raw/`, as far as they reach back. Comment-only changes apply in place.
    """
    for name in SCHEMAS:
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
    there = existing(con)
    changed = set()
    for relation in declared():
        have = there.get((relation.schema, relation.name))
        if have is None or have.columns != [(c.name, c.type) for c in relation.columns]:
            if have is not None or (there and relation.schema == "ops"):
                changed.add(relation.schema)
            _make(con, relation, have)
            have = Existing()
        _comment(con, relation, have)
    if changed:
        _drop_replaced(con)
    return frozenset(changed)


def _make(con: duckdb.DuckDBPyConnection, relation: Relation, have: Existing | None) -> None:
    """Make a table with the rows of the one it replaces. Values that do not fit a column's new type become NULL."""
    full, columns = f"{relation.schema}.{relation.name}", relation.columns
    if have is not None:
        con.execute(f"ALTER TABLE {full} RENAME TO {relation.name}{REPLACED}")
    con.execute(f"CREATE TABLE {full} ({', '.join(f'{c.name} {c.type}' for c in columns)})")
    if have is not None:
        there = {column for column, _ in have.columns}
        kept = ", ".join(f"TRY_CAST({c.name} AS {c.type}) AS {c.name}" for c in columns if c.name in there)
        if kept:
            con.execute(f"INSERT INTO {full} BY NAME SELECT {kept} FROM {full}{REPLACED}")


def _comment(con: duckdb.DuckDBPyConnection, relation: Relation, have: Existing) -> None:
    full = f"{relation.schema}.{relation.name}"
    if have.comment != relation.comment:
        con.execute(f"COMMENT ON TABLE {full} IS {literal(relation.comment)}")
    for c in relation.columns:
        if have.comments.get(c.name) != c.comment:
            con.execute(f"COMMENT ON COLUMN {full}.{c.name} IS {literal(c.comment)}")


def _drop_replaced(con: duckdb.DuckDBPyConnection) -> None:
    for schema, name in existing(con):
        if name.endswith(REPLACED):
            con.execute(f"DROP TABLE {schema}.{name}")


@dataclass
class Existing:
    """A table in a file: its columns with their types, and the comments."""

    comment: str | None = None
    columns: list[tuple[str, str]] = field(default_factory=list)
    comments: dict[str, str] = field(default_factory=dict)


def existing(con: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], Existing]:
    """Return the tables of the current database by schema and name."""
    found: dict[tuple[str, str], Existing] = {}
    for schema, name, about, column, kind, comment in con.execute("""
        SELECT c.schema_name, c.table_name, t.comment, c.column_name, c.data_type, c.comment
        FROM duckdb_columns() AS c INNER JOIN duckdb_tables() AS t USING (database_name, schema_name, table_name)
        WHERE c.database_name = current_database()
        ORDER BY c.column_index
    """).fetchall():
        table = found.setdefault((schema, name), Existing(about))
        table.columns.append((column, kind))
        table.comments[column] = comment
    return found
