"""What a landing would do to the published tables, in counts per table (G3).

It changes nothing. Whether the counts are held is decided in `sync.policy`.
"""

from __future__ import annotations

from functools import partial

import duckdb

from pipelines.landing.manifest import TableCounts
from pipelines.store.database import each_table, literal, names
from pipelines.store.lake import Candidate
from pipelines.store.statements import statements
from pipelines.tables import TABLES, Table, of_set

sql = statements("pipelines.store")


def compare(con: duckdb.DuckDBPyConnection, candidate: Candidate, current: str | None) -> tuple[TableCounts, ...]:
    """Count per table what a candidate would do to the tables of the schema `current` (None: there are none).

    `con` is the one that composed it, and still knows what was `observed`.
    """
    if current is None:
        rows = candidate.rows()
        return tuple(TableCounts(table=t, before=0, added=rows[t], changed=0, removed=0) for t in TABLES)
    return tuple(each_table(con, partial(_compare, candidate, current), TABLES.values()))


def _compare(candidate: Candidate, current: str, con: duckdb.DuckDBPyConnection, table: Table) -> TableCounts:
    new = f"read_parquet({literal(candidate.path(table.name))})"
    known = _known(con, table, current)
    # A column declared since the last publish, or with another type, is new for everybody: no record changed by it.
    tracked = [c.name for c in table.tracked if (c.name, c.type) in known]
    old = f"{current}.{table.name}" if known else f"(FROM {new} LIMIT 0)"
    row = con.execute(
        sql(
            "compare",
            table=table.name,
            new=new,
            current=old,
            parent=table.parent_key,
            same=" AND ".join(f"n.{k} = c.{k}" for k in table.key),
            differs=" OR ".join(f"n.{c} IS DISTINCT FROM c.{c}" for c in tracked) or "FALSE",
        ),
        {"set_name": table.set, "table_name": table.name},
    ).fetchone()
    before, added, changed, removed, sample = row or (0, 0, 0, 0, ())
    return TableCounts(
        table=table.name, before=before, added=added, changed=changed, removed=removed, sample=tuple(sample or ())
    )


def changed_ids(con: duckdb.DuckDBPyConnection, candidate: Candidate, set_name: str, current: str) -> list[int]:
    """The records of a set that state anything else than what is current, new ones included; `con` as above."""
    found: set[int] = set()
    for table in of_set(set_name):
        known = _known(con, table, current)
        if known:
            changed = sql(
                "changed_ids",
                table=table.name,
                columns=names(tuple(c for c in table.versioned if (c.name, c.type) in known)),
                new=f"read_parquet({literal(candidate.path(table.name))})",
                current=f"{current}.{table.name}",
                parent=table.parent_key,
            )
            rows = con.execute(changed, {"set_name": table.set, "table_name": table.name})
            found.update(r[0] for r in rows.fetchall())
    return sorted(found)


def _known(con: duckdb.DuckDBPyConnection, table: Table, current: str) -> set[tuple[str, str]]:
    """The columns, with their types, that a table has in the schema `current`; none when it was declared since."""
    catalog, schema = current.split(".")
    query = (
        "SELECT column_name, data_type FROM duckdb_columns()"
        " WHERE database_name = $1 AND schema_name = $2 AND table_name = $3"
    )
    return set(con.execute(query, [catalog, schema, table.name]).fetchall())


def lost(con: duckdb.DuckDBPyConnection, before: str, after: str) -> tuple[TableCounts, ...]:
    """Count per table what the schema `after` adds, changes and lacks of the rows of the schema `before`."""
    found = []
    for table in TABLES.values():
        known = _known(con, table, before)
        if known:
            query = sql(
                "lost",
                table=table.name,
                key=names(table.key),
                columns=names(tuple(c for c in table.versioned if (c.name, c.type) in known)),
                parent=table.parent_key,
                before=before,
                after=after,
            )
            rows, added, changed, removed, sample = con.execute(query).fetchall()[0]
            counts = {"before": rows, "added": added, "changed": changed, "removed": removed}
            found.append(TableCounts(table=table.name, **counts, sample=tuple(sample or ())))
    return tuple(found)
