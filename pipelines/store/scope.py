"""Whose rows a statement reads: those of one school, or those of many institutions side by side.

The views and the history are one text for both. Where rows of several institutions stand in a table, each has its
institution in the first column, and nothing may be joined, counted or ordered across it. What says so in SQL is here;
for a single school it is nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass

INSTITUTION = "institution"


@dataclass(frozen=True)
class Scope:
    """Pieces of SQL for the statements; `column` is empty for a single school."""

    column: str = ""

    @property
    def id(self) -> str:
        """The column as the first of a list: of what is selected, joined or grouped by."""
        return f"{self.column}, " if self.column else ""

    @property
    def by(self) -> str:
        """The start of a window, before its ORDER BY."""
        return f"PARTITION BY {self.column} " if self.column else ""

    def within(self, rows: str) -> str:
        """As `by`, of one of several relations."""
        return f"PARTITION BY {rows}.{self.column} " if self.column else ""

    @property
    def grouped(self) -> str:
        """One row per institution, behind a FROM that has no GROUP BY of its own."""
        return f" GROUP BY {self.column}" if self.column else ""

    @property
    def others(self) -> str:
        """Behind a `*` that must not repeat the column."""
        return f" EXCLUDE ({self.column})" if self.column else ""

    def of(self, rows: str) -> str:
        """As `id`, of one of several relations."""
        return f"{rows}.{self.column}, " if self.column else ""

    def same(self, a: str, b: str) -> str:
        """Rows of two relations are of one institution, before what else they share."""
        return f"{a}.{self.column} = {b}.{self.column} AND " if self.column else ""

    def where(self, a: str, b: str) -> str:
        """The same as a WHERE of its own."""
        return f" WHERE {a}.{self.column} = {b}.{self.column}" if self.column else ""

    def cross(self, relation: str) -> str:
        """Join a relation that has one row, or one per institution, to whatever stands before it."""
        return f"INNER JOIN {relation} USING ({self.column})" if self.column else f"CROSS JOIN {relation}"

    def beside(self, relation: str, rows: str) -> str:
        """As `cross`, where the columns of both are told apart."""
        if self.column:
            return f"INNER JOIN {relation} ON {relation}.{self.column} = {rows}.{self.column}"
        return f"CROSS JOIN {relation}"


ONE, MANY = Scope(), Scope(INSTITUTION)
