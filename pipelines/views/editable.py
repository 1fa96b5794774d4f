"""Reads and writes the CSV files that the institution edits; `thresholds` and `terms` define their content.

Accepts what spreadsheet programs save: a byte order mark, semicolons, spaces around a cell, empty lines.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines import files
from pipelines.errors import SettingError


@dataclass(frozen=True)
class Line:
    """One line that is not empty: its number in the file, its cells, and whether numbers have decimal commas."""

    number: int
    cells: Sequence[str]
    decimal_comma: bool


def ensure(path: Path, text: str, mode: int) -> None:
    """Write the file if there is none."""
    if not path.exists():
        files.write(path, text.encode(), mode)


def render(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the text of a file."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def lines(path: Path, header: Sequence[str], needed: int) -> Iterator[Line]:
    """Yield the lines below the heading, each padded to at least `needed` cells; empty lines are skipped.

    Raises SettingError if the file is not a CSV file whose first `needed` columns are those of `header`.
    """
    text = _text(path).splitlines()
    delimiter = ";" if text and text[0].count(";") > text[0].count(",") else ","
    rows = list(csv.reader(text, delimiter=delimiter))
    first = [cell.strip().lower() for cell in rows[0]] if rows else []
    if first[:needed] != list(header[:needed]):
        raise malformed(path, 1, f"the heading must be {','.join(header)}")
    for number, row in enumerate(rows[1:], start=2):
        cells = [cell.strip() for cell in row]
        if any(cells):
            yield Line(number, [*cells, *[""] * (needed - len(cells))], delimiter == ";")


def malformed(path: Path, line: int, problem: str) -> SettingError:
    """Return the error for an invalid line."""
    return SettingError(
        f"{path}, line {line}: {problem}. Nothing was published and nothing is lost; correct the line, or remove the"
        " file to get the defaults back, and sync again"
    )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (ValueError, IsADirectoryError):
        raise malformed(path, 1, "it is not a CSV text file; save it as CSV (UTF-8)") from None
