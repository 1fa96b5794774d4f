"""Declares Rollbook's own tables, and creates all tables of a database file, with comments on them and their columns.

`main` holds the current state, `history` the versions, `ops` the record of the syncs, `snapshots` views of the lake,
`spans` the writer's own bookkeeping. The service's data are declared in `tables`. Other modules fill the tables;
`views` creates views and macros.

There are no constraints: the indexes of primary keys in `main` and `history` would make a file of 100,000 students four
times as large (107 MB instead of 26) and a fifth slower to fill. Tests check the keys instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256

import duckdb

from rollbook.landing import formats
from rollbook.store.database import literal
from rollbook.tables import DECLARED, SETS, TABLES, Column, Declared, Pseudonymous, Relation, Table

VALID = (
    Column("valid_from", "DATE", "First snapshot that showed this state."),
    Column("valid_to", "DATE", "First snapshot that did not; NULL = current."),
)
SPAN = (
    Column(
        "span_state",
        "VARCHAR",
        "stated, empty (no rows), absent, or not_stated (left out or refused).",
        personal=False,
    ),
    Column("first_day", "DATE", "First landed day of the run."),
    Column("last_day", "DATE", "Last landed day of the run; NULL = the newest landed day."),
)
SNAPSHOT_DATE = Column("snapshot_date", "DATE", "The day of the snapshot.")
_LANDING = Column("landing", "BIGINT", "Which of the day's landings, from 1.")
_SET = Column("set_name", "VARCHAR", f"The set: {', '.join(SETS)}.", personal=False)

# All tables' key columns; `main.changes` has a column for each.
_KEYS = {c.name: c for t in TABLES.values() for c in t.columns if c.name in t.key}
CHANGE_KEYS = tuple(_KEYS)
ANY_KEY = tuple(
    replace(c, required=False, comment=f"{c.comment} NULL where the table has none.") for c in _KEYS.values()
)

CHANGES = Relation(
    "main",
    "changes",
    "One row per changed field of a record, and one each for added, removed and returned.",
    (
        Column("snapshot_date", "DATE", "The snapshot that first showed the change."),
        Column("table_name", "VARCHAR", "The table the change is in.", personal=False),
        *ANY_KEY,
        Column("change", "VARCHAR", "added, changed, removed or returned.", personal=False),
        Column("column_name", "VARCHAR", "The changed column; NULL unless changed.", personal=False),
        Column("old_value", "VARCHAR", "The value before, as text.", personal=True),
        Column("new_value", "VARCHAR", "The value since, as text.", personal=True),
    ),
    key=("snapshot_date", "table_name", *CHANGE_KEYS, "change", "column_name"),
    nullable=(*CHANGE_KEYS, "column_name"),
    pseudonymous=Pseudonymous.TOLD_CHANGES,
    tells="changes",
)

THRESHOLDS = Relation(
    "main",
    "thresholds",
    "One row per threshold of who is to watch, as thresholds.csv beside this file had it at the last publish.",
    (
        Column("name", "VARCHAR", "The threshold's name.", personal=False),
        Column("value", "DOUBLE", "The limit, in percent, points or days, as the meaning says."),
        Column("meaning", "VARCHAR", "What it decides, in words.", personal=False),
    ),
    key=("name",),
)

TERMS = Relation(
    "main",
    "terms",
    "One row per term, as terms.csv beside this file had it at the last publish.",
    (
        Column("name", "VARCHAR", "The term's name.", personal=False),
        Column("first_day", "DATE", "Its first day."),
        Column("last_day", "DATE", "Its last day, inclusive."),
    ),
    key=("name",),
)

ACTIVE_DAYS = Relation(
    "main",
    "active_days",
    "One row per day since the first landed one on which a student was last active, as some night showed it; where"
    " nights are missing for up to a week, the weekdays of terms between. It is a school day if school_day_percent of"
    " the students or more were.",
    (
        Column("day", "DATE", "The day."),
        Column("active", "BIGINT", "The most students that one night showed as last active on it."),
        Column("listed", "BIGINT", "The students listed on that night."),
    ),
    key=("day",),
)

SYNCS = Relation(
    "ops",
    "syncs",
    "One row per sync, whatever its outcome.",
    (
        SNAPSHOT_DATE,
        _LANDING,
        Column("started_at", "TIMESTAMP", "When the sync began, UTC."),
        Column("finished_at", "TIMESTAMP", "When it got its verdict, UTC."),
        Column(
            "outcome",
            "VARCHAR",
            "synced, held, failed, or discarded: taken back with `rollbook discard`.",
            personal=False,
        ),
        Column("proven", "BOOLEAN", "Whether every set was proven complete; if not, nothing was removed."),
        Column("verdict", "VARCHAR", "synced, unproven, held, approved or failed.", personal=False),
        Column("reason", "VARCHAR", "Why it was held, failed, left unproven or discarded, in words.", personal=True),
        Column("walks", "BIGINT", "Walks it took, over both sets."),
        Column("repeated", "BIGINT", "Records received more than once."),
        Column("rejected", "BIGINT", "Records refused; see ops.rejects."),
        Column("verified", "BIGINT", "Vanished records the service was asked about."),
        Column("found_by_search", "BIGINT", "Of these, found after all."),
        Column("removed", "BIGINT", "Of these, not found under any name: removed."),
        Column("unclear", "BIGINT", "Of these, without a clear answer: they stay as they were."),
        Column("rows_added", "BIGINT", "Rows added, over all tables."),
        Column("rows_changed", "BIGINT", "Rows changed in a tracked column, over all tables."),
        Column("rows_removed", "BIGINT", "Rows removed, over all tables."),
        Column("requests", "BIGINT", "Requests sent, retries included."),
        Column("retries", "BIGINT", "Requests sent again after a transient fault."),
        Column("bytes_received", "BIGINT", "Bytes of bodies received."),
        Column("rollbook", "VARCHAR", "The version of Rollbook that fetched it.", personal=False),
    ),
    key=("snapshot_date", "landing"),
    pseudonymous=Pseudonymous.TOLD_SYNCS,
)

SYNC_SETS = Relation(
    "ops",
    "sync_sets",
    "One row per sync and walked set: what was received, and the result.",
    (
        SNAPSHOT_DATE,
        _LANDING,
        _SET,
        Column("received", "BIGINT", "Records on the pages that count; for an unproven set, on those of all walks."),
        Column("records", "BIGINT", "Distinct records among them."),
        Column("proven", "BOOLEAN", "Whether the set was proven complete; if not, nothing was removed from it."),
        Column("walks", "BIGINT", "Walks it took."),
        Column("repeated", "BIGINT", "Records received more than once."),
        Column("rejected", "BIGINT", "Records refused; see ops.rejects."),
        Column("verified", "BIGINT", "Vanished records the service was asked about."),
        Column("found_by_search", "BIGINT", "Of these, found after all."),
        Column("removed", "BIGINT", "Of these, not found under any name: removed."),
        Column("unclear", "BIGINT", "Of these, without a clear answer: they stay as they were."),
        Column("hidden", "BIGINT", "Records that stay current because a search finds them, though no walk lists them."),
        Column("hidden_since", "DATE", "The first day on which the oldest of these was listed nowhere; NULL if none."),
    ),
    key=("snapshot_date", "landing", "set_name"),
)

PAGES = Relation(
    "ops",
    "pages",
    "One row per body received and landed.",
    (
        SNAPSHOT_DATE,
        _LANDING,
        _SET,
        Column("kind", "VARCHAR", "auth, walk, search or detail.", personal=False),
        Column("walk", "BIGINT", "Which walk of the set, from 1."),
        Column("page", "BIGINT", "The page asked for."),
        Column("received_at", "TIMESTAMP", "When it was received, UTC."),
        Column("records", "BIGINT", "Records on the page."),
        Column("size", "BIGINT", "Bytes of the body."),
        Column("sha256", "VARCHAR", "SHA-256 of the body, hex.", personal=True),
    ),
    pseudonymous=Pseudonymous.EMPTY,
)

REJECTS = Relation(
    "ops",
    "rejects",
    "One row per refused record; its earlier values stay.",
    (
        SNAPSHOT_DATE,
        _LANDING,
        _SET,
        Column("page", "BIGINT", "The page it was on."),
        Column("position", "BIGINT", "Its place on the page, from 1."),
        Column("id", "BIGINT", "Its id, if it could be read."),
        Column("reason", "VARCHAR", "Why it was refused, in words.", personal=True),
        Column(
            "record",
            "VARCHAR",
            "The record as received, JSON; of a long one its first 65,536 characters.",
            personal=True,
        ),
    ),
    pseudonymous=Pseudonymous.EMPTY,
)

REFUSED_VALUES = Relation(
    "ops",
    "refused_values",
    "One row per value that was not as declared and is NULL; the rest of its record counts.",
    (
        SNAPSHOT_DATE,
        _LANDING,
        _SET,
        Column("page", "BIGINT", "The page of its record."),
        Column("position", "BIGINT", "Its record's place on the page, from 1."),
        Column("id", "BIGINT", "Its record's id."),
        Column("table_name", "VARCHAR", "The table.", personal=False),
        Column("column_name", "VARCHAR", "The column, or the field that could not be read.", personal=False),
        Column("reason", "VARCHAR", "What kind of value it was, in words.", personal=False),
    ),
    pseudonymous=Pseudonymous.EMPTY,
)

DRIFT = Relation(
    "ops",
    "drift",
    "One row per sync and undeclared field.",
    (
        SNAPSHOT_DATE,
        _LANDING,
        _SET,
        Column("field", "VARCHAR", "Where in the record the field is.", personal=True),
        Column("type", "VARCHAR", "The JSON type seen.", personal=False),
        Column("count", "BIGINT", "How many records had it."),
    ),
    key=("snapshot_date", "landing", "set_name", "field", "type"),
    pseudonymous=Pseudonymous.EMPTY,
)

MERGED_DAYS = Relation(
    "spans",
    "days",
    "Internal: one row per landed day in the history.",
    (
        SNAPSHOT_DATE,
        # Personal: it covers names, too, so a guess at a day's records could be tested against it.
        Column("digest", "VARCHAR", "Digest of the day's content and landings.", personal=True),
    ),
    key=("snapshot_date",),
)

PROVEN_DAYS = Relation(
    "spans",
    "proven",
    "Internal: one row per landed day and set that was proven complete.",
    (
        Column("day", "DATE", "The day."),
        _SET,
    ),
    key=("day", "set_name"),
)

VERSION = Relation(
    "spans",
    "version",
    "Internal: one row with the version of this published file.",
    (
        Column("id", "VARCHAR", "New with each publish.", personal=False),
        Column("published_at", "TIMESTAMP", "When it was made, UTC."),
        Column("format", "BIGINT", "Its format number: another version of Rollbook may use another.", personal=False),
    ),
    key=("id",),
)

OWN_DAYS = Relation(
    "spans",
    "own_days",
    "Internal: one row per landed day and list of the school's own; without a list: the night saw which there are.",
    (
        Column("day", "DATE", "The day."),
        Column("list", "VARCHAR", "The list.", personal=False),
        Column("digest", "VARCHAR", "Digest of what it said; NULL if it could not be read.", personal=True),
    ),
    key=("day", "list"),
    pseudonymous=Pseudonymous.EMPTY,
)

OWN_LISTS = Relation(
    "spans",
    "own_lists",
    "Internal: one row per content that a list of the school's own had.",
    (
        Column("digest", "VARCHAR", "Digest of the content.", personal=True),
        Column("subject", "VARCHAR", "Whom its lines are about: students, classes or teachers.", personal=False),
        Column("columns", "JSON", "The school's columns, in order.", personal=True),
    ),
    key=("digest",),
    pseudonymous=Pseudonymous.EMPTY,
)

OWN_LINES = Relation(
    "spans",
    "own_lines",
    "Internal: one row per line of such a content, and per id in the line that may say whom it is about.",
    (
        Column("digest", "VARCHAR", "Digest of the content.", personal=True),
        Column("line", "BIGINT", "Its number in the file."),
        Column("rank", "BIGINT", "The first id that somebody has counts: which this one is, from 1."),
        Column("about", "VARCHAR", "The kind of id, such as reference_id.", personal=False),
        Column("who", "VARCHAR", "The id; NULL if the line has none.", personal=True),
        Column("cells", "JSON", "The line's values by column, without blanks.", personal=True),
    ),
    key=("digest", "line", "rank"),
    pseudonymous=Pseudonymous.EMPTY,
)

OWN_COLUMNS = Relation(
    "ops",
    "own_columns",
    "One row per column of students_own.",
    (
        Column("column_name", "VARCHAR", "The column.", personal=True),
        Column("list", "VARCHAR", "The school's list that it is from.", personal=True),
        Column("list_column", "VARCHAR", "Its name there.", personal=True),
        Column("is_public", "BOOLEAN", "Whether own-public.csv names it: the pseudonymous file has it, too."),
    ),
    key=("column_name",),
    pseudonymous=Pseudonymous.EMPTY,
)

LIST_FINDINGS = Relation(
    "ops",
    "list_findings",
    "One row per finding about the school's own lists; see data_quality.",
    (
        Column("kind", "VARCHAR", "The kind of finding.", personal=False),
        Column("about", "VARCHAR", "The list's relation.", personal=False),
        Column("how_many", "BIGINT", "How many lines, or days."),
        Column("since", "DATE", "Since when the list says so."),
        Column("last_seen", "DATE", "The last day."),
        Column("description", "VARCHAR", "What was found, in words, with the lines.", personal=False),
    ),
    key=("kind", "about", "description"),
    pseudonymous=Pseudonymous.EMPTY,
)

# A file of the lake in addition to those of the declared tables; read by the view of this name.
OBSERVED = Relation(
    "snapshots",
    "observed",
    "One row per landed day and record: what was observed of it. And one row per set proven complete.",
    (
        SNAPSHOT_DATE,
        _SET,
        Column("id", "BIGINT", "The record's id; NULL where the row is about the whole set."),
        Column(
            "state",
            "VARCHAR",
            "stated, not_stated or empty (table_name), rejected, absent; proven: the set was complete.",
            personal=False,
        ),
        Column("table_name", "VARCHAR", "For not_stated: the table that the record left out.", personal=False),
    ),
    key=("snapshot_date", "set_name", "id", "state", "table_name"),
    nullable=("id", "table_name"),
    tells="bookkeeping",
)

KEPT: tuple[Relation, ...] = (
    CHANGES,
    THRESHOLDS,
    TERMS,
    ACTIVE_DAYS,
    SYNCS,
    SYNC_SETS,
    PAGES,
    REJECTS,
    REFUSED_VALUES,
    DRIFT,
    MERGED_DAYS,
    PROVEN_DAYS,
    VERSION,
    OWN_DAYS,
    OWN_LISTS,
    OWN_LINES,
    OWN_COLUMNS,
    LIST_FINDINGS,
)

# What there is of the school's own lists in every file: features make the rest. No district's file has it.
OF_LISTS = (OWN_DAYS, OWN_LISTS, OWN_LINES, OWN_COLUMNS, LIST_FINDINGS)

# Suffix of a table's name while its replacement is made.
REPLACED = "_was"

# A macro in a file that returns the digest of the declared tables.
HAS_TABLES = "tables_digest"

# DuckDB takes no comment on a schema; the data dictionary shows these.
SCHEMAS = {
    "main": "The current state, and the views that answer questions.",
    "history": "One row per version of a record: what it was, from when to when.",
    "snapshots": "All landed days' rows, read from the Parquet lake.",
    "ops": "The record of every sync.",
    "spans": "Internal: Rollbook's own bookkeeping, which the views read. Not for analysis.",
}


def declared(by: Declared = DECLARED) -> Iterator[Relation]:
    """Every declared table of a database file."""
    for table in by.tables.values():
        rows, versions, runs = _pseudonymous(table)
        yield Relation("main", table.name, table.comment, table.columns, table.key, pseudonymous=rows)
        yield Relation(
            "history",
            table.name,
            f"Versions: {table.comment}",
            (*table.versioned, *VALID),
            (*table.key, VALID[0].name),
            pseudonymous=versions,
        )
        about = f"Internal: runs of days that state the same: {table.comment}"
        yield Relation("spans", table.name, about, (*table.versioned, *SPAN), pseudonymous=runs)
    yield from KEPT


def _pseudonymous(table: Table) -> tuple[Pseudonymous, Pseudonymous, Pseudonymous]:
    """What the pseudonymous file has of a table's current rows, versions and runs."""
    if table.tracks_only_personal:
        return Pseudonymous.EMPTY, Pseudonymous.EMPTY, Pseudonymous.EMPTY
    if table.is_personal:
        return Pseudonymous.COPY, Pseudonymous.MERGE_VERSIONS, Pseudonymous.RUNS_WITHOUT_ROWS
    # Views read the runs of lists alone.
    return Pseudonymous.COPY, Pseudonymous.COPY, Pseudonymous.COPY if table.is_list else Pseudonymous.RUNS_WITHOUT_ROWS


