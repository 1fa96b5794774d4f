"""The omissions of the pseudonymous files of a school or a district: which tables are empty, which columns are NULL,
and the comments that say so.

this feature and `district` make the files.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from rollbook.store.database import literal
from rollbook.store.schema import CHANGE_KEYS
from rollbook.tables import SETS, TABLES, Column, Declared, Pseudonymous, Relation
from rollbook.views.catalog import View

STUDENT = SETS["students"].key
CODE = "A random code for the student in this file; the same every night, until a new release (see ops.release)."
LEFT_OUT, EMPTY = "Left out of this file: always NULL.", "Left out of this file: always empty."
RELEASE = Relation(
    "ops",
    "release",
    "One row, in a district one per institution: which version of the published file this was made from, and which"
    " release of codes it uses.",
    (
        Column(
            "version",
            "VARCHAR",
            "The version's id, as in spans.version of rollbook.duckdb and rollbook-pseudonymous.duckdb.",
            personal=False,
        ),
        Column("published_at", "TIMESTAMP", "When that version was made, UTC."),
        Column("newest_day", "DATE", "The newest landed day in it."),
        Column("release", "VARCHAR", "The release's name; another release has other codes.", personal=False),
        Column("began_at", "TIMESTAMP", "When this release began, UTC."),
    ),
)


def is_empty(relation: Relation) -> bool:
    """Whether the file has no rows of a relation."""
    return relation.pseudonymous is Pseudonymous.EMPTY


def shown(relation: Relation) -> tuple[Column, ...]:
    """Return the columns that have values; changes and syncs are filtered by rows and texts, not by columns."""
    filtered = relation.pseudonymous in (Pseudonymous.TOLD_CHANGES, Pseudonymous.TOLD_SYNCS)
    return tuple(c for c in relation.columns if not c.personal or (filtered and c.name not in CHANGE_KEYS))


def personal_changes() -> tuple[list[str], str]:
    """Return which rows of `changes` are about personal columns: the tables as SQL literals, and a condition."""
    pairs = [(t.name, c.name) for t in TABLES.values() for c in t.columns if c.personal]
    listed = ", ".join(f"({literal(table)}, {literal(column)})" for table, column in pairs)
    tables = list(dict.fromkeys(literal(table) for table, _ in pairs))
    return tables, f"column_name IS NOT NULL AND (table_name, column_name) IN ({listed})"


def told_changes(declared: Declared) -> str:
    """Return the condition for the rows of `changes` that the file keeps."""
    emptied = ", ".join(literal(t.name) for t in declared.tables.values() if t.tracks_only_personal)
    return f"NOT ({personal_changes()[1]}) AND table_name NOT IN ({emptied})"


def comment(con: duckdb.DuckDBPyConnection, relations: Iterable[Relation], views: Iterable[View]) -> None:
    """Add to the comments of tables, views and columns what is left out, and that ids are codes."""
    for relation in relations:
        full = f"{relation.schema}.{relation.name}"
        if is_empty(relation):
            con.execute(f"COMMENT ON TABLE {full} IS {literal(f'{relation.comment} {EMPTY}')}")
        columns = shown(relation)
        for c in relation.columns:
            if c.name == STUDENT or c not in columns:
                meaning = _meaning(c.name, c.comment, left_out=c not in columns)
                con.execute(f"COMMENT ON COLUMN {full}.{c.name} IS {literal(meaning)}")
    for view in views:
        left_out = left_out_of({name for name, _ in view.columns})
        for name, meaning in view.columns:
            if name == STUDENT or name in left_out:
                comment = _meaning(name, meaning, left_out=name in left_out)
                con.execute(f"COMMENT ON COLUMN main.{view.name}.{name} IS {literal(comment)}")


def _meaning(name: str, comment: str, *, left_out: bool) -> str:
    return CODE if name == STUDENT else f"{comment} {LEFT_OUT}" if left_out else comment


def left_out_of(names: set[str]) -> set[str]:
    """Return the names of a view's columns that are left out: the personal ones of the students and teachers whose ids
    it has, and those that are computed from `spans`, which is left out.
    """
    about = [t for t in TABLES.values() if any(c.id and c.name in names for c in t.columns)]
    return ({c.name for t in about for c in t.columns if c.personal} | {"stated_on"}) & names
