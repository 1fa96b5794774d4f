"""The content of `fleet.duckdb`: the tables of all institutions, with a column `institution`, and the rollups.

`fleet-pseudonymous.duckdb` has the same for the institutions that make a pseudonymous file: see `views.pseudonymous`.

    rollups/   figures per institution by day and week, over all institutions, and each compared with the others

`fleet` fills them. The rollups are tables, written in the SQL that DuckDB, Sail and Spark share: windows have a total
order, NULLS FIRST or LAST is explicit, sums are over DECIMAL, and nothing depends on the session's time zone.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import duckdb

from rollbook.store import schema
from rollbook.store.schema import PAGES, SYNCS, VERSION
from rollbook.store.statements import INSTITUTION, MANY, statements
from rollbook.tables import Column, Relation
from rollbook.views import catalog

query = statements("rollbook.views", "rollups")

# In the order in which they are created: a later one reads earlier ones.
ROLLUPS = ("institutions_daily", "institutions_weekly", "fleet_daily", "institutions_compared")
SCHEMAS = ("main", "history", "ops", "spans")
WHICH = Column(INSTITUTION, "VARCHAR", catalog.WHICH, personal=False)

INSTITUTIONS = Relation(
    "main",
    "institutions",
    "One row per institution, including those that never synced: its newest day in this file, and the outcome of its"
    " last night.",
    (
        Column("institution", "VARCHAR", "Its name in institutions.toml.", personal=False),
        Column("school_id", "BIGINT", "Its id at the records service; NULL before its first sync."),
        Column("school_name", "VARCHAR", "Its name at the records service.", personal=False),
        Column("newest_day", "DATE", "Its newest landed day in this file; NULL when it has no rows here."),
        Column("days_behind", "BIGINT", "Days from newest_day to the newest one of all institutions."),
        Column("published_at", "TIMESTAMP", "When it published the version in this file, UTC."),
        Column("version", "VARCHAR", "That version's id, as in spans.version of its own file.", personal=False),
        Column(
            "last_outcome", "VARCHAR", "Outcome of its last night: synced, held or failed; or never.", personal=False
        ),
        Column("last_day", "DATE", "The day of that night."),
        Column("last_at", "TIMESTAMP", "When that night ended, UTC."),
        # These two may name a student: `description` by an id, `paused` because an operator wrote it.
        Column("description", "VARCHAR", "What happened, and what to do next, in words.", personal=True),
        Column("paused", "VARCHAR", "Why it is paused; NULL when it is not.", personal=True),
        Column("left_out", "VARCHAR", "Why it has no rows here, though it has published.", personal=False),
    ),
    key=("institution",),
)


def shared() -> tuple[Relation, ...]:
    """Return the institutions' tables that a fleet's file has; `pages` describes bodies, which stay with each."""
    return tuple(r for r in schema.declared() if r not in (PAGES, VERSION))


def tables(more: Iterable[Relation] = ()) -> tuple[Relation, ...]:
    """Return the institutions' tables, and `more` tables of one of the files, each with `institution` first."""
    return tuple(
        Relation(r.schema, r.name, r.comment, (WHICH, *r.columns), (INSTITUTION, *r.key) if r.key else (), r.nullable)
        for r in (*shared(), *more)
    )


def rollups() -> tuple[catalog.View, ...]:
    """Return the rollups, in the order in which they are created."""
    return tuple(catalog.parse(name, query(name)) for name in ROLLUPS)


def create_tables(con: duckdb.DuckDBPyConnection, more: Iterable[Relation] = ()) -> None:
    """Create every table but the rollups, empty, with comments."""
    for name in SCHEMAS:
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
    for relation in (*tables(more), VERSION, INSTITUTIONS):
        full = f"{relation.schema}.{relation.name}"
        con.execute(f"CREATE TABLE {full} ({', '.join(f'{c.name} {c.type}' for c in relation.columns)})")
        catalog.comment(con, "TABLE", full, relation.comment, ((c.name, c.comment) for c in relation.columns))


def create_rollups(con: duckdb.DuckDBPyConnection) -> None:
    """Create the rollups from the tables' current rows."""
    for rollup in rollups():
        create_rollup(con, rollup, rollup.query)


def create_rollup(con: duckdb.DuckDBPyConnection, rollup: catalog.View, rows: str) -> None:
    """Create one rollup from `rows`, a query."""
    con.execute(f"CREATE TABLE main.{rollup.name} AS {rows}")
    catalog.comment(con, "TABLE", f"main.{rollup.name}", rollup.described, rollup.columns)


def create_views(con: duckdb.DuckDBPyConnection, version: str) -> None:
    """Create the views over all institutions, and the macros, which answer only from this `version` of the file."""
    syncs = ((c.name, c.comment) for c in (WHICH, *SYNCS.columns))
    catalog.create_view(con, "main", SYNCS.name, f"SELECT * FROM ops.{SYNCS.name}", SYNCS.comment, syncs)
    catalog.create_views(con, MANY)
    catalog.create_macros(con, version, MANY)


def columns(rollup: catalog.View) -> tuple[Column, ...]:
    """Return a rollup's columns with their types, the same for every engine."""
    return tuple(Column(name, types()[rollup.name, name], comment) for name, comment in rollup.columns)


@cache
def types() -> dict[tuple[str, str], Any]:
    """Return the type of each (rollup, column), as DuckDB infers it over empty tables; some are DECIMAL."""
    with duckdb.connect() as con:
        create_tables(con)
        create_rollups(con)
        rows = con.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main'"
        ).fetchall()
    return {(table, column): kind for table, column, kind in rows}
