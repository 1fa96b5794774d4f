"""SQL statements from `.sql` files: one whole statement per file, beside the code that runs it.

They are Jinja templates. Macros in `store/sql/_macros.sql` make names, and lists and comparisons of columns, from the
declarations in `tables`; values are DuckDB parameters, `$name`, and never part of the text.

The views and the history use the same SQL for one school and for many institutions in the same tables. There, each row
has its institution in the first column, and nothing may be joined, counted or ordered across institutions. `Scope`
supplies the SQL that ensures it; for a single school that is the empty string.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


INSTITUTION = "institution"
# The macros that every statement may use, as `m`.
MACROS = "_macros.sql"


def statements(package: str, folder: str = "sql") -> Callable[..., str]:
    """Return a function that renders the statements of a package's folder by name: `sql("name", table="t")`.

    It raises jinja2.UndefinedError for a variable that the call does not pass.
    """

    def sql(name: str, **parts: object) -> str:
        return environment(package, folder).get_template(f"{name}.sql").render(parts)

    return sql


@cache
def environment(package: str, folder: str) -> Environment:
    """The Jinja environment of one package's statements, with the shared macros as `m`."""
    # Imported for the first statement: `rollbook --help` renders none.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    from rollbook.util.templates import Compiled

    # S701 asks for HTML escaping; this is SQL, made from our own declarations.
    folders = dict.fromkeys(((package, folder), (package, "sql"), ("rollbook.store", "sql")))
    loader = ChoiceLoader([PackageLoader(*place) for place in folders])
    made = Environment(  # noqa: S701
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=Compiled(package),
    )
    made.globals["m"] = made.get_template(MACROS).module
    return made


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
