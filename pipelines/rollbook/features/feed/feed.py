"""The feed: which rows each publish made different for readers, so that another system can poll (`changes_since`).

A publish has a number, which is never given twice: about the microseconds since 1970, more than the last. An epoch is a
run of publishes of which each was made from the one before; it is named by its first number. A rebuild from nothing, a
new declaration and an erasure begin an epoch, and its readers are told to read everything.

The feed tells readers of publishes, and is not a function of the landed days as the history is (G7). It holds keys
alone: the rows are where they always are.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from datetime import date
from importlib.resources import files as resources

import duckdb
import pyarrow as pa

from rollbook.store.database import transaction
from rollbook.store.schema import ANY_KEY, CHANGE_KEYS
from rollbook.store.statements import statements
from rollbook.tables import SETS, TABLES, Column, Declared, Pseudonymous, Relation
from rollbook.views.catalog import Macro, room_to_watch
from rollbook.views.dictionary import Chapter, Described

PUBLISHES = Relation(
    "ops",
    "publishes",
    "One row per publish that changes_since knows: the last ones of this epoch.",
    (
        Column(
            "number", "BIGINT", "Its number, never given twice: about the microseconds since 1970 when it was made."
        ),
        Column("epoch", "BIGINT", "The number of the first publish that this one follows from."),
    ),
    key=("number",),
    pseudonymous=Pseudonymous.EMPTY,
)

FEED = Relation(
    "ops",
    "feed",
    "One row per publish and row that it made different for readers; see changes_since.",
    (
        Column("number", "BIGINT", "The publish."),
        Column("table_name", "VARCHAR", "The current table, or students_to_watch.", personal=False),
        *ANY_KEY,
        Column(
            "change",
            "VARCHAR",
            "added, changed or removed; corrected: only what was known of past days is different.",
            personal=False,
        ),
    ),
    key=("number", "table_name", *CHANGE_KEYS),
    nullable=CHANGE_KEYS,
    pseudonymous=Pseudonymous.EMPTY,
    tells="bookkeeping",
)

# The tables and views that changes_since tells of, each with the key.
FED = (*((t.name, t.key) for t in TABLES.values()), ("students_to_watch", (SETS["students"].key,)))

# A system that polls less often than once in so many publishes reads everything.
KEPT = 31

sql = statements("rollbook.features.feed")


def changes_since(version: str) -> Macro:
    """The macro, for a version of the file."""
    return Macro(
        "changes_since",
        ("since_epoch", "since_number"),
        "What became different for readers after a publish: a row per publish and row of a current table or of"
        " students_to_watch, with the row as it is now, as JSON (NULL if it is gone). `corrected`: only what was"
        " known of past days is different. One row `read everything` answers an epoch and number that the file"
        " does not know, such as NULL: read what you need, and go on from the row's epoch and number.",
        sql("changes_since", version=version, change_keys=CHANGE_KEYS, fed=FED),
    )


def chapter() -> Chapter:
    """The chapter of the data dictionary."""
    text = resources("rollbook.features.feed").joinpath("dictionary.md").read_text("utf-8").rstrip()
    tables = [
        Described(f"ops.{r.name}", r.comment, r.key, [(f"`{c.name}`", c.type, c.comment) for c in r.columns])
        for r in (PUBLISHES, FEED)
    ]
    return Chapter(text, tables)


def begin(con: duckdb.DuckDBPyConnection) -> None:
    """Begin a new epoch in an open file, with this publish."""
    with transaction(con):
        con.execute("DELETE FROM ops.feed")
        number = _next_number(con)
        con.execute("DELETE FROM ops.publishes")
        con.execute("INSERT INTO ops.publishes VALUES ($1, $1)", [number])


def watched(con: duckdb.DuckDBPyConnection, file: str) -> pa.Table:
    """The students to watch of an attached file, such as `published.`, each with a hash of what the list shows."""
    with room_to_watch(con, file):
        return con.sql(f"SELECT student_id, HASH(w) AS shown FROM {file}main.students_to_watch AS w").to_arrow_table()


def record(
    con: duckdb.DuckDBPyConnection,
    since: date | None,
    touched: Iterable[str],
    declared: Declared,
    was_watched: pa.Table | None = None,
) -> None:
    """Write into an open file what differs from the file that is attached as `published`, of which it is a copy that
    was brought up to date.

    Only the `touched` tables may differ, and in their history only the days from `since` on (None: any). Who was to
    watch is read there, unless that is given.
    """
    number = _next_number(con)
    with transaction(con):
        newest = "SELECT (SELECT MAX(snapshot_date) FROM published.spans.days), MAX(snapshot_date) FROM spans.days"
        was, last = con.execute(newest).fetchall()[0]
        # The current rows tell what one new last day changed. Of several, a row may have come and gone.
        is_past = since is None or was is None or since != last or since <= was
        for name in touched:
            values = {"number": number} | ({"since": since} if is_past else {})
            con.execute(sql("feed", table=declared.tables[name], is_past=is_past), values)
        # One list after the other: both at once take three times the memory, and longer.
        con.register("was_watched", watched(con, "published.") if was_watched is None else was_watched)
        con.register("now_watched", watched(con, ""))
        con.execute(sql("feed_watch"), {"number": number})
        con.execute("INSERT INTO ops.publishes SELECT $1, COALESCE(MAX(epoch), $1) FROM ops.publishes", [number])
        oldest = "(SELECT MIN(number) FROM (SELECT number FROM ops.publishes ORDER BY number DESC LIMIT $kept))"
        con.execute(f"DELETE FROM ops.publishes WHERE number < {oldest}", {"kept": KEPT})
        con.execute("DELETE FROM ops.feed WHERE number <= (SELECT MIN(number) FROM ops.publishes)")


def _next_number(con: duckdb.DuckDBPyConnection) -> int:
    (last,) = con.execute("SELECT MAX(number) FROM ops.publishes").fetchone() or (None,)
    # Up to a second later: also where the clock was set back, a file that was restored does not give a number again.
    return max(time.time_ns() // 1000, last or 0) + 1 + secrets.randbelow(1_000_000)