def snapshots() -> Iterator[Relation]:
    """Every view of the lake."""
    for t in TABLES.values():
        columns, key = (*t.columns, SNAPSHOT_DATE), (*t.key, SNAPSHOT_DATE.name)
        yield Relation("snapshots", t.name, f"Every landed day: {t.comment}", columns, key)
    yield OBSERVED


def ensure(con: duckdb.DuckDBPyConnection, relations: Iterable[Relation] | None = None) -> frozenset[str]:
    """Create missing tables and adapt the others: the `relations` (default: as `tables` declares them). Returns the
    schemas with tables whose declaration has changed.

    Such a table is replaced by one of its old rows, as far as they have its columns; new columns must be filled from
    the lake or `raw/`, as far as they reach back. Comment-only changes apply in place.
    """
    for name in SCHEMAS:
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
    there = existing(con)
    changed = set()
    for relation in declared() if relations is None else relations:
        have = there.get((relation.schema, relation.name))
        if have is None or have.columns != [(c.name, c.type) for c in relation.columns]:
            if there:
                changed.add(relation.schema)
            _make(con, relation, have)
            have = Existing()
        _comment(con, relation, have)
    for schema, name in existing(con) if changed else ():
        if name.endswith(REPLACED):
            con.execute(f"DROP TABLE {schema}.{name}")
    return frozenset(changed)


