"""Rewrites days of the lake and database files without some students.

A row that is deleted from a database leaves its bytes in the file until the space is reused. So the other rows are
copied into a new file, in their order. Files of the lake are small enough to be rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import duckdb
import msgspec

from pipelines import files
from pipelines.store import schema as schemas
from pipelines.store.database import CATALOG, connect, count, literal
from pipelines.store.lake import COPY, OBSERVED, DayRecord, Lake, digest_of
from pipelines.tables import SETS, TABLES

STUDENT_ID = SETS["students"].key
# The sets with one student per record, and their tables.
OF_STUDENTS = tuple(s.name for s in SETS.values() if s.key == STUDENT_ID)
ABOUT_STUDENTS = tuple(t.name for t in TABLES.values() if t.set in OF_STUDENTS)

_SETS = ", ".join(literal(name) for name in OF_STUDENTS)
_BEFORE = "before"

Gone = Callable[[int], bool]


def gone_on_day(con: duckdb.DuckDBPyConnection, lake: Lake, record: DayRecord, gone: Gone) -> set[int]:
    """Return the ids of the `gone` students who were observed on a day."""
    observed = literal(lake.own(OBSERVED, record.snapshot_date))
    ids = f"SELECT DISTINCT id FROM {_read(observed)} WHERE set_name IN ({_SETS}) AND id IS NOT NULL"
    return {row[0] for row in con.execute(ids).fetchall() if gone(row[0])}


def day_without(
    con: duckdb.DuckDBPyConnection, lake: Lake, record: DayRecord, students: Collection[int], aside: Path
) -> tuple[DayRecord, dict[str, Path], int]:
    """Rewrite the files of a day that hold these students into the folder `aside`, without them.

    Returns the day's new record, the replacement files by table, and how many rows were left out.
    """
    day, changed, left_out, rows = record.snapshot_date, {}, 0, dict(record.rows)
    for name in (*ABOUT_STUDENTS, OBSERVED):
        source, kept = _read(literal(lake.own(name, day))), f"NOT ({_about(name, students)})"
        left = count(con, f"SELECT COUNT(*) FILTER ({kept}) FROM {source}")
        if left == rows[name]:
            continue
        target = files.folder(aside / name / str(day)) / "part-0.parquet"
        con.execute(f"COPY (SELECT * FROM {source} WHERE {kept}) TO {literal(target)} {COPY}")
        changed[name] = target
        left_out += rows[name] - left
        rows[name] = left
    digest = digest_of({n: files.digest(changed.get(n, lake.own(n, day))) for n in (*TABLES, OBSERVED)})
    sizes = record.sizes | {name: path.stat().st_size for name, path in changed.items()}
    made = msgspec.structs.replace(record, digest=digest, was=record.digest, sizes=sizes, rows=rows)
    return made, changed, left_out


def gone_in_file(path: Path, scratch: Path, gone: Gone) -> set[int]:
    """Return the ids of the `gone` students in a database file."""
    found: set[int] = set()
    with connect(path, scratch=scratch, read_only=True) as con:
        for (schema, name), table in schemas.existing(con).items():
            column = _column(schema, name, {c for c, _ in table.columns})
            if column:
                ids = con.execute(f"SELECT DISTINCT {column} FROM {schema}.{name} WHERE {column} IS NOT NULL")
                found.update(row[0] for row in ids.fetchall())
    return set(filter(gone, found))


def rows_in_file(path: Path, scratch: Path, students: Collection[int]) -> dict[str, int]:
    """Return how many rows of each table of a database file are about these students."""
    rows = {}
    with connect(path, scratch=scratch, read_only=True) as con:
        for (schema, name), table in schemas.existing(con).items():
            column = _column(schema, name, {c for c, _ in table.columns})
            about = f"{column} IN ({_listed(students)})" if column else "FALSE"
            rows[f"{schema}.{name}"] = count(con, f"SELECT COUNT(*) FILTER ({about}) FROM {schema}.{name}")
    return {name: number for name, number in rows.items() if number}


def file_without(
    source: Path, target: Path, scratch: Path, students: Collection[int], digests: Mapping[str, str]
) -> None:
    """Copy a database file without the rows about these students, and without views, which a publish makes.

    `digests` maps the old digests of rewritten days of the lake to the new ones.
    """
    with connect(target, scratch=scratch) as con:
        con.execute(f"ATTACH {literal(source)} AS {_BEFORE} (READ_ONLY)")
        con.execute(f"USE {_BEFORE}")
        tables = schemas.existing(con)
        made = con.execute(
            """
            SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = $database ORDER BY table_oid
        """,
            {"database": _BEFORE},
        ).fetchall()
        con.execute(f"USE {CATALOG}")
        for schema in schemas.SCHEMAS:
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for schema, name, statement in made:
            con.execute(statement)
            table, full = tables[schema, name], f"{schema}.{name}"
            if table.comment:
                con.execute(f"COMMENT ON TABLE {full} IS {literal(table.comment)}")
            for column, comment in table.comments.items():
                if comment:
                    con.execute(f"COMMENT ON COLUMN {full}.{column} IS {literal(comment)}")
            about = _of_file(schema, name, {c for c, _ in table.columns}, students)
            con.execute(
                f"INSERT INTO {full} SELECT {_values(schema, name, table.columns, students)} FROM"
                f" {_BEFORE}.{full} WHERE NOT COALESCE({about}, FALSE)"
            )
        for was, now in digests.items():
            con.execute("UPDATE spans.days SET digest = $1 WHERE digest = $2", [now, was])
        con.execute(f"DETACH {_BEFORE}")


def _read(path: str) -> str:
    # Else the folder's name would become a column.
    return f"read_parquet({path}, hive_partitioning = false)"


def _listed(students: Collection[int]) -> str:
    return ", ".join(map(str, sorted(students))) or "NULL"


def _about(name: str, students: Collection[int]) -> str:
    """The condition for rows of the lake about these students, as SQL."""
    if name == OBSERVED:
        return f"COALESCE(set_name IN ({_SETS}) AND id IN ({_listed(students)}), FALSE)"
    return f"{STUDENT_ID} IN ({_listed(students)})"


def _column(schema: str, name: str, columns: Collection[str]) -> str:
    """The expression for students' ids in a table of a database file, as SQL; empty if it has none."""
    if (schema, name) == ("ops", "rejects"):
        return f"CASE WHEN set_name IN ({_SETS}) THEN id END"
    return STUDENT_ID if STUDENT_ID in columns else ""


def _of_file(schema: str, name: str, columns: Collection[str], students: Collection[int]) -> str:
    """The condition for rows of a database file that are, or may be, about these students, as SQL."""
    if (schema, name) == ("ops", "drift") and students:
        # A field that only one record had may be theirs. For days still in raw/, the manifests have the true counts.
        return "set_name = 'students' AND count = 1"
    column = _column(schema, name, columns)
    return f"{column} IN ({_listed(students)})" if column else "FALSE"


def _values(schema: str, name: str, columns: list[tuple[str, str]], students: Collection[int]) -> str:
    """The columns to copy, as SQL; removes the id that a sync's reason may give for an unclear absence check."""
    if (schema, name) != ("ops", "syncs"):
        return "*"
    ids = "|".join(map(str, sorted(students)))
    told = r"(students could not be proven complete \(no clean answer about )id (" + ids + r")\)"
    said = f"regexp_replace(reason, {literal(told)}, {literal(chr(92) + '1an erased student)')}, 'g') AS reason"
    return ", ".join(said if column == "reason" and ids else column for column, _ in columns)
