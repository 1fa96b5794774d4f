"""Runs a read-only query on the published file; writes the rows to CSV and Excel for people, Parquet for programs.

A query is checked with DuckDB's own parser. The statement's type alone is not enough: a SELECT may contain a COPY, and
EXPLAIN ANALYZE runs the query. So only one SELECT is allowed, and only if the whole syntax tree is read-only. The query
runs on a read-only connection that opens no files but the published file and the lake's, with a locked configuration.

Pupils may choose their own names, and a spreadsheet program runs a cell that looks like a formula (CSV injection). In
CSV, an apostrophe precedes such a text, which spreadsheet programs hide or show, but never run. So does the rest of a
text after a semicolon, tab or line break, since not every program separates columns by commas. In Excel, the cell is
declared as text. Numbers and dates stay unchanged.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import duckdb

from rollbook.errors import ArgumentError
from rollbook.reading import excel
from rollbook.reading.formats import Format
from rollbook.reading.own import own_columns
from rollbook.store.database import MEMORY_LIMIT, file_literal, literal, quoted, translate_errors
from rollbook.store.published import check_is_there
from rollbook.store.schema import check_format
from rollbook.util import files
from rollbook.views import catalog

if TYPE_CHECKING:
    import pyarrow as pa

# The query nodes of a syntax tree that only read. A CTE may also be a COPY_QUERY_NODE, a DELETE_QUERY_NODE, ...
READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
# The table functions that do not open files, change settings or run text as a query. All `duckdb_...()` and the
# published file's macros are allowed as well.
READING_FUNCTIONS = {
    *("range", "generate_series", "unnest", "repeat", "json_each", "json_tree", "histogram", "histogram_values")
}

_NAME = re.compile(r"(\w+\.)?\w+")


@dataclass(frozen=True)
class QueryResult:
    """A query's result: column names, and rows of Python values in that order. `more`: there were more rows.

    `is_plain`: a column `student_id` says whom each row shows (see `is_plain_read`).
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: bool = False
    is_plain: bool = False


def run_query(
    published: Path, query: str, parameters: dict[str, Any] | None = None, *, most: int | None = None
) -> QueryResult:
    """Run a query, or the name of a view or table, on the published file, read-only; return at most `most` rows (None:
    all).

    Raises NothingLandedError before the first publish, and ArgumentError when the query would write or DuckDB refuses
    it.
    """
    with open_published(published) as con:
        query = _in_order(con, query)
        statement = lock(con, published, query)
        is_plain = is_plain_read(con, query)
        with refusals():
            result = con.execute(statement, parameters or {})
            columns = tuple(c[0] for c in result.description or ())
            rows = result.fetchall() if most is None else result.fetchmany(most + 1)
    return QueryResult(columns, rows[:most], most is not None and len(rows) > most, is_plain)


