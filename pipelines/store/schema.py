"""What stands in the database, made from the declarations: schemas and tables, and a comment on each and its columns.

`main` holds the current state, `history` the versions, `ops` the record of the work, `snapshots` views of the lake,
`spans` the writer's own bookkeeping. Filling them is not done here; views and macros are made in `views`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import duckdb

from pipelines.store.database import literal
from pipelines.store.statements import statements
from pipelines.tables import TABLES, Column

SPAN = (
    Column("span_state", "VARCHAR", "stated, empty (an empty list), or mute (silent or refused)."),
    Column("first_day", "DATE", "First landed day of the run."),
    Column("last_day", "DATE", "Last landed day of the run; NULL = the newest landed day."),
)
VALID = (
    Column("valid_from", "DATE", "First snapshot that showed this state."),
    Column("valid_to", "DATE", "First snapshot that did not; NULL = still so."),
)

sql = statements("pipelines.store")
SNAPSHOT_DATE = Column("snapshot_date", "DATE", "The day of the snapshot.")
_LANDING = Column("landing", "BIGINT", "Which of the day's landings, from 1.")
_SET = Column("set_name", "VARCHAR", "The set: students, classes, auth or details.")

# The keys that `main.changes` has columns for.
CHANGE_KEYS = ("student_id", "class_id")

# Tables that are declared once: schema, name, what a row is, columns.
FIXED: tuple[tuple[str, str, str, tuple[Column, ...]], ...] = (
    (
        "main",
        "changes",
        "One row per changed field of a record, and one each for added, removed and returned.",
        (
            Column("snapshot_date", "DATE", "The snapshot that first showed the change."),
            Column("table_name", "VARCHAR", "The table the change is in."),
            Column("student_id", "BIGINT", "The student, where the table is about students."),
            Column("class_id", "BIGINT", "The class, where the table is about classes."),
            Column("change", "VARCHAR", "added, changed, removed or returned."),
            Column("column_name", "VARCHAR", "The changed column; NULL unless changed."),
            Column("old_value", "VARCHAR", "The value before, as text."),
            Column("new_value", "VARCHAR", "The value since, as text."),
        ),
    ),
    (
        "main",
        "thresholds",
        "One row per threshold of students_to_watch, as thresholds.csv beside this file had it at the last publish.",
        (
            Column("name", "VARCHAR", "The threshold's name."),
            Column("value", "DOUBLE", "Where it lies: percent, points or days, as the meaning says."),
            Column("meaning", "VARCHAR", "What it decides, in words."),
        ),
    ),
    (
        "ops",
        "syncs",
        "One row per sync, whatever became of it.",
        (
            SNAPSHOT_DATE,
            _LANDING,
            Column("started_at", "TIMESTAMP", "When the sync began, UTC."),
            Column("finished_at", "TIMESTAMP", "When it was judged, UTC."),
            Column("outcome", "VARCHAR", "synced, held, failed, or discarded: taken back with `rollbook discard`."),
            Column("proven", "BOOLEAN", "Whether both sets were proven complete; if not, nothing was removed."),
            Column("verdict", "VARCHAR", "synced, unproven, held, approved or failed."),
            Column("reason", "VARCHAR", "Why it was held, failed, left unproven or discarded, in words."),
            Column("students", "BIGINT", "Student records received in the walk that counts."),
            Column("classes", "BIGINT", "Class records received in the walk that counts."),
            Column("walks", "BIGINT", "Walks it took, over both sets."),
            Column("repeated", "BIGINT", "Records received more than once."),
            Column("rejected", "BIGINT", "Records refused; see ops.rejects."),
            Column("verified", "BIGINT", "Vanished records the service was asked about."),
            Column("slipped", "BIGINT", "Of these, found after all."),
            Column("removed", "BIGINT", "Of these, not found under any name: removed."),
            Column("rows_added", "BIGINT", "Rows added, over all tables."),
            Column("rows_changed", "BIGINT", "Rows changed in a tracked column, over all tables."),
            Column("rows_removed", "BIGINT", "Rows removed, over all tables."),
            Column("requests", "BIGINT", "Requests sent, retries included."),
            Column("retries", "BIGINT", "Requests sent again after a transient fault."),
            Column("bytes_received", "BIGINT", "Bytes of bodies received."),
            Column("rollbook", "VARCHAR", "The version of Rollbook that fetched it."),
        ),
    ),
    (
        "ops",
        "pages",
        "One row per body received and landed.",
        (
            SNAPSHOT_DATE,
            _LANDING,
            _SET,
            Column("kind", "VARCHAR", "auth, walk, search or detail."),
            Column("walk", "BIGINT", "Which walk of the set, from 1."),
            Column("page", "BIGINT", "The page asked for."),
            Column("received_at", "TIMESTAMP", "When it was received, UTC."),
            Column("records", "BIGINT", "Records on the page."),
            Column("size", "BIGINT", "Bytes of the body."),
            Column("sha256", "VARCHAR", "SHA-256 of the body, hex."),
        ),
    ),
    (
        "ops",
        "rejects",
        "One row per refused record: what was known of it stands.",
        (
            SNAPSHOT_DATE,
            _LANDING,
            _SET,
            Column("page", "BIGINT", "The page it was on."),
            Column("position", "BIGINT", "Its place on the page, from 1."),
            Column("id", "BIGINT", "Its id, if it could be read."),
            Column("reason", "VARCHAR", "Why it was refused, in words."),
            Column("record", "VARCHAR", "The record as received, JSON; of a long one its first 65,536 characters."),
        ),
    ),
    (
        "ops",
        "drift",
        "One row per sync and field that the declarations do not know.",
        (
            SNAPSHOT_DATE,
            _LANDING,
            _SET,
            Column("field", "VARCHAR", "Where in the record the field is."),
            Column("type", "VARCHAR", "The JSON type seen."),
            Column("count", "BIGINT", "How many records had it."),
        ),
    ),
    (
        "spans",
        "days",
        "One row per landed day that the history stands on.",
        (SNAPSHOT_DATE, Column("digest", "VARCHAR", "Digest of the day's content.")),
    ),
    (
        "spans",
        "proven",
        "One row per landed day and set that was proven complete.",
        (Column("day", "DATE", "The day."), _SET),
    ),
)
# DuckDB takes no comment on a schema; the data dictionary shows these.
SCHEMAS = {
    "main": "The current state, and the views that answer questions.",
    "history": "One row per version of a record: what it was, from when to when.",
    "snapshots": "All landed days' rows, read from the Parquet lake.",
    "ops": "The record of every sync.",
    "spans": "Rollbook's own bookkeeping; not for analysis.",
}


def declared() -> Iterator[tuple[str, str, str, tuple[Column, ...]]]:
    """Every table: schema, name, what a row is, columns."""
    for table in TABLES.values():
        yield "main", table.name, table.comment, table.columns
        yield "history", table.name, f"Versions: {table.comment}", (*table.versioned, *VALID)
        yield "spans", table.name, f"Runs of days that state the same: {table.comment}", (*table.versioned, *SPAN)
    yield from FIXED


def ensure(con: duckdb.DuckDBPyConnection) -> bool:
    """Make what is missing. Returns whether a table stood there that is declared otherwise by now.

    Such a table is made anew with what its old rows hold of its columns; what is new in them must come from the lake,
    as far as that reaches back. One whose comments alone are worded otherwise by now keeps its rows and gets the new
    words.
    """
    for name in SCHEMAS:
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
    standing = _standing(con)
    changed = False
    for schema, name, comment, columns in declared():
        have = standing.get((schema, name))
        if have is None or have.columns != [(c.name, c.type) for c in columns]:
            _make(con, schema, name, columns, have)
            changed |= have is not None
            have = Standing()
        if have.comment != comment:
            con.execute(f"COMMENT ON TABLE {schema}.{name} IS {literal(comment)}")
        for c in columns:
            if have.comments.get(c.name) != c.comment:
                con.execute(f"COMMENT ON COLUMN {schema}.{name}.{c.name} IS {literal(c.comment)}")
    return changed


def _make(
    con: duckdb.DuckDBPyConnection, schema: str, name: str, columns: tuple[Column, ...], have: Standing | None
) -> None:
    """Make a table anew. Values that do not fit a column's new type are NULL."""
    typed = ", ".join(f"{c.name} {c.type}" for c in columns)
    was = f"{name}_was"
    if have is not None:
        con.execute(f"ALTER TABLE {schema}.{name} RENAME TO {was}")
    con.execute(f"CREATE TABLE {schema}.{name} ({typed})")
    if have is not None:
        there = {column for column, _ in have.columns}
        kept = ", ".join(f"TRY_CAST({c.name} AS {c.type}) AS {c.name}" for c in columns if c.name in there)
        if kept:
            con.execute(f"INSERT INTO {schema}.{name} BY NAME SELECT {kept} FROM {schema}.{was}")
        con.execute(f"DROP TABLE {schema}.{was}")


@dataclass
class Standing:
    """A table as it stands in a file: its columns with their types, and the comments."""

    comment: str | None = None
    columns: list[tuple[str, str]] = field(default_factory=list)
    comments: dict[str, str] = field(default_factory=dict)


def _standing(con: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], Standing]:
    found: dict[tuple[str, str], Standing] = {}
    for schema, name, about, column, kind, comment in con.execute(sql("standing")).fetchall():
        table = found.setdefault((schema, name), Standing(about))
        table.columns.append((column, kind))
        table.comments[column] = comment
    return found
