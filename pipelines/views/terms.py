"""`warehouse/terms.csv`: the institution's terms, which it edits. The view `calendar` uses them.

Each publish reads the file into the table `main.terms`. It starts without terms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path

import duckdb

from pipelines import files
from pipelines.views import editable
from pipelines.views.editable import Line, malformed

FILE = "terms.csv"
HEADER = ("name", "first_day", "last_day")
# ISO, and the format of spreadsheet programs in much of Europe. 1/2/2026 is ambiguous, so it is refused.
FORMATS = ("%Y-%m-%d", "%d.%m.%Y")


@dataclass(frozen=True)
class Term:
    """One line of the file: a term's name, and its first and last day, inclusive."""

    name: str
    first_day: date
    last_day: date


def ensure(path: Path, mode: int = files.PRIVATE_FILE, *, known: Iterable[Term] = ()) -> None:
    """Write the file if there is none, with the `known` terms."""
    editable.ensure(path, render(known), mode)


def render(terms: Iterable[Term] = ()) -> str:
    """Return the file's text."""
    return editable.render(HEADER, ((t.name, str(t.first_day), str(t.last_day)) for t in terms))


def read(path: Path) -> tuple[Term, ...]:
    """Read the terms, in the order of their days. Raises SettingError, which names the line and what to write."""
    found: dict[str, tuple[Term, int]] = {}
    for line in editable.lines(path, HEADER, needed=3):
        term = _term(path, line)
        if term.name in found:
            raise malformed(path, line.number, f"{term.name[:40]!r} is listed twice; give each term its own name")
        found[term.name] = term, line.number
    in_order = sorted(found.values(), key=lambda entry: entry[0].first_day)
    for (one, _), (next_, number) in pairwise(in_order):
        if next_.first_day <= one.last_day:
            raise malformed(
                path,
                number,
                f"{next_.name[:40]!r} begins on {next_.first_day}, before {one.name[:40]!r} is over: a day is in one"
                " term at most",
            )
    return tuple(term for term, _ in in_order)


def _term(path: Path, line: Line) -> Term:
    name, first, last = line.cells[:3]
    if not name:
        raise malformed(path, line.number, "a term needs a name, such as Autumn 2026")
    term = Term(name, _day(path, line, "first_day", first), _day(path, line, "last_day", last))
    if term.last_day < term.first_day:
        raise malformed(path, line.number, f"{name[:40]!r} ends before it begins; swap its days")
    return term


def _day(path: Path, line: Line, column: str, text: str) -> date:
    for form in FORMATS:
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a date has no zone
        except ValueError:
            continue
    raise malformed(path, line.number, f"{column} is {text[:40]!r}; write a date such as 2026-09-01")


def fill(con: duckdb.DuckDBPyConnection, terms: tuple[Term, ...]) -> None:
    """Replace the rows of `main.terms`."""
    con.execute("DELETE FROM main.terms")
    for term in terms:
        con.execute("INSERT INTO main.terms VALUES ($1, $2, $3)", [term.name, term.first_day, term.last_day])