def read_arrow(published: Path, query: str, parameters: dict[str, Any] | list[Any]) -> tuple[pa.Table, int | None]:
    """Run a query or a name as `run_query`; return its rows, and the number of different students in them (None if the
    rows may show any student).

    Sums of whole numbers are whole numbers, where they fit. Raises the same errors as `run_query`.
    """
    import pyarrow as pa

    with open_published(published) as con:
        query = _in_order(con, query)
        statement = lock(con, published, query)
        is_plain = is_plain_read(con, query)
        with refusals():
            rows: Any = con.sql(statement, params=parameters).to_arrow_table()
    for at, field in enumerate(rows.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            with suppress(pa.ArrowInvalid):  # too large
                rows = rows.set_column(at, field.name, rows.column(at).cast(pa.int64()))
    names = [name.lower() for name in rows.column_names]
    if not is_plain or "student_id" not in names:
        return rows, None
    return rows, len(rows.column(names.index("student_id")).drop_null().unique())


@contextmanager
def open_published(published: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the published file, or the district's, read-only. Raises NothingLandedError before the first, and
    OtherVersionError for one of another format.

    The file is attached to an instance of its own: connections that a notebook opens to the same file share one, with
    its settings, and `lock` is for this one alone.
    """
    check_is_there(published)
    name = published.name.partition(".")[0]  # as DuckDB calls a file that is opened
    spilled: dict[str, str | bool | int | float | list[str]] = {"temp_directory": f"{published}.tmp"}
    with translate_errors(published, published.parent), duckdb.connect(config=spilled) as con:
        con.execute(f'ATTACH {literal(published)} AS "{name}" (READ_ONLY)')
        con.execute(f'USE "{name}"')
        check_format(con, published.name)
        yield con


def lock(
    con: duckdb.DuckDBPyConnection, published: Path, query: str, *, scratch: Path | None = None
) -> duckdb.Statement:
    """Parse the query and restrict the connection to reading; returns the parsed statement.

    Afterwards, the connection can open no files but the published file and the lake's, which the views read. What does
    not fit into memory is spilled to `scratch`, a private folder; without a folder, the query fails. Raises
    ArgumentError when the query would do more than read.
    """
    statement = only_reads(con, query)
    lake = f"{published.parent / 'snapshots'}/"
    # In both spellings: DuckDB asks once for the pattern in the views, and once for the file that the pattern finds.
    con.execute(f"SET allowed_directories = [{literal(lake)}, {file_literal(lake)}]")
    con.execute(f"SET temp_directory = {literal(scratch or '')}")
    if scratch is not None:
        con.execute(f"SET memory_limit = {literal(MEMORY_LIMIT)}")
    # A bar would be printed into the output of a slow query. In Jupyter without ipywidgets there is none, and DuckDB
    # refuses to turn it off.
    if con.execute("SELECT CURRENT_SETTING('enable_progress_bar')").fetchall() == [(True,)]:
        con.execute("SET enable_progress_bar = false")
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return statement


@contextmanager
def refusals() -> Iterator[None]:
    """Turn DuckDB's errors about a query into an ArgumentError."""
    try:
        yield
    except (duckdb.Error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the machine's; Arrow wraps DuckDB's errors in errors without a number
        raise ArgumentError(f"DuckDB refused the query: {error}") from None


def only_reads(con: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    """Parse a query. Raises ArgumentError unless there is exactly one statement, which only reads."""
    try:
        statements = con.extract_statements(query)
    except duckdb.Error as error:
        raise ArgumentError(f"DuckDB does not understand the query: {error}") from None
    if len(statements) != 1:
        raise ArgumentError(f"Ask one query at a time: this is {len(statements)}")
    try:
        kind = statements[0].type.name
    except ValueError:  # DuckDB's Python package does not know the type yet
        kind = "this kind of statement"
    if kind == "MULTI":
        raise ArgumentError("DuckDB runs this as several statements. Name the values of a PIVOT: ON column IN (...)")
    if kind != "SELECT":
        raise _more_than_reading(kind)
    row = con.execute(
        """
        SELECT
            LIST(atom ->> '$') FILTER (key = 'type' AND SUFFIX(atom ->> '$', '_NODE')),
            LIST(LOWER(atom ->> '$')) FILTER (key = 'function_name' AND SUFFIX(path, '.function'))
        FROM json_tree(json_serialize_sql($query))
    """,
        {"query": statements[0].query},
    ).fetchone()
    nodes, functions = (part or [] for part in row or ([], []))
    if not nodes:  # DuckDB has no syntax tree for such a statement
        raise _more_than_reading("a statement that DuckDB cannot analyze")
    for node in set(nodes) - READING_NODES:
        raise _more_than_reading(node.removesuffix("_QUERY_NODE"))
    for name in set(functions) - READING_FUNCTIONS - _macros(con):
        if not name.startswith("duckdb_"):
            raise _more_than_reading(f"the function {name}")
    return statements[0]


def _macros(con: duckdb.DuckDBPyConnection) -> set[str]:
    """The macros of the published file, which only read."""
    mine = "SELECT function_name FROM duckdb_functions() WHERE NOT internal AND database_name = CURRENT_DATABASE()"
    return {name for (name,) in con.execute(mine).fetchall()}


def is_plain_read(con: duckdb.DuckDBPyConnection, query: str) -> bool:
    """Whether a query only picks columns of a table or view, without new names.

    Only then does a column `student_id` say whom each row shows: an alias, an expression, a subquery or a join may put
    any student in a row with any number.
    """
    text = con.execute("SELECT CAST(json_serialize_sql($1) AS VARCHAR)", [query]).fetchall()[0][0]
    try:
        tree = json.loads(text)
    except RecursionError:  # a plain read is not that deep
        return False
    if tree["error"] or len(tree["statements"]) != 1:
        return False
    node = tree["statements"][0]["node"]
    return (
        node["type"] == "SELECT_NODE"
        and not node["cte_map"]["map"]
        and node["from_table"]["type"] == "BASE_TABLE"
        and not node["from_table"]["column_name_alias"]
        and all(_is_own_column(expression) for expression in node["select_list"])
    )


def _is_own_column(expression: dict[str, Any]) -> bool:
    if expression["class"] == "STAR":
        return not (expression["replace_list"] or expression["rename_list"] or expression["expr"])
    return expression["class"] == "COLUMN_REF" and not expression["alias"]


def _more_than_reading(construct: str) -> ArgumentError:
    return ArgumentError(
        f"Queries are read-only, and {construct} could do more: only a sync changes what is published. Use SELECT,"
        " FROM, WITH, SUMMARIZE, DESCRIBE or SHOW; for work of your own, ATTACH the file read-only from another"
        " database"
    )


def query_of(question: str) -> str:
    """Turn the name of a view or table into a query; a query is returned unchanged."""
    return f"FROM {question}" if _NAME.fullmatch(question.strip()) else question


def _in_order(con: duckdb.DuckDBPyConnection, question: str) -> str:
    """Turn a question into a query, of a view in the order in which people read it."""
    query, name = query_of(question), question.strip()
    if name not in catalog.VIEWS:
        return query
    with refusals():
        return query + catalog.view(name).order_by(con.sql(query).columns)


# Leading characters that make a spreadsheet program read text as a formula (OWASP's list, with full-width forms).
FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
# Where semicolons, tabs or line breaks separate columns and rows, the rest of a text is another cell.
INNER_FORMULA = '([;\t\r\n])([" ]*[=+@\uff1d\uff0b\uff0d\uff20-])'
INNER_DISARMED = r"\1'\2"
BATCH = 10_000
ROW_GROUP = 122_880  # rows; DuckDB's default row group size
NUMBERS = {
    "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
    "float", "double", "decimal",
}  # fmt: skip


def export(
    published: Path,
    question: str,
    form: Format,
    out: Path,
    *,
    scratch: Path,
    values: dict[str, Any] | None = None,
    sheet_by: str | None = None,
    before: Callable[[int | None], None] | None = None,
) -> int:
    """Write the rows of `question` (a view, a table, or a query that reads) to a file, whole or not at all.

    `values` are the query's parameters; an Excel file gets a sheet for each value of the column `sheet_by`, which may
    be one of the school's own lists. `before` is called when all rows are written but not visible yet, with the number
    of different students in a column `student_id` (None without one, or if the query is more than a plain read: the
    rows may then show any student); if `before` raises, no file appears. Only the owner may read the file. Rows that do
    not fit into memory are spilled to `scratch`, a private folder. Returns the number of rows.

    Raises NothingLandedError before the first publish, and ArgumentError when the view, table or query is invalid, or
    there are more rows than an Excel sheet holds.
    """
    with open_published(published) as con:
        query = _in_order(con, question)
        sheets = excel.Sheets(question if query != question else "rollbook", _title(con, question, query), sheet_by)
        writers: dict[Format, Callable[[duckdb.DuckDBPyRelation, IO[bytes], Path], int]] = {
            Format.CSV: _csv,
            Format.XLSX: partial(excel.write, sheets=sheets),
            Format.PARQUET: _parquet,
        }
        statement = lock(con, published, query, scratch=scratch)
        is_plain = is_plain_read(con, query)
        if sheet_by is not None:
            statement = _with_own(con, query, values or {}, sheet_by) or statement
        with files.handing_out(out) as file:
            with refusals():
                rows = con.sql(statement, params=values or {})
                count = writers[form](rows, file, scratch)
                students = _students(rows) if is_plain else None
            if before is not None:
                before(students)
    return count


def _with_own(
    con: duckdb.DuckDBPyConnection, query: str, values: dict[str, Any], column: str
) -> duckdb.Statement | None:
    """The query with a column of the school's own lists, in its own order; None if it has that, or shows no students.
    Requires a locked connection.
    """
    with refusals():
        shown = con.sql(only_reads(con, query), params=values).columns
    if column in shown or "student_id" not in shown or column not in own_columns(con):
        return None
    numbered = f"SELECT *, ROW_NUMBER() OVER () AS nth_row FROM ({query})"
    return only_reads(
        con,
        f"SELECT q.* EXCLUDE (nth_row), o.{quoted(column)} FROM ({numbered}) AS q"
        " LEFT JOIN main.students_own AS o USING (student_id) ORDER BY nth_row",
    )


def export_own(con: duckdb.DuckDBPyConnection, query: str, values: dict[str, Any], out: Path) -> int | None:
    """Write the rows of one of our own queries, of an open database, to a CSV file; returns the number of different
    students in it, or None if the rows may show any student.
    """
    with files.handing_out(out) as file, refusals():
        rows = con.sql(query, params=values)
        _csv(rows, file, out.parent)
        return _students(rows) if is_plain_read(con, query) else None


def _title(con: duckdb.DuckDBPyConnection, question: str, query: str) -> str:
    """The line above an Excel file's rows: which view, of which school, and up to which day."""
    of = (
        "SELECT MAX(school_name), (SELECT MAX(snapshot_date) FROM spans.days) FROM main.institution HAVING COUNT(*) = 1"
    )
    what = question.strip().replace("_", " ").capitalize() if query != question else "A query"
    with suppress(duckdb.CatalogException):  # a district's file
        return ", ".join(str(part) for row in con.execute(of).fetchall() for part in (what, *row) if part is not None)
    return what


def _students(rows: duckdb.DuckDBPyRelation) -> int | None:
    """The number of different students in the column `student_id`; None without the column.

    Ids are unique within an institution only, so a column `institution` is part of the key.
    """
    named = {name.lower() for name in rows.columns}
    if "student_id" not in named:
        return None
    key = "(institution, student_id)" if "institution" in named else "student_id"
    counts: list[tuple[int]] = rows.filter("student_id IS NOT NULL").aggregate(f"COUNT(DISTINCT {key})").fetchall()
    return counts[0][0]


def disarmed(value: object) -> object:
    """A CSV cell: what a spreadsheet program would run as a formula gets an apostrophe before it."""
    if not isinstance(value, str):
        return value
    text = re.sub(INNER_FORMULA, INNER_DISARMED, value)
    return f"'{text}" if text.startswith(tuple(FORMULA)) else text


def _csv(
    rows: duckdb.DuckDBPyRelation,
    file: IO[bytes],
    scratch: Path,  # noqa: ARG001 - one signature for all
) -> int:
    from pyarrow.csv import CSVWriter, WriteOptions

    heading = io.StringIO()
    # A PIVOT's column names are data, too.
    csv.writer(heading, lineterminator="\n").writerow(map(disarmed, rows.columns))
    file.write(heading.getvalue().encode("utf-8-sig"))  # Excel needs the byte order mark to read UTF-8
    columns = (_disarmed_sql(n, kind) for n, kind in enumerate(rows.types, start=1))
    texts, count = rows.project(", ".join(columns)).to_arrow_reader(BATCH), 0
    with CSVWriter(file, texts.schema, write_options=WriteOptions(include_header=False)) as writer:
        for batch in texts:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _disarmed_sql(number: int, kind: Any) -> str:
    """SQL for a column as text, with an apostrophe before what a spreadsheet program would run."""
    text = f"CAST(#{number} AS VARCHAR)"
    if kind.id in NUMBERS:
        return f"{text} AS c{number}"
    text = f"REGEXP_REPLACE({text}, {literal(INNER_FORMULA)}, {literal(INNER_DISARMED)}, 'g')"
    starts = f"SUBSTR({text}, 1, 1) IN ({', '.join(f'CHR({ord(c)})' for c in FORMULA)})"
    return f"CASE WHEN {starts} THEN CHR(39) || {text} ELSE {text} END AS c{number}"


def _parquet(
    rows: duckdb.DuckDBPyRelation,
    file: IO[bytes],
    scratch: Path,  # noqa: ARG001 - one signature for all
) -> int:
    from pyarrow import ArrowNotImplementedError
    from pyarrow.parquet import ParquetWriter

    reader, count = rows.to_arrow_reader(ROW_GROUP), 0
    try:
        with ParquetWriter(file, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                count += batch.num_rows
    except ArrowNotImplementedError as error:
        raise ArgumentError(f"A column cannot be written to Parquet, CAST it to VARCHAR: {error}") from None
    return count
