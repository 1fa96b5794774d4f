"""Removes students from days of the lake, whose files are rewritten, and from database files.

A row that is deleted from a database leaves its bytes in the file until the space is reused: the caller copies it
afterwards (`clean`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import duckdb
import msgspec

from rollbook.errors import RollbookError
from rollbook.landing.erased import Matcher
from rollbook.landing.own import CONTACTS
from rollbook.landing.records import as_id
from rollbook.store import schema as schemas
from rollbook.store.database import connect, count, file_literal, literal, transaction
from rollbook.store.lake import COPY, OBSERVED, DayRecord, Lake, digest_of
from rollbook.tables import OF_STUDENTS, SETS, TABLES
from rollbook.util import files

STUDENT_ID = SETS["students"].key
ABOUT_STUDENTS = tuple(t.name for t in TABLES.values() if t.set in OF_STUDENTS)

_SETS = ", ".join(literal(name) for name in OF_STUDENTS)

Gone = Callable[[int], bool]


def gone_on_day(con: duckdb.DuckDBPyConnection, lake: Lake, record: DayRecord, erased: Gone) -> set[int]:
    """Return the ids of the `erased` students who were observed on a day."""
    observed = file_literal(lake.own(OBSERVED, record.snapshot_date))
    ids = f"SELECT DISTINCT id FROM {_read(observed)} WHERE set_name IN ({_SETS}) AND id IS NOT NULL"
    return {row[0] for row in con.execute(ids).fetchall() if erased(row[0])}


def day_without(
    con: duckdb.DuckDBPyConnection, lake: Lake, record: DayRecord, students: Collection[int], aside: Path
) -> tuple[DayRecord, dict[str, Path]]:
    """Rewrite the files of a day that hold these students into the folder `aside`, without them.

    Returns the day's new record, and the replacement files by table.
    """
    lake.check(record)
    day, changed, rows = record.snapshot_date, {}, dict(record.rows)
    for name in rows.keys() & {*ABOUT_STUDENTS, OBSERVED}:
        source, condition = _read(file_literal(lake.own(name, day))), f"NOT ({_about(name, students)})"
        left = count(con, f"SELECT COUNT(*) FILTER ({condition}) FROM {source}")
        if left == rows[name]:
            continue
        target = files.folder(aside / name / str(day)) / "part-0.parquet"
        con.execute(f"COPY (SELECT * FROM {source} WHERE {condition}) TO {literal(target)} {COPY}")
        changed[name] = target
        rows[name] = left
    digests = {n: files.digest(changed.get(n, lake.own(n, day))) for n in rows}
    sizes = record.sizes | {name: path.stat().st_size for name, path in changed.items()}
    rewritten = msgspec.structs.replace(
        record,
        digest=digest_of(digests, record.landings),
        digests=digests,
        was=record.digest,
        sizes=sizes,
        rows=rows,
        observed={},
    )
    return rewritten, changed


def may_hold(path: Path, scratch: Path, erased: Gone) -> bool:
    """Whether a copy that somebody altered holds a student who is gone, or cannot be read."""
    try:
        with connect(path, scratch=scratch, read_only=True) as con:
            return bool(gone_in_file(con, erased))
    except (RollbookError, duckdb.Error):
        return True


def rows_in_file(path: Path, scratch: Path, students: Collection[int]) -> int:
    """Return how many rows of a database file are about these students."""
    with connect(path, scratch=scratch, read_only=True) as con:
        about = ((table, f"{column} IN ({_listed(students)})") for table, column in _columns(con))
        return sum(count(con, f"SELECT COUNT(*) FILTER ({condition}) FROM {table}") for table, condition in about)


def gone_in_file(con: duckdb.DuckDBPyConnection, erased: Gone) -> set[int]:
    """Return the ids of the `erased` students in an open database file."""
    students: set[int] = set()
    for table, column in _columns(con):
        ids = con.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL")
        students.update(row[0] for row in ids.fetchall())
    return set(filter(erased, students))


def remove_from_file(con: duckdb.DuckDBPyConnection, erased: Gone, digests: Mapping[str, str]) -> None:
    """Delete the rows about the `erased` students from an open database file, whose pages still hold their bytes.

    `digests` maps the old digests of rewritten days of the lake to the new ones.
    """
    students = gone_in_file(con, erased)
    with transaction(con):
        if students:
            for table, column in _columns(con):
                con.execute(f"DELETE FROM {table} WHERE {column} IN ({_listed(students)})")
            # A field that only one record had may be theirs. The manifests in raw/ have the true counts.
            con.execute("DELETE FROM ops.drift WHERE set_name = 'students' AND count = 1")
        for was, now in digests.items():
            con.execute("UPDATE spans.days SET digest = $1 WHERE digest = $2", [now, was])


def remove_lines(con: duckdb.DuckDBPyConnection, erased: Matcher) -> None:
    """Delete the lines of the school's own lists about `erased` students from an open database file."""
    named = con.execute("SELECT DISTINCT about, who FROM spans.own_lines WHERE who IS NOT NULL").fetchall()
    gone = [
        (about, who)
        for about, who in named
        if (as_id(who) in erased if about == STUDENT_ID else erased.knows_name(about, who))
    ]
    for about, who in gone:
        lines = "(SELECT (digest, line) FROM spans.own_lines WHERE about = $1 AND who = $2)"
        con.execute(f"DELETE FROM spans.own_lines WHERE (digest, line) IN {lines}", [about, who])
    # Who noted a contact is in people's words, and may name one.
    told = "spans.own_lines WHERE digest IN (SELECT digest FROM spans.own_lists WHERE CAST(columns AS VARCHAR) = $1)"
    columns = msgspec.json.encode(CONTACTS[1:]).decode()
    for line in con.execute(f"SELECT digest, line, CAST(cells AS VARCHAR) FROM {told}", [columns]).fetchall():
        if (left := erased.cleaned(line[2])) != line[2]:
            con.execute("UPDATE spans.own_lines SET cells = $3 WHERE digest = $1 AND line = $2", [*line[:2], left])


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


def _columns(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """The tables of an open database file that hold students' ids, each with the expression for the id, as SQL."""
    counts = []
    for (schema, name), table in schemas.existing(con).items():
        if schema == "ops" and name in ("rejects", "refused_values"):
            counts.append((f"{schema}.{name}", f"CASE WHEN set_name IN ({_SETS}) THEN id END"))
        elif STUDENT_ID in {column for column, _ in table.columns}:
            counts.append((f"{schema}.{name}", STUDENT_ID))
    return counts
