"""The checks that a file must pass before readers see it. They find only faults of Rollbook itself.

Contradictions in the source are reported and published: see `operations.data_quality`.

The rules that compare the file with the lake look at a sample of days and records, so that they cost the same in the
third year as in the first week; one of the unchanged tables is checked each night. The sample changes
every night, but is deterministic for one night.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from hashlib import sha256

import duckdb

from rollbook.store.database import count, each_table
from rollbook.store.lake import DayRecord, Lake
from rollbook.store.statements import statements
from rollbook.tables import SETS, WALKED, Table, of_set

sql = statements("rollbook.store")

SAMPLE_DAYS = 3
SAMPLE_RECORDS = 500

Found = list[str]


# Rules for every file that readers get, by the name that Dagster shows.
KEYS, VERSIONS = "keys_are_unique", "versions_do_not_overlap"
LANDED, LIVE = "landed_is_rows_and_rejects", "rebuilt_is_live"
READABLE = "views_are_readable"
RULES = {
    KEYS: "Keys are unique in every table.",
    VERSIONS: "At any time a record has at most one version.",
    LANDED: "Each received record became a row or a reject.",
    LIVE: "On a sample of days and records, tables and history match the daily snapshots.",
    READABLE: "Every view and macro can be read.",
}


def examine(
    con: duckdb.DuckDBPyConnection,
    lake: Lake,
    days: Mapping[date, DayRecord],
    since: date | None = None,
    unchanged: Collection[str] = (),
    *,
    whole: bool = False,
    skip: Collection[str] = (),
) -> Mapping[str, Found]:
    """Check every rule but those to `skip`; returns the violations by rule name, one sentence each.

    `days` are the lake's days. Of the records that were merged before `since`, only a sample is checked again, and of
    the tables that are `unchanged` since the last check, one. If `whole`, the sample is all days and all records.
    """
    sample = sample_days(con, days, len(days) if whole else SAMPLE_DAYS)
    newest = sample[0].snapshot_date if sample else date.min
    left_out = set(sorted(unchanged, key=lambda name: _drawn(newest, name))[1:])
    tables = [table for table in lake.declared.tables.values() if table.name not in left_out]
    some = {name: _some_records(con, name, newest, whole=whole) for name in SETS} if sample else {}

    def find(con: duckdb.DuckDBPyConnection, table: Table) -> dict[str, Found]:
        """A table's violations, by rule."""
        of: dict[str, object] = {"table": table, "since": False}
        values: dict[str, date] = {}
        if sample and since is not None:
            of |= {"since": True, "some": some[table.set](table.parent_key)}
            values["since"] = since
        twice = count(con, sql("check_keys", **of), values)
        overlapping = count(con, sql("check_overlap", **of), values)
        return {
            KEYS: [f"{twice} keys of {table.name} are not unique"] if twice else [],
            VERSIONS: [f"{overlapping} versions of {table.name} overlap"] if overlapping else [],
            LIVE: _unlike(con, lake, sample, table, some[table.set]) if sample else [],
        }

    findings = {name: list[str]() for name in RULES} | {LANDED: _landed(con, lake, sample)}
    if READABLE not in skip:
        findings[READABLE] = [f"{name} cannot be read ({why})" for name, why in unreadable(con).items()]
    for of_table in each_table(con, find, tables):
        for name, sentences in of_table.items():
            findings[name] += sentences
    return findings


def unreadable(con: duckdb.DuckDBPyConnection) -> Mapping[str, str]:
    """Return the analysts' views and macros that DuckDB cannot bind, each with the reason. Reads no rows."""
    readers = con.execute("""
        SELECT view_name, 'view', [] FROM duckdb_views()
        WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
        UNION ALL
        SELECT function_name, function_type, parameters FROM duckdb_functions()
        WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
        ORDER BY 1
    """).fetchall()
    found = {}
    for name, kind, parameters in readers:
        call = "" if kind == "view" else f"({', '.join('NULL' for _ in parameters)})"
        try:
            con.execute(f"DESCRIBE {'SELECT' if kind == 'macro' else 'FROM'} main.{name}{call}")
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            found[name] = str(error).splitlines()[0]
    return found


