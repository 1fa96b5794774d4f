"""SQL statements from `.sql` files, next to the code that runs them: a whole statement per file, or a few that follow
one another.

They are Jinja templates. Macros in `store/sql/_macros.sql` make names, and lists and comparisons of columns, from the
declarations in `tables`; values are DuckDB parameters, `$name`, and never part of the text. A statement is about one
institution: a district's file has the rows of its schools' files, side by side.
"""

from __future__ import annotations

from collections.abc import Callable
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
    environment = Environment(  # noqa: S701
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=Compiled(package),
    )
    environment.globals |= {"m": environment.get_template(MACROS).module, "in_order": in_order, "apart": apart}
    return environment


def in_order(text: str) -> str:
    """SQL to sort a text by as people do: without case and accents, and numbers by their value (9B before 10A)."""
    plain = f"STRIP_ACCENTS(LOWER({text}))"
    padded = rf"REGEXP_REPLACE({plain}, '(\d+)', '{'0' * 9}\1', 'g')"
    return rf"REGEXP_REPLACE({padded}, '\d*(\d{{10}})', '\1', 'g')"


def ordering(column: str, way: str = "ASC") -> str:
    """SQL to order rows by a column of any type: texts as people do (`in_order`), NULL last."""
    text = f"CASE WHEN TYPEOF({column}) = 'VARCHAR' THEN {in_order(f'CAST({column} AS VARCHAR)')} END"
    return f"{text} {way} NULLS LAST, {column} {way} NULLS LAST"


def apart(name: str, *by: str) -> str:
    """SQL for a name, with the first known of the columns `by` behind it if others share the name: Anna Berg (R-7)."""
    known = ", ".join(f"CAST({column} AS VARCHAR)" for column in by)
    told = f"CASE WHEN COUNT(*) OVER (PARTITION BY {name}) > 1 THEN CONCAT(' (', COALESCE({known}), ')') ELSE '' END"
    return f"{name} || {told}"
