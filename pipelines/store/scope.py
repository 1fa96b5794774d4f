"""Whether a statement reads the rows of one school, or of many institutions in the same tables.

The views and the history use the same SQL for both. In a table of several institutions, each row has its institution in
the first column, and nothing may be joined, counted or ordered across institutions. This module supplies the SQL that
ensures it; for a single school that is the empty string.
"""

from __future__ import annotations

from dataclasses import dataclass

INSTITUTION = "institution"


@dataclass(frozen=True)
class Scope:
    """SQL fragments for the statements; `column` is empty for a single school."""

    column: str = ""

    @property
    def id(self) -> str:
        """The column as the first of a select, join or group list."""
        return f"{self.column}, " if self.column else ""

    @property
    def by(self) -> str:
        """The start of a window, before its ORDER BY."""
        return f"PARTITION BY {self.column} " if self.column else ""

    def within(self, rows: str) -> str:
        """As `by`, with the relation's name."""
        return f"PARTITION BY {rows}.{self.column} " if self.column else ""

    @property
    def grouped(self) -> str:
        """One row per institution, after a FROM without its own GROUP BY."""
        return f" GROUP BY {self.column}" if self.column else ""

    @property
    def others(self) -> str:
        """After a `*` that must not repeat the column."""
        return f" EXCLUDE ({self.column})" if self.column else ""

    def of(self, rows: str) -> str:
        """As `id`, with the relation's name."""
        return f"{rows}.{self.column}, " if self.column else ""

    def same(self, a: str, b: str) -> str:
        """The first condition of a join: both rows are of the same institution."""
        return f"{a}.{self.column} = {b}.{self.column} AND " if self.column else ""

    def where(self, a: str, b: str) -> str:
        """As `same`, as a whole WHERE."""
        return f" WHERE {a}.{self.column} = {b}.{self.column}" if self.column else ""

    def cross(self, relation: str) -> str:
        """Join a relation that has one row, or one per institution, to the relation before it."""
        return f"INNER JOIN {relation} USING ({self.column})" if self.column else f"CROSS JOIN {relation}"

    def beside(self, relation: str, rows: str) -> str:
        """As `cross`, but both relations keep their institution column."""
        if self.column:
            return f"INNER JOIN {relation} ON {relation}.{self.column} = {rows}.{self.column}"
        return f"CROSS JOIN {relation}"


ONE, MANY = Scope(), Scope(INSTITUTION)
