"""What is in `fleet.duckdb`: the tables of all institutions side by side, and what only a fleet has.

`fleet-pseudonymous.duckdb` has the same, of the institutions that make a pseudonymous file: see `views.pseudonymous`.

    rollups/   the figures of each institution by day and week, of all together, and each against the others

Filling them is done in `fleet`. The rollups are tables, in the part of SQL that engines share: every window has a whole
order, NULLs are said to come first or last, decimal numbers are summed as such, and no session's time zone counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import duckdb

from pipelines.store import parts
from pipelines.store.relations import SYNCS, VERSION
from pipelines.store.scope import INSTITUTION, MANY
from pipelines.store.statements import statements
from pipelines.tables import Column, Relation
from pipelines.views import catalog

query = statements("pipelines.views", "rollups")

# In the order in which they are made: a later one reads an earlier one.
ROLLUPS = ("institutions_daily", "institutions_weekly", "fleet_daily", "institutions_compared")
SCHEMAS = ("main", "history", "ops", "spans")
WHICH = Column(INSTITUTION, "VARCHAR", catalog.WHICH, personal=False)

INSTITUTIONS = Relation(
    "main",
    "institutions",
    "One row per institution, those that never synced or left the registry among them: up to which day it is here, and"
    " what became of its last night.",
    (
        Column("institution", "VARCHAR", "Its name in institutions.toml.", personal=False),
        Column("school_id", "BIGINT", "Its id at the records service; NULL before its first sync."),
        Column("school_name", "VARCHAR", "Its name at the records service.", personal=False),
        Column("in_registry", "BOOLEAN", "Whether institutions.toml has it; one that left stays until it is removed."),
        Column("newest_day", "DATE", "The day up to which it is in this file; NULL when it has nothing here."),
        Column("days_behind", "BIGINT", "Days from that day to the newest one of all institutions."),
        Column("published_at", "TIMESTAMP", "When it published what is here, UTC."),
        Column("version", "VARCHAR", "The version of its own file, as in spans.version there.", personal=False),
        Column("last_outcome", "VARCHAR", "Of its last night: synced, held, failed or paused.", personal=False),
        Column("last_day", "DATE", "The day of that night."),
        Column("last_at", "TIMESTAMP", "When that night ended, UTC."),
        # These two may name a student: the one by an id, the other as somebody wrote it.
        Column("said", "VARCHAR", "What happened, and what to do next, in words.", personal=True),
        Column("paused", "VARCHAR", "Why it is paused; NULL when it is not.", personal=True),
        Column("left_out", "VARCHAR", "Why nothing of it is in this file, though it gave something.", personal=False),
    ),
    key=("institution",),
)


def tables(more: Iterable[Relation] = ()) -> tuple[Relation, ...]:
    """The tables of the institutions, and `more` that one of the files has, each with its institution first."""
    return tuple(
        Relation(r.schema, r.name, r.comment, (WHICH, *r.columns), (INSTITUTION, *r.key) if r.key else (), r.nullable)
        for r in (*parts.shared(), *more)
    )


def rollups() -> tuple[catalog.View, ...]:
    """The rollups, with what their columns mean."""
    return tuple(catalog.parse(name, query(name)) for name in ROLLUPS)


def create_tables(con: duckdb.DuckDBPyConnection, more: Iterable[Relation] = ()) -> None:
    """Make every table but the rollups, empty, with comments."""
    for name in SCHEMAS:
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
    for relation in (*tables(more), VERSION, INSTITUTIONS):
        full = f"{relation.schema}.{relation.name}"
        con.execute(f"CREATE TABLE {full} ({', '.join(f'{c.name} {c.type}' for c in relation.columns)})")
        catalog.comment(con, "TABLE", full, relation.comment, ((c.name, c.comment) for c in relation.columns))


def create_rollups(con: duckdb.DuckDBPyConnection) -> None:
    """Make the rollups of the tables as they are filled now."""
    for rollup in rollups():
        create_rollup(con, rollup, rollup.query)


def create_rollup(con: duckdb.DuckDBPyConnection, rollup: catalog.View, rows: str) -> None:
    """Make one rollup of its rows, which are a query."""
    con.execute(f"CREATE TABLE main.{rollup.name} AS {rows}")
    catalog.comment(con, "TABLE", f"main.{rollup.name}", rollup.described, rollup.columns)


def create_views(con: duckdb.DuckDBPyConnection, version: str) -> None:
    """Make the views over all institutions, and the macros, which answer only from this `version` of the file."""
    syncs = ((c.name, c.comment) for c in (WHICH, *SYNCS.columns))
    catalog.create_view(con, "main", SYNCS.name, f"SELECT * FROM ops.{SYNCS.name}", SYNCS.comment, syncs)
    catalog.create_views(con, MANY)
    catalog.create_macros(con, version, MANY)


@cache
def types() -> dict[tuple[str, str], str]:
    """The type of each (rollup, column), as DuckDB infers it over empty tables."""
    with duckdb.connect() as con:
        create_tables(con)
        create_rollups(con)
        rows = con.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main'"
        ).fetchall()
    return {(table, column): kind for table, column, kind in rows}
