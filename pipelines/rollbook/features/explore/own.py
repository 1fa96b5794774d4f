"""The school's own lists on the pages: lists of students narrowed by them, and a page for each column, such as year."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.datastructures import QueryParams

from rollbook.errors import ArgumentError
from rollbook.features.explore.book import Book, Row
from rollbook.reading.own import OWN, own_columns
from rollbook.store.database import quoted
from rollbook.store.statements import in_order, statements

sql = statements("rollbook.features.explore")

# In an address: own.year=10.
PREFIX = "own."
# A column with more values is none that people choose by.
MOST_VALUES = 60


@dataclass(frozen=True)
class Narrowed:
    """What the address asks for by lists: `choices` are the columns, each with its values and the chosen one; `where`
    and `values` choose the rows of `students_own`, if it asks for any.
    """

    choices: dict[str, list[tuple[str, bool]]] = field(default_factory=dict)
    only: list[tuple[str, str]] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The condition, as SQL."""
        return " AND ".join(f"{quoted(column)} = $own_{n}" for n, (column, _) in enumerate(self.only))

    @property
    def values(self) -> dict[str, str]:
        """Its parameters."""
        return {f"own_{n}": value for n, (_, value) in enumerate(self.only)}


def narrowed(book: Book, params: QueryParams) -> Narrowed:
    """Read what the address asks for. Raises ArgumentError for a column that no list has."""
    asked = {name.removeprefix(PREFIX): value for name, value in params.items() if name.startswith(PREFIX) and value}
    columns = own_columns(book.con)
    if unknown := sorted(asked.keys() - set(columns)):
        raise ArgumentError(f"No list of the school's own has a column {unknown[0][:40]!r}. Show all")
    choices = {}
    for column in columns:
        values = values_of(book, column)
        if asked.get(column) not in (None, *values):
            values = [*values, asked[column]]
        if 0 < len(values) <= MOST_VALUES:
            choices[column] = [(value, value == asked.get(column)) for value in values]
    return Narrowed(choices, [(column, asked[column]) for column in columns if column in asked])


def values_of(book: Book, column: str) -> list[str]:
    """The values of a column, in the order of people; one more than MOST_VALUES at most."""
    name = quoted(column)
    query = f"SELECT {name} AS value FROM main.{OWN} WHERE {name} IS NOT NULL GROUP BY {name}"
    return [row.value for row in book.rows(f"{query} ORDER BY {in_order(name)} LIMIT {MOST_VALUES + 1}")]


def groups(book: Book, column: str) -> list[Row]:
    """A row per value of a column: the students, those to watch, and their averages."""
    return book.rows(sql("own_groups", column=quoted(column), order=in_order(quoted(column))))


def days(book: Book, column: str, values: Sequence[str], since: str) -> list[Row]:
    """A row per landed day: the average completion of each value, in `completion`."""
    found = book.rows(sql("own_days", column=quoted(column)), since=since)
    by_day: dict[object, dict[str, float | None]] = {}
    for row in found:
        by_day.setdefault(row.day, dict.fromkeys(values))[row.value] = row.completion
    return [
        Row(day=day, completion=completion) for day, completion in sorted(by_day.items(), key=lambda item: str(item[0]))
    ]
