"""Declarations of Rollbook's own tables: changes, thresholds, terms, the record of the syncs.

The service's data are declared in `tables`. The modules that make the rows fill these tables.
"""

from __future__ import annotations

from pipelines.tables import SETS, Column, Relation

VALID = (
    Column("valid_from", "DATE", "First snapshot that showed this state."),
    Column("valid_to", "DATE", "First snapshot that did not; NULL = current."),
)
SPAN = (
    Column("span_state", "VARCHAR", "stated, empty (an empty list), or mute (silent or refused).", personal=False),
    Column("first_day", "DATE", "First landed day of the run."),
    Column("last_day", "DATE", "Last landed day of the run; NULL = the newest landed day."),
)
SNAPSHOT_DATE = Column("snapshot_date", "DATE", "The day of the snapshot.")
_LANDING = Column("landing", "BIGINT", "Which of the day's landings, from 1.")
_SET = Column("set_name", "VARCHAR", "The set: students, classes, auth or details.", personal=False)

# The key columns of `main.changes`: those of the walked sets, each with its set.
_WALKED = {s.key: s.name for s in SETS.values() if s.walked}
CHANGE_KEYS = tuple(_WALKED)

CHANGES = Relation(
    "main",
    "changes",
    "One row per changed field of a record, and one each for added, removed and returned.",
    (
        Column("snapshot_date", "DATE", "The snapshot that first showed the change."),
        Column("table_name", "VARCHAR", "The table the change is in.", personal=False),
        *(
            Column(key, "BIGINT", f"The {key.removesuffix('_id')}, where the table is about {name}.")
            for key, name in _WALKED.items()
        ),
        Column("change", "VARCHAR", "added, changed, removed or returned.", personal=False),
        Column("column_name", "VARCHAR", "The changed column; NULL unless changed.", personal=False),
        Column("old_value", "VARCHAR", "The value before, as text.", personal=True),
        Column("new_value", "VARCHAR", "The value since, as text.", personal=True),
    ),
    key=("snapshot_date", "table_name", *CHANGE_KEYS, "change", "column_name"),
    nullable=(*CHANGE_KEYS, "column_name"),
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
        Column("proven", "BOOLEAN", "Whether both sets were proven complete; if not, nothing was removed."),
        Column("verdict", "VARCHAR", "synced, unproven, held, approved or failed.", personal=False),
        Column("reason", "VARCHAR", "Why it was held, failed, left unproven or discarded, in words.", personal=True),
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
        Column("rollbook", "VARCHAR", "The version of Rollbook that fetched it.", personal=False),
    ),
    key=("snapshot_date", "landing"),
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
        Column("slipped", "BIGINT", "Of these, found after all."),
        Column("removed", "BIGINT", "Of these, not found under any name: removed."),
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
)

MERGED_DAYS = Relation(
    "spans",
    "days",
    "Internal: one row per landed day in the history.",
    (
        SNAPSHOT_DATE,
        # Personal: it covers names, too, so a guess at a day's records could be tested against it.
        Column("digest", "VARCHAR", "Digest of the day's content.", personal=True),
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
    ),
    key=("id",),
)

# Files of the lake beside those of the declared tables; read by the view of this name.
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
            "stated, silent (about table_name), rejected; proven: the set was complete.",
            personal=False,
        ),
        Column("table_name", "VARCHAR", "The table that a silent record did not state.", personal=False),
    ),
    key=("snapshot_date", "set_name", "id", "state", "table_name"),
    nullable=("id", "table_name"),
)

KEPT: tuple[Relation, ...] = (
    CHANGES,
    THRESHOLDS,
    TERMS,
    SYNCS,
    SYNC_SETS,
    PAGES,
    REJECTS,
    DRIFT,
    MERGED_DAYS,
    PROVEN_DAYS,
    VERSION,
)
