"""SQL statements from `.sql` files: one whole statement a file, beside the code that runs it.

They are Jinja templates. Names, and lists and comparisons of columns, come from the declarations in `tables` by the
macros in `store/sql/_macros.sql`; values are DuckDB parameters, `$name`, and never part of the text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


# The macros that every statement may use, as `m`.
MACROS = "_macros.sql"


def statements(package: str, folder: str = "sql") -> Callable[..., str]:
    """The function that renders the statements in a folder of a package by name: `sql("name", table="t")`.

    It raises jinja2.UndefinedError for a part that a statement names and the call does not give.
    """

    def sql(name: str, **parts: object) -> str:
        return environment(package, folder).get_template(f"{name}.sql").render(parts)

    return sql


@cache
def environment(package: str, folder: str) -> Environment:
    """The Jinja environment of one package's statements, with the macros that all of them may use as `m`."""
    # Loaded when the first statement is rendered: `rollbook --help` renders none.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    # S701 asks for HTML's escapes; this is SQL, made of our own declarations.
    folders = dict.fromkeys(((package, folder), (package, "sql"), ("pipelines.store", "sql")))
    loader = ChoiceLoader([PackageLoader(*place) for place in folders])
    made = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701
    made.globals["m"] = made.get_template(MACROS).module
    return made
