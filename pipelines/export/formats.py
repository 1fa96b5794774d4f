"""Handing an answer to other tools: CSV and Excel for people, Parquet for programs.

A pupil chooses what stands in a name, and a spreadsheet program runs a cell that looks like a formula. In a CSV file
such a cell of text gets an apostrophe in front, which spreadsheet programs hide or show, and never run; an Excel file
says of each cell that it is text. Numbers and dates are left as they are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa

from pipelines import files
from pipelines.errors import ArgumentError
from pipelines.export.query import lock, open_published, query_of, refusals

# What makes a spreadsheet program take text for a formula (OWASP's list, the full-width forms among them).
FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
EXCEL_ROWS = 1_048_575  # below the heading
EXCEL_TEXT = 32_767  # characters in a cell
EXACT = 2**53  # Excel's numbers are doubles: a longer integer would lose its last digits
BATCH = 10_000
ROW_GROUP = 122_880  # rows; DuckDB's own size for what it reads best
NUMBERS = {
    "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
    "float", "double", "decimal",
}  # fmt: skip


class Format(StrEnum):
    """The formats an answer is exported in."""

    CSV = "csv"
    XLSX = "xlsx"
    PARQUET = "parquet"


def export(published: Path, question: str, form: Format, out: Path, *, scratch: Path) -> int:
    """Write the rows of a question (a view, a table, or a query that reads) to a file, whole or not at all.

    The file is the owner's alone; what does not fit into memory goes to `scratch`, a private folder. Returns the number
    of rows. Raises NothingLandedError before the first publish, and ArgumentError for a question that is none, a folder
    that is not there, or more rows than an Excel sheet holds.
    """
    if not out.parent.is_dir():
        raise ArgumentError(f"{out.parent} is no folder: make it first, or write elsewhere with --out")
    if out.is_dir():
        raise ArgumentError(f"{out} is a folder: name a file in it")
    write = {Format.CSV: _csv, Format.XLSX: _xlsx, Format.PARQUET: _parquet}[form]
    with open_published(published) as con:
        statement = lock(con, published, query_of(con, question), scratch=scratch)
        with refusals(), files.handing_out(out) as file:
            return write(con.sql(statement), file, scratch)


def _batches(reader: pa.RecordBatchReader) -> Iterator[Any]:
    """The rows, some at a time. Raises ArgumentError for what fails on the way."""
    try:
        yield from reader
    except OSError as error:  # as which Arrow hands on what DuckDB reports
        raise ArgumentError(f"DuckDB refused the query: {error}") from None


def _csv(rows: duckdb.DuckDBPyRelation, file: IO[bytes], scratch: Path) -> int:  # noqa: ARG001 - as the others
    from pyarrow.csv import CSVWriter, WriteOptions

    heading = io.StringIO()
    # A PIVOT's columns are named by what pupils wrote.
    names = [f"'{name}" if name.startswith(tuple(FORMULA)) else name for name in rows.columns]
    csv.writer(heading, lineterminator="\n").writerow(names)
    file.write(heading.getvalue().encode("utf-8-sig"))  # without its mark, Excel takes UTF-8 for something else
    columns = (_disarmed(n, kind) for n, kind in enumerate(rows.types, start=1))
    texts, count = rows.project(", ".join(columns)).to_arrow_reader(BATCH), 0
    with CSVWriter(file, texts.schema, write_options=WriteOptions(include_header=False)) as writer:
        for batch in _batches(texts):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _disarmed(number: int, kind: Any) -> str:
    """A column as text, as DuckDB words it; an apostrophe before what would run."""
    text = f"CAST(#{number} AS VARCHAR)"
    if kind.id in NUMBERS:
        return f"{text} AS c{number}"
    starts = f"SUBSTR({text}, 1, 1) IN ({', '.join(f'CHR({ord(c)})' for c in FORMULA)})"
    return f"CASE WHEN {starts} THEN CHR(39) || {text} ELSE {text} END AS c{number}"


def _parquet(rows: duckdb.DuckDBPyRelation, file: IO[bytes], scratch: Path) -> int:  # noqa: ARG001 - as the others
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

    # Row by row to disk: a roster of half a million rows in little memory.
    options, count = {"constant_memory": True, "tmpdir": str(scratch)}, 0
    with xlsxwriter.Workbook(file, options) as book:
        sheet = book.add_worksheet("rollbook")
        heading = book.add_format({"bold": True, "bottom": 1})
        day = book.add_format({"num_format": "yyyy-mm-dd"})
        moment = book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        for place, (name, kind) in enumerate(zip(rows.columns, rows.types, strict=True)):
            sheet.set_column(place, place, {"VARCHAR": 24, "DATE": 12, "TIMESTAMP": 20}.get(str(kind), 14))
            sheet.write_string(0, place, name, heading)
        sheet.freeze_panes(1, 0)
        for batch in _batches(rows.to_arrow_reader(BATCH)):
            if count + batch.num_rows > EXCEL_ROWS:
                raise ArgumentError(
                    f"This is more than the {EXCEL_ROWS:,} rows that an Excel sheet holds: use --format csv or parquet,"
                    " or ask for less"
                )
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                count += 1
                for place, value in enumerate(row):
                    _cell(sheet, count, place, value, day, moment)
        sheet.autofilter(0, 0, count, len(rows.columns) - 1)
    return count


def _cell(sheet: Any, row: int, place: int, value: Any, day: Any, moment: Any) -> None:
    """One value, as what it is."""
    if value is None or (isinstance(value, (float, Decimal)) and not isfinite(value)):
        return  # what is no number is no cell either
    if isinstance(value, bool):
        sheet.write_boolean(row, place, value)
    elif isinstance(value, (int, float, Decimal)) and -EXACT <= float(value) <= EXACT:
        sheet.write_number(row, place, value)
    elif isinstance(value, datetime):
        sheet.write_datetime(row, place, value.replace(tzinfo=None), moment)
    elif isinstance(value, date):
        sheet.write_datetime(row, place, value, day)
    else:
        sheet.write_string(row, place, str(value)[:EXCEL_TEXT])  # never `write`: it makes formulas and links of text
