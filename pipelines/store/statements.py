"""SQL statements from `.sql` files: one whole statement a file, beside the code that runs it.

They are Jinja templates. Names and lists of columns come from the declarations in `tables`; values are DuckDB
parameters, `$name`, and never part of the text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def statements(package: str, folder: str = "sql") -> Callable[..., str]:
    """The function that renders the statements in a folder of a package by name: `sql("name", table="t")`.

    It raises jinja2.UndefinedError for a part that a statement names and the call does not give.
    """

    @cache
    def environment() -> Environment:
        # Loaded when the first statement is rendered: `rollbook --help` renders none.
        from jinja2 import Environment, PackageLoader, StrictUndefined

        # S701 asks for HTML's escapes; this is SQL, made of our own declarations.
        return Environment(loader=PackageLoader(package, folder), undefined=StrictUndefined)  # noqa: S701

    def sql(name: str, **parts: object) -> str:
        return environment().get_template(f"{name}.sql").render(parts)

    return sql