def _landed(con: duckdb.DuckDBPyConnection, lake: Lake, sample: Sequence[DayRecord]) -> Found:
    """On days whose only landing was proven, each received record is a row or a reject in the day's snapshot.

    Distinct ids are counted, which the walk and flattening read in the same way: repeated records do not matter, and
    only Rollbook itself can lose one. On a day with several landings, a record may be neither: one landing stated it
    absent, and a later one has it refused.
    """
    sentences = []
    for record in sample:
        day, landings = record.snapshot_date, record.landings
        row = con.execute(
            """
            SELECT SUM(received - repeated + found_by_search) FROM ops.sync_sets
            WHERE snapshot_date = $day AND landing = $landing
            HAVING BOOL_AND(proven)
        """,
            {"day": day, "landing": landings[-1]},
        ).fetchone()
        if row is None or len(landings) > 1:
            continue
        listed = ", ".join(f"'{s}'" for s in WALKED)
        of_records = f"set_name IN ({listed}) AND table_name IS NULL"
        rejected = f"({lake.scan_observed([record])}) WHERE {of_records} AND state = 'rejected'"
        rejects = count(con, f"SELECT COUNT(*) FROM {rejected}")
        rows = sum(count(con, f"SELECT COUNT(*) FROM ({lake.scan(of_set(s)[0], [record])})") for s in WALKED)
        if row[0] != rows + rejects:
            sentences.append(f"{row[0]} records landed on {day}, {rows} became rows and {rejects} rejects")
    return sentences


def _unlike(
    con: duckdb.DuckDBPyConnection,
    lake: Lake,
    sample: Sequence[DayRecord],
    table: Table,
    some: Callable[[str], str],
) -> Found:
    """On sampled days and records, the history matches the snapshots, and the current rows its open versions.

    `some` returns the records' condition on a column of ids, as SQL.
    """
    sentences = []
    if differing := count(con, sql("check_current", table=table, some=some(table.parent_key))):
        sentences.append(f"{differing} current records of {table.name} are not those of its history")
    query = sql(
        "check_days",
        table=table,
        rows=lake.scan(table, sample),
        observed=lake.scan_observed(sample),
        some=some(table.parent_key),
        some_ids=some("id"),
    )
    for day, differing in con.execute(query, {"days": [record.snapshot_date for record in sample]}).fetchall():
        sentences.append(f"{differing} records of {table.name} are not what was landed on {day}")
    return sentences


def sample_days(
    con: duckdb.DuckDBPyConnection, there: Mapping[date, DayRecord], most: int = SAMPLE_DAYS
) -> list[DayRecord]:
    """The newest merged day that the lake holds, and a pseudorandom choice of `most` - 1 others."""
    merged = con.execute("SELECT snapshot_date, digest FROM spans.days ORDER BY 1").fetchall()
    days = [day for day, digest in merged if day in there and there[day].digest == digest]
    others = sorted(days[:-1], key=lambda day: _drawn(days[-1], day))
    return [there[day] for day in (*days[-1:], *others[: most - 1])]


def _some_records(con: duckdb.DuckDBPyConnection, set_name: str, newest: date, *, whole: bool) -> Callable[[str], str]:
    """A condition on a column of ids that selects about SAMPLE_RECORDS of the set's records (if `whole`, all of them),
    current or not, as SQL.

    It is a range of ids, so that files sorted by id need not be read whole.
    """
    table = of_set(set_name)[0]
    rows = count(con, f"SELECT COUNT(*) FROM main.{table.name}")
    parts = 1 if whole else max(1, rows // SAMPLE_RECORDS)
    part = _drawn(newest) % parts
    ids = f"SELECT {table.parent_key} FROM main.{table.name} ORDER BY 1 LIMIT 1 OFFSET"
    bounds = []
    if part > 0:
        bounds.append(f">= {count(con, f'{ids} {part * rows // parts}')}")
    if part < parts - 1:
        bounds.append(f"< {count(con, f'{ids} {(part + 1) * rows // parts}')}")
    return lambda column: " AND ".join(f"{column} {bound}" for bound in bounds) or "TRUE"


def _drawn(*of: date | str) -> int:
    return int.from_bytes(sha256(repr(of).encode()).digest()[:6])
