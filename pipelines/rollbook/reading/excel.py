"""Writes a query's rows to an Excel file for people: a line that says what and when, headings, formats, yes and no."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import duckdb

from rollbook.errors import ArgumentError
from rollbook.store.database import names
from rollbook.store.statements import ordering

ROWS = 1_048_574  # in a sheet, below the title and the headings
SHEETS = 255
TEXT = 32_767  # characters in a cell
EXACT = 2**53  # Excel's numbers are doubles: a longer integer would lose the last digits
FIRST_YEAR = 1900  # of Excel's calendar
BATCH = 10_000
# The least widths and the formats of columns by their types; a type may go on, as TIMESTAMP WITH TIME ZONE.
COLUMNS = {
    "VARCHAR": (10, "General"),
    "BIGINT": (10, "0"),
    "DOUBLE": (10, "0.0"),
    "DATE": (12, "yyyy-mm-dd"),
    "TIMESTAMP": (20, "yyyy-mm-dd hh:mm:ss"),
}
WIDEST = 120  # characters; a reason to watch a student has up to about as many
# Else xlsxwriter turns text into formulas and links.
ONLY_TEXT = {"strings_to_formulas": False, "strings_to_urls": False}
_NOT_IN_NAMES = re.compile(r"[\[\]:*?/\\\x00-\x1f]")
_NAME = 31  # characters of a sheet's name
_RESERVED = "history"  # Excel's own sheet of changes


@dataclass(frozen=True)
class Sheets:
    """How the file shows the rows: the sheet's `name`, the line `above` the headings, and the column of which each
    value gets a sheet of its own.
    """

    name: str
    above: str = ""
    by: str | None = None


def write(rows: duckdb.DuckDBPyRelation, file: IO[bytes], scratch: Path, sheets: Sheets) -> int:
    """Write rows; returns how many. Raises ArgumentError without the extra, and for more rows or sheets than there may
    be.
    """
    try:
        import xlsxwriter
    except ModuleNotFoundError:
        raise ArgumentError(
            "Excel files need the extra `excel`: pip install 'rollbook[excel]'. CSV and Parquet need nothing more"
        ) from None
    options, count = {"constant_memory": True, "remove_timezone": True, **ONLY_TEXT}, 0
    # Row by row to disk, so that a roster of half a million rows needs little memory. xlsxwriter leaves the files of
    # sheets without rows behind.
    with TemporaryDirectory(dir=scratch) as own, xlsxwriter.Workbook(file, {"tmpdir": own, **options}) as workbook:
        shown: dict[str, _Sheet] = {}
        for called, row in _named(rows, sheets):
            if called not in shown:
                if len(shown) == SHEETS:
                    raise ArgumentError(f"{sheets.by} has more than {SHEETS} values: too many sheets for one file")
                shown[called] = _Sheet(workbook, _free_name(called, workbook.sheetnames), rows, sheets.above)
            shown[called].add(row)
            count += 1
        for sheet in shown.values() or [_Sheet(workbook, _free_name(sheets.name, ()), rows, sheets.above)]:
            sheet.finish()
    return count


def _named(rows: duckdb.DuckDBPyRelation, sheets: Sheets) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Each row with the name of its sheet; the rows of a sheet come one after the other, in their order."""
    at = None
    if sheets.by is not None:
        if sheets.by not in rows.columns:
            raise ArgumentError(
                f"There is no column {sheets.by} to make sheets by: choose from {names(tuple(rows.columns))}"
            )
        at = rows.columns.index(sheets.by)
        numbered = rows.project("*, ROW_NUMBER() OVER () AS nth_row")
        in_order = numbered.order(f"{ordering(f'#{at + 1}')}, nth_row")
        rows = in_order.project("* EXCLUDE (nth_row)")
    for batch in rows.to_arrow_reader(BATCH):
        for row in zip(*(values.to_pylist() for values in batch.columns), strict=True):
            yield sheets.name if at is None else str(row[at] if row[at] is not None else "(none)"), row


def _free_name(called: str, taken: Iterable[str]) -> str:
    """A name that Excel takes for a sheet: short, and unlike the names of the others."""
    others, suffix, number = {_RESERVED, *map(str.lower, taken)}, "", 1
    while (name := _shortened(called, _NAME - len(suffix)) + suffix).lower() in others:
        number += 1
        suffix = f" ({number})"
    return name


def _shortened(called: str, most: int) -> str:
    """A name without the characters that Excel refuses. Excel counts an emoji twice, as UTF-16 does."""
    plain = _NOT_IN_NAMES.sub(" ", called).strip(" '")
    return plain.encode("utf-16-le")[: 2 * most].decode("utf-16-le", "ignore").rstrip(" '") or "rollbook"


class _Sheet:
    """A sheet that is filled row by row; a row that is written cannot be changed."""

    def __init__(self, workbook: Any, name: str, rows: duckdb.DuckDBPyRelation, above: str) -> None:
        self.sheet = workbook.add_worksheet(name)
        self.widths, self.formats, self.count = list[int](), list[Any](), 0
        heading = workbook.add_format({"bold": True, "bottom": 1})
        self.sheet.write_string(0, 0, above or name, workbook.add_format({"bold": True}))
        for column, (label, kind) in enumerate(zip(rows.columns, rows.types, strict=True)):
            least, form = COLUMNS.get(str(kind).partition(" ")[0], (10, "General"))
            self.widths.append(max(least, len(label) + 4))  # the filter's button covers part of the heading
            self.formats.append(workbook.add_format({"num_format": form}))
            self.sheet.set_column(column, column, None, self.formats[column])
            # `completion_rate` becomes "Completion rate".
            self.sheet.write_string(1, column, label[:1].upper() + label[1:].replace("_", " "), heading)
        self.sheet.freeze_panes(2, 0)

    def add(self, row: tuple[Any, ...]) -> None:
        """Write the next row."""
        if self.count == ROWS:
            raise ArgumentError(
                f"This is more than the {ROWS:,} rows that an Excel sheet holds: use --format csv or parquet, or select"
                " fewer rows"
            )
        for column, value in enumerate(row):
            if isinstance(value, str):
                self.widths[column] = max(self.widths[column], len(value) + 2)
        self.sheet.write_row(2 + self.count, 0, map(_cell, row))
        self.count += 1

    def finish(self) -> None:
        """Set the widths and the filter."""
        for column, (width, written) in enumerate(zip(self.widths, self.formats, strict=True)):
            self.sheet.set_column(column, column, min(width, WIDEST), written)
        self.sheet.autofilter(1, 0, 1 + self.count, len(self.widths) - 1)


def _cell(value: Any) -> Any:
    """A value as an Excel cell holds it: there is no NaN, infinity or earlier day. What is neither number nor date is
    text.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (float, Decimal)) and not isfinite(value):
        return None
    is_number = isinstance(value, (int, float, Decimal)) and -EXACT <= float(value) <= EXACT
    is_day = isinstance(value, date) and value.year >= FIRST_YEAR
    return value if value is None or is_number or is_day else str(value)[:TEXT]
