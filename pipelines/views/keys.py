"""The keys of tables and views in words, and which columns name a row of another one: `class_id` joins `classes`.

A column joins by its name: a set's key names a record of that set, and a column that is the whole key of a view
(`course_id` of `courses`) names one of its rows. A row that is joined may be missing: from history and from changes
records may have left, and a student's record may list a class that the class list lacks.

Nothing is declared as a constraint in the file: primary keys of `main` and `history` would make a file of 100,000
students four times as large (107 MB for 26) and a fifth slower to fill, for their indexes. Tests check keys instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pipelines.tables import SETS, owner
from pipelines.views import catalog


def targets() -> dict[str, str]:
    """The table or view in `main` that a column of this name joins."""
    of_views = {v.key[0]: v.name for v in reversed(catalog.views()) if len(v.key) == 1 and v.key[0].endswith("_id")}
    return of_views | {s.key: owner(s.key).name for s in SETS.values()}


def joins(name: str, columns: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Each column of a table or view that joins another one, with that one's name."""
    known = targets()
    return tuple((c, known[c]) for c in columns if known.get(c, name) != name)


def describe(name: str, key: Collection[str], nullable: Collection[str], columns: Iterable[str]) -> str:
    """The columns that no two rows share, and which columns join which table or view, as Markdown.

    Empty without a key.
    """
    if not key:
        return ""
    parts = (f"`{k}` (may be NULL)" if k in nullable else f"`{k}`" for k in key)
    joined = [f"`{column}` joins `{other}`" for column, other in joins(name, columns)]
    return f"Key: {', '.join(parts)}." + (f" {'; '.join(joined)}." if joined else "")
