"""What a landing would do to the published tables, in counts per table (G3).

It changes nothing. Whether the counts are held is decided in `sync.policy`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import duckdb

from pipelines import files
from pipelines.landing.manifest import TableCounts
from pipelines.store.database import each_table, literal
from pipelines.store.history.delta import Delta
from pipelines.store.history.table import observations
from pipelines.store.lake import Candidate
from pipelines.store.statements import statements
from pipelines.tables import TABLES, Column, Table, of_set

sql = statements("pipelines.store")
history_sql = statements("pipelines.store.history")

# The schemas that a delta is found in and counted against.
_OLD = ("main", "spans")


def compare(
    con: duckdb.DuckDBPyConnection, candidate: Candidate, current: str | None, aside: Path
) -> tuple[tuple[TableCounts, ...], Delta | None]:
    """Count per table what a candidate would do to the tables of the database `current` (None: there are none).

    `con` is the one that composed it, and still knows what was `observed`. Where the candidate is the newest day, what
    it states anew is written into the folder `aside`, and the merge need not find it again.
    """
    if current is None:
        rows = candidate.rows()
        return tuple(TableCounts(table=t, before=0, added=rows[t], changed=0, removed=0) for t in TABLES), None
    merged = dict(con.execute(f"SELECT snapshot_date, digest FROM {current}.spans.days ORDER BY 1").fetchall())
    delta = Delta(candidate.day, merged, files.empty(aside)) if merged and max(merged) < candidate.day else None
    if delta is not None and any(
        _known(con, t, f"{current}.{s}") != [*t.versioned] for t in TABLES.values() for s in _OLD
    ):
        delta = None  # a declaration has changed: the merge will compute everything again
    work = partial(_compare, candidate, f"{current}.main", delta)
    return tuple(each_table(con, work, TABLES.values())), delta


def changed_ids(con: duckdb.DuckDBPyConnection, candidate: Candidate, set_name: str, current: str) -> list[int]:
    """The records of a set that state anything else than what is current, new ones included; `con` as above."""
    found: set[int] = set()
    for table in of_set(set_name):
        known = _known(con, table, current)
        if known:
            new = _rows_of(candidate, table)
            query = sql("changed_ids", table=table, columns=known, new=new, current=f"{current}.{table.name}")
            found.update(r[0] for r in con.execute(query).fetchall())
    return sorted(found)


def lost(con: duckdb.DuckDBPyConnection, before: str, after: str) -> tuple[TableCounts, ...]:
    """Count per table what the schema `after` adds, changes and lacks of the rows of the schema `before`."""
    found = []
    for table in TABLES.values():
        known = _known(con, table, before)
        if known:
            query = sql("lost", table=table, columns=known, before=before, after=after)
            found.append(_counts(table, con.execute(query).fetchone()))
    return tuple(found)


def _compare(
    candidate: Candidate, current: str, delta: Delta | None, con: duckdb.DuckDBPyConnection, table: Table
) -> TableCounts:
    if delta is not None:
        _find_delta(candidate, current.removesuffix("main") + "spans", delta, con, table)
    new, known = _rows_of(candidate, table), _known(con, table, current)
    # A column declared since the last publish, or with another type, is new for everybody: no record changed by it.
    tracked = [c for c in table.tracked if c in known]
    old = f"{current}.{table.name}" if known else f"(FROM {new} LIMIT 0)"
    query = sql("compare", table=table, tracked=tracked, new=new, current=old, by_delta=delta is not None)
    return _counts(table, con.execute(query).fetchone())


def _find_delta(candidate: Candidate, spans: str, delta: Delta, con: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Find what a table states anew, as the table `delta` of this connection and in its file."""
    said = observations(table, candidate.scan(table), candidate.scan_observed())
    query = history_sql("delta", table=table, spans=spans, observations=said)
    con.execute(f"CREATE OR REPLACE TEMP TABLE delta AS {query}", {"day": candidate.day})
    path = delta.path(table)
    con.execute(f"COPY delta TO {literal(path)} (FORMAT parquet)")
    path.chmod(files.PRIVATE_FILE)


def _counts(table: Table, row: tuple[int, int, int, int, list[int] | None] | None) -> TableCounts:
    before, added, changed, removed, sample = row or (0, 0, 0, 0, None)
    return TableCounts(
        table=table.name, before=before, added=added, changed=changed, removed=removed, sample=tuple(sample or ())
    )


def _rows_of(candidate: Candidate, table: Table) -> str:
    return f"read_parquet({literal(candidate.path(table.name))})"


def _known(con: duckdb.DuckDBPyConnection, table: Table, current: str) -> list[Column]:
    """The versioned columns that a table has, as declared now, in the schema `current`; none if the table is new."""
    catalog, schema = current.split(".")
    query = (
        "SELECT column_name, data_type FROM duckdb_columns()"
        " WHERE database_name = $1 AND schema_name = $2 AND table_name = $3"
    )
    there = set(con.execute(query, [catalog, schema, table.name]).fetchall())
    return [c for c in table.versioned if (c.name, c.type) in there]
