"""How the commands answer a query, on the terminal or in a file; each answer is noted in the access log."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from rollbook.errors import ArgumentError
from rollbook.reading import access as log
from rollbook.reading.formats import Format, check_target, students_in
from rollbook.terminal import err, out, safe, table
from rollbook.util import files
from rollbook.util.text import cell, count_of, listed

if TYPE_CHECKING:
    pass

# Of a column of text on a terminal, in characters; what is longer goes on in the next line. A column is only made
# narrower than WIDEST, down to FOLDED, so that one more fits.
WIDEST, FOLDED = 48, 24


def show_answer(root: Path, file: Path, query: str, rows: int, *, kind: str = "sql") -> None:
    """Run a query on a file and print the result. It is noted in the access log in `root`, as `kind`."""
    from rollbook.reading.query import query_of, run_query

    text = sys.stdin.read() if query == "-" else query
    with _noted_if_refused(root, kind, text):
        answer = run_query(file, text, most=rows)
    log.note(
        root,
        kind,
        students=students_in(answer.columns, answer.rows) if answer.is_plain else None,
        what=log.without_values(query_of(text)),
    )
    fitting = _fitting(answer.columns, answer.rows) if out.is_terminal else len(answer.columns)
    if fitting < len(answer.columns) and len(answer.rows) == 1:
        out.print(table("", ("column", "value"), zip(answer.columns, answer.rows[0], strict=True)))
    else:
        out.print(table("", answer.columns[:fitting], [row[:fitting] for row in answer.rows], widest=WIDEST))
        if left := answer.columns[fitting:]:
            more = f"{count_of(len(left), 'more column')} would not fit: {safe(listed(left, len(left)))}"
            err.print(f"{more}. Widen the window, name the columns to see, or show one row whole with --rows 1.")
    if answer.more:
        err.print("There are more rows: raise --rows, or write all to a file with `rollbook export`.")


def _fitting(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """How many columns, from the first on, the terminal shows whole; a long text is folded."""
    left = out.width
    for number, heading in enumerate(columns):
        widest = max(cell_len(safe(text)) for text in (heading, *(cell(row[number]) for row in rows)))
        left -= min(widest, FOLDED) + 3  # a space on both sides, and a line
        if left < -1 and number:  # the last column has no line behind it
            return number
    return len(columns)


@contextmanager
def _noted_if_refused(warehouse: Path, kind: str, query: str) -> Iterator[None]:
    """Note a query that DuckDB refuses in the access log, too: its error may quote a record."""
    try:
        yield
    except ArgumentError:
        log.note(warehouse, kind, what=log.without_values(query))
        raise


def write_export(
    root: Path,
    file: Path,
    question: str,
    target: Path,
    form: Format | None,
    within: Path,
    *,
    sheet_by: str | None = None,
    kind: str = "export",
) -> None:
    """Write a query's rows to a file. It is noted in the access log in `root`, as `kind`; `within` is for spilling."""
    from rollbook.reading.query import export as write
    from rollbook.reading.query import query_of

    path = target.expanduser()
    check_target(path)
    chosen = form or _format_of(target)
    if sheet_by is not None and chosen is not Format.XLSX:
        raise ArgumentError("Only an Excel file has sheets: name the file FILE.xlsx, or leave out --sheet-by")

    def note(students: int | None) -> None:
        log.note(root, kind, students=students, what=log.without_values(query_of(question)))

    with files.aside(within) as scratch, _noted_if_refused(root, kind, question):
        rows = write(file, question, chosen, path, scratch=scratch, sheet_by=sheet_by, before=note)
    out.print(f"Wrote {count_of(rows, 'row')} to {safe(str(target))}.")


def _format_of(target: Path) -> Format:
    """The format of a file's extension; CSV without one. Raises ArgumentError for an unknown extension."""
    try:
        return Format(target.suffix.removeprefix(".").lower() or Format.CSV)
    except ValueError:
        raise ArgumentError(
            f"{target.name} does not end in .csv, .xlsx or .parquet: rename it, or give the format with --format"
        ) from None
