"""The content of `district.duckdb`: the tables and views of all institutions, each row with its `institution` in front,
and the rollups.

`district-pseudonymous.duckdb` has the same for the institutions that make a pseudonymous file.

    rollups/   figures per institution by day and week, over all institutions, and each compared with the others

`district` fills them. A view of an institution's file is a table here, with the rows that the view has there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files as resources
from typing import Any

import duckdb

from rollbook.features.pseudonymous.contents import left_out_of
from rollbook.store import schema
from rollbook.store.schema import OF_LISTS, PAGES, SYNCS, VERSION
from rollbook.store.statements import INSTITUTION, statements
from rollbook.tables import TABLES, Column, Relation
from rollbook.views import catalog
from rollbook.views.dictionary import Chapter, Described

query = statements("rollbook.features.district", "rollups")

# In the order in which they are created: a later one reads earlier ones.
ROLLUPS = ("institutions_daily", "institutions_weekly", "district_daily", "institutions_compared")
SCHEMAS = ("main", "history", "ops", "spans")
WHICH = Column(INSTITUTION, "VARCHAR", "Which institution, by its name in institutions.toml.", personal=False)
# Views that stay with each institution: the sources of measures, its own lists, and what has a row for each student and
# day.
LEFT_OUT = frozenset({"metrics", "student_daily", "students_own", "watch_daily"})

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
    """Return the institutions' tables that a district's file has: not `pages`, which describes bodies, nor lists."""
    return tuple(r for r in schema.declared() if r not in (PAGES, VERSION, *OF_LISTS))


def views() -> tuple[catalog.View, ...]:
    """Return the institutions' views that a district's file has as tables, each with `institution` first."""
    return tuple(
        replace(v, columns=((INSTITUTION, WHICH.comment), *v.columns), key=(INSTITUTION, *v.key))
        for v in catalog.views()
        if v.name not in LEFT_OUT
    )


def seen() -> tuple[Relation, ...]:
    """Return the same views as relations of an institution's own file."""
    types: dict[tuple[str, str], Any] = dict(catalog.types())
    views = []
    for view in catalog.views():
        if view.name not in LEFT_OUT:
            personal = left_out_of({name for name, _ in view.columns})
            columns = (Column(c, types[view.name, c], about, personal=c in personal) for c, about in view.columns)
            views.append(Relation("main", view.name, view.comment, tuple(columns)))
    return tuple(views)


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
    described = {view.name: view.described for view in views()}
    of_views = (replace(r, comment=described[r.name], columns=(WHICH, *r.columns)) for r in seen())
    for relation in (*tables(more), *of_views, VERSION, INSTITUTIONS):
        full = f"{relation.schema}.{relation.name}"
        con.execute(f"CREATE TABLE {full} ({', '.join(f'{c.name} {c.type}' for c in relation.columns)})")
        catalog.comment(con, "TABLE", full, relation.comment, ((c.name, c.comment) for c in relation.columns))


def create_rollups(con: duckdb.DuckDBPyConnection) -> None:
    """Create the rollups from the tables' current rows."""
    for rollup in rollups():
        con.execute(f"CREATE TABLE main.{rollup.name} AS {rollup.query}")
        catalog.comment(con, "TABLE", f"main.{rollup.name}", rollup.described, rollup.columns)


def create_macros(con: duckdb.DuckDBPyConnection, version: str) -> None:
    """Create the view of the syncs, and the macros, which answer only from this `version` of the file."""
    syncs = ((c.name, c.comment) for c in (WHICH, *SYNCS.columns))
    catalog.create_view(con, "main", SYNCS.name, f"SELECT * FROM ops.{SYNCS.name}", SYNCS.comment, syncs)
    as_of = (catalog.as_of(table, version, INSTITUTION) for table in TABLES.values())
    catalog.create_macros(con, (*as_of, catalog.changes_between(version)))


@cache
def types() -> dict[tuple[str, str], str]:
    """Return the type of each (rollup, column), as DuckDB infers it over empty tables."""
    with duckdb.connect() as con:
        create_tables(con)
        create_rollups(con)
        rows = con.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main'"
        ).fetchall()
    return {(table, column): kind for table, column, kind in rows}


def chapter() -> Chapter:
    """The chapter of the data dictionary about the district's file."""
    text = resources("rollbook.features.district").joinpath("dictionary.md").read_text("utf-8").rstrip()
    columns = [(f"`{c.name}`", c.type, c.comment) for c in INSTITUTIONS.columns]
    tables = [Described(INSTITUTIONS.name, INSTITUTIONS.comment, INSTITUTIONS.key, columns)]
    for view in rollups():
        typed = [(f"`{name}`", types()[view.name, name], meaning) for name, meaning in view.columns]
        tables.append(Described(view.name, view.comment, view.key, typed))
    return Chapter(text, tables)
