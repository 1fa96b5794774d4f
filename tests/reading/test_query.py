"""The rights of an analyst's query: read what is published, and nothing else, in whatever spelling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rollbook.errors import ArgumentError
from rollbook.reading.formats import Format
from rollbook.reading.query import export, run_query
from tests.support.tiers import slow
from tests.support.warehouses.school import School

SECRET = "SECRET-KEY-7"

WRITES = [
    "DELETE FROM students",
    "UPDATE students SET name = 'x'",
    "INSERT INTO students SELECT * FROM students",
    "DROP TABLE students",
    "CREATE TEMP TABLE t AS SELECT 1",
    "COPY students TO '{out}'",
    "SET threads = 1",
    "CHECKPOINT",
    "EXPLAIN ANALYZE COPY students TO '{out}'",
    "-- a comment\nEXPLAIN ANALYZE COPY students TO '{out}'",
    "/* a */ /* b */ EXPLAIN /* c */ ANALYZE COPY (SELECT 1) TO '{out}' (USE_TMP_FILE false)",
    "-- EXPLAIN\nEXPLAIN ANALYZE COPY students TO '{out}'",
    "EXPLAIN (ANALYZE) COPY students TO '{out}'",
    "EXPLAIN (ANALYZE, FORMAT json) COPY students TO '{out}'",
    "EXPLAIN ANALYZE EXPORT DATABASE '{out}'",
    "EXPLAIN ANALYZE ATTACH '{out}' AS other",
    "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1",
    "EXPLAIN ANALYZE DELETE FROM students",
    "EXPLAIN ANALYZE CHECKPOINT",
    "EXPLAIN ANALYZE SET threads = 1",
    "EXPLAIN EXPLAIN ANALYZE COPY students TO '{out}'",
    "WITH x AS (COPY students TO '{out}') SELECT 1",
    "WITH x AS (COPY students TO '{out}' (USE_TMP_FILE false)) SELECT 1",
    "WITH x AS MATERIALIZED (COPY students TO '{out}') FROM students",
    "FROM (WITH x AS (COPY students TO '{out}') FROM x)",
    "EXPLAIN ANALYZE WITH x AS (COPY students TO '{out}') SELECT 1",
    "SUMMARIZE WITH x AS (COPY students TO '{out}') SELECT 1",
    "WITH x AS (INSERT INTO students SELECT * FROM students RETURNING student_id) FROM x",
    "WITH x AS (DELETE FROM students RETURNING student_id) FROM x",
    "COPY (PIVOT classes ON class_status USING COUNT(*)) TO '{out}'",
    "EXPLAIN ANALYZE COPY (PIVOT classes ON class_status USING COUNT(*)) TO '{out}'",
    "WITH x AS (COPY (PIVOT classes ON class_status USING COUNT(*)) TO '{out}') SELECT 1",
    "FROM json_execute_serialized_sql(json_serialize_sql('WITH x AS (COPY students TO ''{out}'') SELECT 1'))",
    "FROM query('FROM json_execute_serialized_sql(json_serialize_sql(''WITH x AS (COPY students TO ''''{out}'''') FROM x''))')",
    "FROM query('WITH x AS (COPY students TO ''{out}'') SELECT 1')",
    "SELECT * FROM students, LATERAL (FROM system.main.json_execute_serialized_sql("
    "json_serialize_sql('WITH x AS (COPY students TO ''{out}'') SELECT 1')))",
    "FROM enable_logging(storage = 'file', storage_config = {{'path': '{out}'}})",
    "FROM enable_profiling(save_location = '{out}')",
    "PREPARE p AS COPY students TO '{out}'",
    "EXECUTE p",
    "CALL enable_logging()",
    "CALL force_checkpoint()",
    "EXPORT DATABASE '{out}'",
    "IMPORT DATABASE '{out}'",
    "ATTACH '{out}' AS other",
    "LOAD '{out}'",
    "INSTALL httpfs",
    "FORCE CHECKPOINT",
    "VACUUM",
    "SET allowed_directories = ['/']",
    "RESET lock_configuration",
    "PRAGMA enable_profiling",
    "PRAGMA import_database('{out}')",
    "CREATE OR REPLACE TEMP MACRO m() AS TABLE FROM students",
    "CREATE PERSISTENT SECRET s (TYPE http)",
    "UPDATE EXTENSIONS",
    "BEGIN",
    "SELECT 1; COPY students TO '{out}'",
    "SELECT ';' AS \";\"; COPY students TO '{out}' --",
    "PIVOT classes ON class_status USING COUNT(*); COPY students TO '{out}'",
]  # fmt: skip

FOREIGN = [
    "FROM read_text('{file}')", "FROM read_blob('{file}')", "FROM read_csv('{file}')", "FROM read_csv_auto('{file}')",
    "FROM read_json('{file}')", "FROM read_parquet('{file}')", "FROM read_duckdb('{file}')", "FROM '{file}'",
    "FROM sniff_csv('{file}')", "FROM glob('{folder}/*')", "FROM parquet_metadata('{file}')", "FROM parquet_schema('{file}')",
    "FROM parquet_kv_metadata('{file}')", "FROM parquet_file_metadata('{file}')", "FROM read_text('file://{file}')",
    "FROM read_text('{lake}/../key.csv')", "FROM read_text(['{lake}/students', '{file}'])", "FROM glob('{lake}/../*')",
    "FROM query('FROM read_text(''{file}'')')", "SELECT getenv('ROLLBOOK_API_KEY')", "FROM read_text('/proc/self/environ')",
    "SELECT (SELECT content FROM read_text('{file}'))", "EXPLAIN ANALYZE FROM read_text('{file}')", "SUMMARIZE FROM '{file}'",
    "DESCRIBE FROM read_csv('{file}')", "FROM read_text(getvariable('x'))", "ATTACH '{file}'", "COPY students FROM '{file}'",
    "FROM duckdb_secrets()", "FROM SECRET",
]  # fmt: skip

# Functions that run a text as a query, in each place of a query where that can be.
HIDDEN = [
    "SELECT SUM(1) OVER w FROM course_overview WINDOW w AS (PARTITION BY {inner})", "FROM course_overview ORDER BY {inner}",
    "FROM course_overview LIMIT {inner}", "SELECT DISTINCT ON ({inner}) * FROM course_overview", "VALUES ({inner})", "FROM range({inner})",
    "FROM students_as_of({inner})", "SELECT 1 FROM course_overview QUALIFY ROW_NUMBER() OVER () = {inner}", "SUMMARIZE {inner}",
    "PIVOT classes ON class_status IN {inner} USING COUNT(*)", "SELECT CASE WHEN EXISTS {inner} THEN 1 END", "SELECT [{inner}]",
    "SELECT * REPLACE ({inner} AS course_name) FROM course_overview", "SELECT LIST_FILTER([1], LAMBDA x: x = {inner})",
    "WITH x AS MATERIALIZED {inner} FROM x", "FROM course_overview JOIN classes ON {inner} = 1", "SELECT 1 UNION ALL {inner}",
    "WITH RECURSIVE x AS (SELECT 1 AS a UNION ALL SELECT a + {inner} FROM x WHERE a < 3) FROM x", "DESCRIBE {inner}",
    "SELECT MODE() WITHIN GROUP (ORDER BY {inner}) FROM course_overview", "FROM course_overview TABLESAMPLE RESERVOIR({inner})",
]  # fmt: skip


@pytest.fixture(scope="module")
def school(fortnight: School, tmp_path_factory: pytest.TempPathFactory) -> School:
    return fortnight.copy(tmp_path_factory.mktemp("ask") / "w")


@pytest.fixture(params=["sql", slow("export")])
def asked(request: pytest.FixtureRequest, school: School, tmp_path: Path) -> Callable[[str], str]:
    """Puts a query in either way; returns the answer as text."""

    def by_sql(query: str) -> str:
        return str(run_query(school.published, query).rows)

    def by_export(query: str) -> str:
        out = tmp_path / "out.csv"
        export(school.published, query, Format.CSV, out, scratch=tmp_path)
        return out.read_text()

    return by_sql if request.param == "sql" else by_export


def everything(root: Path) -> dict[str, tuple[int, int, int]]:
    """Every file, and what a write or a replacement would change: inode, time and size."""
    stats = {str(p): p.stat() for p in root.rglob("*") if p.is_file()}
    return {name: (s.st_ino, s.st_mtime_ns, s.st_size) for name, s in stats.items()}


@pytest.mark.parametrize("query", WRITES)
def test_nothing_can_be_written_by_a_query(
    asked: Callable[[str], str], school: School, tmp_path: Path, query: str
) -> None:
    """Neither into the lake, whose files the views must be able to open, nor over the published file, nor elsewhere."""
    snapshot = next((school.warehouse / "snapshots").rglob("part-*.parquet"))
    places = [
        snapshot,
        snapshot.with_name("new.parquet"),
        school.published,
        Path(f"{school.published}.tmp/new"),
        tmp_path / "new",
    ]
    before = everything(school.warehouse)
    for written in {query.format(out=place) for place in places}:
        with pytest.raises(ArgumentError):
            asked(written)
        assert everything(school.warehouse) == before
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("query", FOREIGN)
def test_no_other_file_is_read(
    asked: Callable[[str], str], school: School, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setenv("ROLLBOOK_API_KEY", SECRET)
    file, lake = school.warehouse / "key.csv", school.warehouse / "snapshots"
    file.write_text(f"name,key\nrollbook,{SECRET}\n")
    with pytest.raises(ArgumentError) as raised:
        asked(query.format(file=file, folder=file.parent, lake=lake))
    assert SECRET not in raised.value.message


@pytest.mark.parametrize("query", HIDDEN)
def test_no_text_is_run_as_a_query_wherever_it_is_hidden(school: School, query: str) -> None:
    for function in ("query", "json_execute_serialized_sql", 'system.main."QUERY"'):
        with pytest.raises(
            ArgumentError, match=r"and the function \w+ could do more|several statements|does not understand"
        ):
            run_query(school.published, query.format(inner=f"(FROM {function}('SELECT 1'))"))


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT 1 -- the last line is a comment", [(1,)]),
        ("/* a */ SELECT ';' ;", [(";",)]),
        ("FROM range(2)", [(0,), (1,)]),
        ("VALUES (1), (2)", [(1,), (2,)]),
        ("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT MAX(i) FROM n", [(3,)]),
        ("SELECT COUNT(DISTINCT snapshot_date) FROM snapshots.students", [(14,)]),
        ("SELECT COUNT(DISTINCT snapshot_date) FROM snapshots.students, range(2)", [(14,)]),
        (
            "SELECT COUNT(*) > 0 FROM students_as_of(DATE '2026-10-01') JOIN snapshots.students USING (student_id)",
            [(True,)],
        ),
        ("PIVOT snapshots.classes ON class_status IN (1) USING COUNT(*) GROUP BY course_id LIMIT 1", None),
        ("SUMMARIZE course_overview", None),
        ("DESCRIBE snapshots.students", None),
        ("SHOW ALL TABLES", None),
        ("SELECT COUNT(*) > 0 FROM duckdb_columns()", [(True,)]),
        (f"SELECT {' + '.join(['1'] * 900)}", [(900,)]),
    ],
)
def test_read_only_queries_are_answered(school: School, query: str, rows: list[tuple[object, ...]] | None) -> None:
    answer = run_query(school.published, query)
    assert answer.rows if rows is None else answer.rows == rows


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("WITH x AS (COPY students TO 'f') SELECT 1", "COPY"),
        ("WITH x AS (DELETE FROM students RETURNING *) FROM x", "DELETE"),
        ("COPY students TO 'f'", "COPY"),
        ("EXPLAIN FROM students", "EXPLAIN"),
        ("UPDATE EXTENSIONS", "this kind of statement"),
        ("FROM query('SELECT 1')", "the function query"),
        ("FROM read_csv('f')", "the function read_csv"),
    ],
)
def test_queries_that_could_write_are_named(school: School, query: str, what: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        run_query(school.published, query)
    assert raised.value.message == (
        f"Queries are read-only, and {what} could do more: only a sync changes what is published. Use SELECT, FROM,"
        " WITH, SUMMARIZE, DESCRIBE or SHOW; for work of your own, ATTACH the file read-only from another database"
    )


def test_a_pivot_without_named_values_is_refused_with_advice(school: School) -> None:
    with pytest.raises(ArgumentError, match=r"Name the values of a PIVOT: ON column IN \(\.\.\.\)"):
        run_query(school.published, "PIVOT classes ON class_status USING COUNT(*)")