def ensure_declared(con: duckdb.DuckDBPyConnection, by: Declared) -> frozenset[str]:
    """As `ensure`, for every declared table. A file notes what it has, since listing its columns binds all its views,
    which takes as long as merging a table.
    """
    relations = tuple(declared(by))
    digest = sha256(repr(relations).encode()).hexdigest()
    if noted(con, HAS_TABLES) == digest:
        return frozenset()
    changed = ensure(con, relations)
    note(con, HAS_TABLES, digest, "which tables this file holds")
    return changed


def note(con: duckdb.DuckDBPyConnection, name: str, digest: str, about: str) -> None:
    """Note a digest in an open file, as the value of a macro of this name."""
    con.execute(f"CREATE OR REPLACE MACRO spans.{name}() AS '{digest}'")
    con.execute(f"COMMENT ON MACRO spans.{name} IS {literal(f'Internal: {about}.')}")


def noted(con: duckdb.DuckDBPyConnection, name: str) -> str | None:
    """Return the digest that an open file notes by a name; None if it notes none."""
    (file,) = con.execute("SELECT current_database()").fetchone() or ("",)
    with con.cursor() as aside, suppress(duckdb.CatalogException):  # on `con` an error would abort the transaction
        row = aside.execute(f"SELECT {file}.spans.{name}()").fetchone()
        return str(row[0]) if row else None
    return None


