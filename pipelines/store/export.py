"""Handing an answer to other tools: CSV and Excel for people, Parquet for programs.

A pupil chooses what stands in a name, and a spreadsheet program runs a cell that looks like a formula. In a CSV file
such a cell of text gets an apostrophe in front, which spreadsheet programs hide or show, and never run; an Excel file
says of each cell that it is text. Numbers and dates are left as they are.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Any

import duckdb

from pipelines import files
from pipelines.errors import ArgumentError
from pipelines.store.ask import query_of, reading
from pipelines.store.database import connect, literal

# What makes a spreadsheet program take text for a formula (OWASP's list, the full-width forms among them).
FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
EXCEL_ROWS = 1_048_575  # below the heading
EXCEL_TEXT = 32_767  # characters in a cell
EXACT = 2**53  # Excel's numbers are doubles: a longer integer would lose its last digits
BATCH = 10_000


class Format(StrEnum):
    """The formats an answer is exported in."""

    CSV = "csv"
    XLSX = "xlsx"
    PARQUET = "parquet"


def export(published: Path, question: str, form: Format, out: Path, *, scratch: Path) -> int:
    """Write the rows of a question (a view, a table, or a query that reads) to a file, whole or not at all.

    The file is the owner's alone. Returns the number of rows. Raises NothingLandedError before the first publish, and
    ArgumentError for a question that is none, a folder that is not there, or more rows than an Excel sheet holds.
    """
    if not out.parent.is_dir():
        raise ArgumentError(f"{out.parent} is no folder: make it first, or write elsewhere with --out")
    if out.is_dir():
        raise ArgumentError(f"{out} is a folder: name a file in it")
    with reading(published) as con:
        query = query_of(con, question)
        try:
            described = con.execute(f"DESCRIBE {query}").fetchall()
        except duckdb.Error as error:
            raise ArgumentError(f"DuckDB refused the query: {error}") from None
    write = {Format.CSV: _csv, Format.XLSX: _xlsx, Format.PARQUET: _parquet}[form]
    with connect(published, scratch=scratch, read_only=True) as con, files.replacing(out) as aside:
        try:
            return write(con, query, [(row[0], row[1]) for row in described], aside)
        except duckdb.Error as error:
            raise ArgumentError(f"DuckDB refused the query: {error}") from None


def _csv(con: duckdb.DuckDBPyConnection, query: str, columns: list[tuple[str, str]], aside: Path) -> int:
    guarded = ", ".join(_guarded(name) if kind in ("VARCHAR", "JSON") else _quoted(name) for name, kind in columns)
    plain = aside.with_name(aside.name + ".plain")
    try:
        rows = _copied(con, f"SELECT {guarded} FROM ({query})", plain, "(FORMAT csv, HEADER true)")
        with plain.open("rb") as source, aside.open("wb") as target:
            target.write("\ufeff".encode())  # without it, Excel takes UTF-8 for something else
            shutil.copyfileobj(source, target)
        return rows
    finally:
        plain.unlink(missing_ok=True)


def _guarded(name: str) -> str:
    column = _quoted(name)
    starts = f"SUBSTR({column}, 1, 1) IN ({', '.join(f'CHR({ord(c)})' for c in FORMULA)})"
    return f"CASE WHEN {starts} THEN CHR(39) || {column} ELSE {column} END AS {column}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _parquet(con: duckdb.DuckDBPyConnection, query: str, columns: list[tuple[str, str]], aside: Path) -> int:  # noqa: ARG001 - as the others
    return _copied(con, query, aside, "(FORMAT parquet, COMPRESSION zstd)")


def _copied(con: duckdb.DuckDBPyConnection, query: str, path: Path, how: str) -> int:
    row = con.execute(f"COPY ({query}) TO {literal(path)} {how}").fetchone()
    path.chmod(files.PRIVATE_FILE)
    return int(row[0]) if row else 0


def _xlsx(con: duckdb.DuckDBPyConnection, query: str, columns: list[tuple[str, str]], aside: Path) -> int:
    import xlsxwriter

    # Row by row to disk: a roster of half a million rows in little memory.
    options = {"constant_memory": True, "tmpdir": str(aside.parent)}
    result, count = con.execute(query), 0
    with xlsxwriter.Workbook(aside, options) as book:
        sheet = book.add_worksheet("rollbook")
        heading = book.add_format({"bold": True, "bottom": 1})
        formats = {
            date: book.add_format({"num_format": "yyyy-mm-dd"}),
            datetime: book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"}),
        }
        for place, (name, kind) in enumerate(columns):
            sheet.set_column(place, place, {"VARCHAR": 24, "DATE": 12, "TIMESTAMP": 20}.get(kind, 14))
            sheet.write_string(0, place, name, heading)
        sheet.freeze_panes(1, 0)
        while batch := result.fetchmany(BATCH):
            if count + len(batch) > EXCEL_ROWS:
                raise ArgumentError(
                    f"This is more than the {EXCEL_ROWS:,} rows that an Excel sheet holds: use --format csv or parquet,"
                    " or ask for less"
                )
            for row in batch:
                count += 1
                for place, value in enumerate(row):
                    _cell(sheet, count, place, value, formats)
        if columns:
            sheet.autofilter(0, 0, count, len(columns) - 1)
    return count


def _cell(sheet: Any, row: int, place: int, value: Any, formats: Mapping[type[date], Any]) -> None:
    """One value, as what it is."""
    if value is None or (isinstance(value, (float, Decimal)) and not isfinite(value)):
        return  # what is no number is no cell either
    if isinstance(value, bool):
        sheet.write_boolean(row, place, value)
    elif isinstance(value, (int, float, Decimal)) and -EXACT <= float(value) <= EXACT:
        sheet.write_number(row, place, value)
    elif isinstance(value, (date, datetime)):
        if isinstance(value, datetime):
            value = value.replace(tzinfo=None)
        sheet.write_datetime(row, place, value, formats[type(value)])
    else:
        sheet.write_string(row, place, str(value)[:EXCEL_TEXT])  # never `write`: it makes formulas and links of text
