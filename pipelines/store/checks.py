"""The checks that a file must pass before readers see it. They find only faults of Rollbook itself.

Contradictions in the source are reported and published: see `operations.data_quality`.

The rules that compare the file with the lake look at a sample of days and records, so that they cost the same in the
third year as in the first week. The sample changes every night, but is deterministic for one night.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256

import duckdb

from pipelines.store.database import count, each_table
from pipelines.store.lake import DayRecord, Lake
from pipelines.store.statements import statements
from pipelines.tables import SETS, TABLES, WALKED, Table, of_set

sql = statements("pipelines.store")

SAMPLE_DAYS = 3
SAMPLE_RECORDS = 500

Found = list[str]


@dataclass(frozen=True)
class Examined:
    """What to check: a sample of days, a sample of each set's records, and what was merged `since` (None: everything).

    `some` maps a set to a function that returns the sample's condition on a column of ids, as SQL.
    """

    lake: Lake
    days: Sequence[DayRecord]
    some: Mapping[str, Callable[[str], str]]
    since: date | None


@dataclass(frozen=True)
class Rule:
    """A sentence that must hold, and the function that finds violations: in one table, or in the whole file."""

    name: str
    sentence: str
    find: Callable[[duckdb.DuckDBPyConnection, Examined, Table], Found] | None = None
    find_in_file: Callable[[duckdb.DuckDBPyConnection, Examined], Found] | None = None


def examine(
    con: duckdb.DuckDBPyConnection, lake: Lake, days: Mapping[date, DayRecord], since: date | None = None
) -> Mapping[str, Found]:
    """Check every rule; returns the violations by rule name, one sentence each.

    `days` are the lake's days. Of the records that were merged before `since`, only a sample is checked again.
    """
    sample = sample_days(con, days)
    some = {name: _some_records(con, name, sample[0].snapshot_date) for name in SETS} if sample else {}
    examined = Examined(lake, sample, some, since if sample else None)
    found = {rule.name: rule.find_in_file(con, examined) if rule.find_in_file else [] for rule in RULES}

    def find(con: duckdb.DuckDBPyConnection, table: Table) -> dict[str, Found]:
        return {rule.name: rule.find(con, examined, table) for rule in RULES if rule.find}

    for of_table in each_table(con, find, TABLES.values()):
        for name, sentences in of_table.items():
            found[name] += sentences
    return found


def _count(con: duckdb.DuckDBPyConnection, statement: str, examined: Examined, table: Table) -> int:
    """Count a statement's violations in a table: in all rows, or in the newly merged ones and a sample of the rest."""
    if examined.since is None:
        return count(con, sql(statement, table=table, since=False))
    some = examined.some[table.set](table.parent_key)
    return count(con, sql(statement, table=table, since=True, some=some), {"since": examined.since})


def _twice(con: duckdb.DuckDBPyConnection, examined: Examined, table: Table) -> Found:
    twice = _count(con, "check_keys", examined, table)
    return [f"{twice} keys of {table.name} are not unique"] if twice else []


def _overlapping(con: duckdb.DuckDBPyConnection, examined: Examined, table: Table) -> Found:
    overlapping = _count(con, "check_overlap", examined, table)
    return [f"{overlapping} versions of {table.name} overlap"] if overlapping else []


def _landed(con: duckdb.DuckDBPyConnection, examined: Examined) -> Found:
    """On days whose only landing was proven, each received record is a row or a reject in the day's snapshot.

    Distinct ids are counted, which the walk and flattening read in the same way: repeated records do not matter, and
    only Rollbook itself can lose one. On a day with several landings, a record may be neither: one landing stated it
    absent, and a later one has it refused.
    """
    found, lake = [], examined.lake
    for record in examined.days:
        day, landings = record.snapshot_date, record.landings
        row = con.execute(
            """
            SELECT SUM(received - repeated + slipped) FROM ops.sync_sets
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
            found.append(f"{row[0]} records landed on {day}, {rows} became rows and {rejects} rejects")
    return found


def _unlike(con: duckdb.DuckDBPyConnection, examined: Examined, table: Table) -> Found:
    """On sampled days and records, the history matches the snapshots, and the current rows its open versions."""
    lake, sample, found = examined.lake, examined.days, []
    if not sample:
        return []
    some = examined.some[table.set]
    if differing := count(con, sql("check_current", table=table, some=some(table.parent_key))):
        found.append(f"{differing} current records of {table.name} are not those of its history")
    query = sql(
        "check_days",
        table=table,
        rows=lake.scan(table, sample),
        observed=lake.scan_observed(sample),
        some=some(table.parent_key),
        some_ids=some("id"),
    )
    for day, differing in con.execute(query, {"days": [record.snapshot_date for record in sample]}).fetchall():
        found.append(f"{differing} records of {table.name} are not what was landed on {day}")
    return found


RULES: tuple[Rule, ...] = (
    Rule("keys_are_unique", "Keys are unique in every table.", _twice),
    Rule("versions_do_not_overlap", "At any time a record has at most one version.", _overlapping),
    Rule("landed_is_rows_and_rejects", "Each received record became a row or a reject.", find_in_file=_landed),
    Rule(
        "rebuilt_is_live",
        "On a sample of days and records, tables and history match the daily snapshots.",
        _unlike,
    ),
)


def sample_days(con: duckdb.DuckDBPyConnection, there: Mapping[date, DayRecord]) -> list[DayRecord]:
    """The newest merged day that the lake holds, and a pseudorandom choice of SAMPLE_DAYS - 1 others."""
    merged = con.execute("SELECT snapshot_date, digest FROM spans.days ORDER BY 1").fetchall()
    days = [day for day, digest in merged if day in there and there[day].digest == digest]
    others = sorted(days[:-1], key=lambda day: _drawn(days[-1], day))
    return [there[day] for day in (*days[-1:], *others[: SAMPLE_DAYS - 1])]


def _some_records(con: duckdb.DuckDBPyConnection, set_name: str, newest: date) -> Callable[[str], str]:
    """A condition on a column of ids that selects about SAMPLE_RECORDS of the set's records, current or not, as SQL.

    It is a range of ids, so that files sorted by id need not be read whole.
    """
    table = of_set(set_name)[0]
    known = count(con, f"SELECT COUNT(*) FROM main.{table.name}")
    parts = max(1, known // SAMPLE_RECORDS)
    part = _drawn(newest) % parts
    ids = f"SELECT {table.parent_key} FROM main.{table.name} ORDER BY 1 LIMIT 1 OFFSET"
    bounds = []
    if part > 0:
        bounds.append(f">= {count(con, f'{ids} {part * known // parts}')}")
    if part < parts - 1:
        bounds.append(f"< {count(con, f'{ids} {(part + 1) * known // parts}')}")
    return lambda column: " AND ".join(f"{column} {bound}" for bound in bounds) or "TRUE"


def _drawn(*days: date) -> int:
    return int.from_bytes(sha256(repr(days).encode()).digest()[:6])
