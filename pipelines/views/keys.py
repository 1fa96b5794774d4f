"""Describes the keys of tables and views, and which columns join which tables: `class_id` joins `classes`.

Columns join by name: a set's key joins the set's table, and a column that is the whole key of a view (`course_id` of
`courses`) joins that view. The joined row may be missing: records in history and changes may have left, and a student's
record may name a class that the class list lacks.

The file has no constraints: the indexes of primary keys in `main` and `history` would make a file of 100,000 students
four times as large (107 MB instead of 26) and a fifth slower to fill. Tests check the keys instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pipelines.tables import SETS, owner
from pipelines.views import catalog


def targets() -> dict[str, str]:
    """Return the table or view in `main` that each joining column joins, by the column's name."""
    of_views = {v.key[0]: v.name for v in reversed(catalog.views()) if len(v.key) == 1 and v.key[0].endswith("_id")}
    return of_views | {s.key: owner(s.key).name for s in SETS.values()}


def joins(name: str, columns: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return (column, joined table or view) for each joining column of a table or view."""
    known = targets()
    return tuple((c, known[c]) for c in columns if known.get(c, name) != name)


def describe(name: str, key: Collection[str], nullable: Collection[str], columns: Iterable[str]) -> str:
    """Return the key, and which columns join which table or view, as a line of Markdown; empty without a key."""
    if not key:
        return ""
    parts = (f"`{k}` (may be NULL)" if k in nullable else f"`{k}`" for k in key)
    joined = [f"`{column}` joins `{other}`" for column, other in joins(name, columns)]
    return f"Key: {', '.join(parts)}." + (f" {'; '.join(joined)}." if joined else "")