def retracked(con: duckdb.DuckDBPyConnection, by: Declared) -> list[str]:
    """The columns, as table.column, that a file's history has and the declarations leave untracked, or the reverse."""
    there = existing(con)
    columns = []
    for table in by.tables.values():
        current, versions = (there.get((schema, table.name), Existing()) for schema in ("main", "history"))
        have, versioned = {name for name, _ in current.columns}, {name for name, _ in versions.columns}
        columns += [
            f"{table.name}.{c.name}" for c in table.columns if c.name in have and (c.name in versioned) != c.tracked
        ]
    return sorted(columns)


def _make(con: duckdb.DuckDBPyConnection, relation: Relation, have: Existing | None) -> None:
    """Make a table with the rows of the one it replaces. Values that do not fit a column's new type become NULL."""
    full, columns = f"{relation.schema}.{relation.name}", relation.columns
    if have is not None:
        con.execute(f"ALTER TABLE {full} RENAME TO {relation.name}{REPLACED}")
    con.execute(f"CREATE TABLE {full} ({', '.join(f'{c.name} {c.type}' for c in columns)})")
    if have is not None:
        there = {column for column, _ in have.columns}
        casts = ", ".join(f"TRY_CAST({c.name} AS {c.type}) AS {c.name}" for c in columns if c.name in there)
        if casts:
            con.execute(f"INSERT INTO {full} BY NAME SELECT {casts} FROM {full}{REPLACED}")


