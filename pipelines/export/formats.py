"""Exports a query's result to other tools: CSV and Excel for people, Parquet for programs.

Pupils may choose their own names, and a spreadsheet program runs a cell that looks like a formula (CSV injection). In
CSV such text gets an apostrophe before it, which spreadsheet programs hide or show, but never run. So does the rest of
a text after a semicolon, tab or line break, since not every program separates columns by commas. In Excel each such
cell is declared as text. Numbers and dates stay as they are.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa

from pipelines import files
from pipelines.errors import ArgumentError
from pipelines.export import Format, check_target
from pipelines.export.query import is_plain_read, lock, open_published, query_of, refusals
from pipelines.store.database import literal

# Leading characters that make a spreadsheet program read text as a formula (OWASP's list, with full-width forms).
FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
# Where semicolons, tabs or line breaks separate columns and rows, the rest of a text is a cell of its own.
INNER_FORMULA = '([;\t\r\n])([" ]*[=+@\uff1d\uff0b\uff0d\uff20-])'
INNER_DISARMED = r"\1'\2"
EXCEL_ROWS = 1_048_575  # below the heading
EXCEL_TEXT = 32_767  # characters in a cell
EXACT = 2**53  # Excel's numbers are doubles: a longer integer would lose its last digits
BATCH = 10_000
ROW_GROUP = 122_880  # rows; DuckDB's default row group size
# The widths and formats of columns by their types; a type may go on, as TIMESTAMP WITH TIME ZONE.
COLUMNS = {"VARCHAR": (24, "General"), "DATE": (12, "yyyy-mm-dd"), "TIMESTAMP": (20, "yyyy-mm-dd hh:mm:ss")}
# Else xlsxwriter turns text into formulas and links.
ONLY_TEXT = {"strings_to_formulas": False, "strings_to_urls": False}
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
    before: Callable[[int | None], None] | None = None,
) -> int:
    """Write the rows of `question` (a view, a table, or a query that reads) to a file, whole or not at all.

    `values` are the query's parameters. `before` is called when all rows are written but not visible yet, with the
    number of different students in a column `student_id` (None without one, or if the query is more than a plain read:
    the rows may then show any student); if it raises, there is no file. Only the
    owner may read the file. What does not fit into memory is spilled to `scratch`, a private folder. Returns the number
    of rows.

    Raises NothingLandedError before the first publish, and ArgumentError when the view, table or query is invalid, the
    target folder does not exist, or there are more rows than an Excel sheet holds.
    """
    check_target(out)
    write = {Format.CSV: _csv, Format.XLSX: _xlsx, Format.PARQUET: _parquet}[form]
    with open_published(published) as con:
        query = query_of(con, question)
        statement = lock(con, published, query, scratch=scratch)
        is_plain = is_plain_read(con, query)
        with files.handing_out(out) as file:
            with refusals():
                rows = con.sql(statement, params=values or {})
                count = write(rows, file, scratch)
                students = _students(rows) if is_plain else None
            if before is not None:
                before(students)
    return count


def _students(rows: duckdb.DuckDBPyRelation) -> int | None:
    """The number of different students in the column `student_id`; None without one.

    Ids are unique within an institution only, so a column `institution` is part of the key.
    """
    named = {name.lower() for name in rows.columns}
    if "student_id" not in named:
        return None
    key = "(institution, student_id)" if "institution" in named else "student_id"
    found: list[tuple[int]] = rows.filter("student_id IS NOT NULL").aggregate(f"COUNT(DISTINCT {key})").fetchall()
    return found[0][0]


def disarmed(value: object) -> object:
    """A CSV cell: what a spreadsheet program would run as a formula gets an apostrophe before it."""
    if not isinstance(value, str):
        return value
    text = re.sub(INNER_FORMULA, INNER_DISARMED, value)
    return f"'{text}" if text.startswith(tuple(FORMULA)) else text


def _batches(reader: pa.RecordBatchReader) -> Iterator[Any]:
    """The rows in batches. Raises ArgumentError when the query fails midway."""
    try:
        yield from reader
    except OSError as error:  # Arrow wraps DuckDB's errors in it
        raise ArgumentError(f"DuckDB refused the query: {error}") from None


def _csv(
    rows: duckdb.DuckDBPyRelation,
    file: IO[bytes],
    scratch: Path,  # noqa: ARG001 - one signature for all
) -> int:
    from pyarrow.csv import CSVWriter, WriteOptions

    heading = io.StringIO()
    # A PIVOT's column names are data, too.
    csv.writer(heading, lineterminator="\n").writerow(map(disarmed, rows.columns))
    file.write(heading.getvalue().encode("utf-8-sig"))  # without the byte order mark, Excel does not read it as UTF-8
    columns = (_disarmed_sql(n, kind) for n, kind in enumerate(rows.types, start=1))
    texts, count = rows.project(", ".join(columns)).to_arrow_reader(BATCH), 0
    with CSVWriter(file, texts.schema, write_options=WriteOptions(include_header=False)) as writer:
        for batch in _batches(texts):
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
    from pyarrow.parquet import ParquetWriter

    reader, count = rows.to_arrow_reader(ROW_GROUP), 0
    try:
        with ParquetWriter(file, reader.schema, compression="zstd") as writer:
            for batch in _batches(reader):
                writer.write_batch(batch)
                count += batch.num_rows
    except pa.ArrowNotImplementedError as error:
        raise ArgumentError(f"A column cannot be written to Parquet, CAST it to VARCHAR: {error}") from None
    return count


def _xlsx(rows: duckdb.DuckDBPyRelation, file: IO[bytes], scratch: Path) -> int:
    try:
        import xlsxwriter
    except ModuleNotFoundError:
        raise ArgumentError(
            "Excel files need the extra `excel`: pip install 'rollbook[excel]'. CSV and Parquet need nothing more"
        ) from None

    # Row by row to disk, so that a roster of half a million rows needs little memory.
    options, count = {"constant_memory": True, "tmpdir": str(scratch), "remove_timezone": True, **ONLY_TEXT}, 0
    with xlsxwriter.Workbook(file, options) as book:
        sheet = book.add_worksheet("rollbook")
        heading = book.add_format({"bold": True, "bottom": 1})
        for column, (name, kind) in enumerate(zip(rows.columns, rows.types, strict=True)):
            width, form = COLUMNS.get(str(kind).partition(" ")[0], (14, "General"))
            sheet.set_column(column, column, width, book.add_format({"num_format": form}))
            sheet.write_string(0, column, name, heading)
        sheet.freeze_panes(1, 0)
        for batch in _batches(rows.to_arrow_reader(BATCH)):
            if count + batch.num_rows > EXCEL_ROWS:
                raise ArgumentError(
                    f"This is more than the {EXCEL_ROWS:,} rows that an Excel sheet holds: use --format csv or parquet,"
                    " or select fewer rows"
                )
            for row in zip(*(values.to_pylist() for values in batch.columns), strict=True):
                count += 1
                sheet.write_row(count, 0, map(_cell, row))
        sheet.autofilter(0, 0, count, len(rows.columns) - 1)
    return count


def _cell(value: Any) -> Any:
    """A value as an Excel cell holds it: there is no NaN or infinity, and what is neither number nor date is text."""
    if isinstance(value, (float, Decimal)) and not isfinite(value):
        return None
    is_number = isinstance(value, (int, float, Decimal)) and -EXACT <= float(value) <= EXACT
    return value if value is None or is_number or isinstance(value, date) else str(value)[:EXCEL_TEXT]