def _comment(con: duckdb.DuckDBPyConnection, relation: Relation, have: Existing) -> None:
    full = f"{relation.schema}.{relation.name}"
    if have.comment != relation.comment:
        con.execute(f"COMMENT ON TABLE {full} IS {literal(relation.comment)}")
    for c in relation.columns:
        if have.comments.get(c.name) != c.comment:
            con.execute(f"COMMENT ON COLUMN {full}.{c.name} IS {literal(c.comment)}")


@dataclass
class Existing:
    """A table in a file: its columns with their types, and the comments."""

    comment: str | None = None
    columns: list[tuple[str, str]] = field(default_factory=list)
    comments: dict[str, str] = field(default_factory=dict)


def check_format(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Raise OtherVersionError if another version of Rollbook wrote the current database, which is called `name`.

    Raises duckdb.CatalogException if it is no file of Rollbook's.
    """
    try:
        row = con.execute("SELECT format FROM spans.version").fetchone()
    except duckdb.BinderException:  # older than the number
        row = (None,)
    number = row[0] if row else None
    formats.check(number, name, _newest_version(con) if number != formats.FORMAT else "")


def _newest_version(con: duckdb.DuckDBPyConnection) -> str:
    """The version of Rollbook that fetched the newest landing of a file, as far as this one can read that."""
    with suppress(duckdb.Error):
        row = con.execute("SELECT rollbook FROM ops.syncs ORDER BY started_at DESC LIMIT 1").fetchone()
        return row[0] or "" if row else ""
    return ""


def upgrade(con: duckdb.DuckDBPyConnection) -> None:
    """Bring an open file of an earlier format to this one; one of this format stays as it is."""
    ((number,),) = con.execute("SELECT format FROM spans.version").fetchall()
    for each in formats.since(number) if number in formats.UPGRADES else ():
        for statement in each.published:
            con.execute(statement)
    con.execute("UPDATE spans.version SET format = $1 WHERE format <> $1", [formats.FORMAT])


def existing(con: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], Existing]:
    """Return the tables of the current database by schema and name."""
    existing: dict[tuple[str, str], Existing] = {}
    for schema, name, about, column, kind, comment in con.execute("""
        SELECT c.schema_name, c.table_name, t.comment, c.column_name, c.data_type, c.comment
        FROM duckdb_columns() AS c INNER JOIN duckdb_tables() AS t USING (database_name, schema_name, table_name)
        WHERE c.database_name = current_database()
        ORDER BY c.column_index
    """).fetchall():
        table = existing.setdefault((schema, name), Existing(about))
        table.columns.append((column, kind))
        table.comments[column] = comment
    return existing
