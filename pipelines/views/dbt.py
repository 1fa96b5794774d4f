"""The data dictionary for dbt: a `sources.yml` with descriptions, data types and tests, from the declarations.

One source per schema, for a file that the profile attaches as `rollbook`. Keys become `not_null` and `unique` tests,
references between tables `relationships`. A composite key is one `unique` over a row, `(student_id, class_id)`, which
needs no package. For dbt 1.10.5 and later, which support a test's `arguments`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from pipelines import files
from pipelines.errors import ArgumentError
from pipelines.store import schema
from pipelines.store.relations import OBSERVED, SNAPSHOT_DATE
from pipelines.tables import TABLES, Column, Relation, references
from pipelines.views import catalog
from pipelines.views.dictionary import describe

FILE = "sources.yml"
# The first line of a file that may be overwritten.
MARK = "# Made by `rollbook docs --dbt`: it is written again each time, so keep your own sources in another file."

# Each schema's source. `spans` is bookkeeping, not for analysis.
SOURCES = {"main": "rollbook", "history": "rollbook_history", "snapshots": "rollbook_snapshots", "ops": "rollbook_ops"}
DATABASE = "rollbook"

Entry = dict[str, Any]


def write(folder: Path) -> Path:
    """Write `sources.yml` into a folder and return its path.

    Raises ArgumentError if the folder is missing, or holds a file of that name that Rollbook did not write.
    """
    path = folder / FILE
    if not folder.is_dir():
        raise ArgumentError(f"{folder} is not a folder: make it first, for example models/rollbook in your dbt project")
    if path.is_symlink() or (path.exists() and not _is_ours(path)):
        raise ArgumentError(f"{path} was not written by Rollbook, so it is kept: move it, or name another folder")
    files.write(path, render().encode(), mode=0o644)  # it holds no records, and is meant to be committed
    return path


def _is_ours(path: Path) -> bool:
    return path.is_file() and path.read_bytes().startswith(MARK.encode())


def render() -> str:
    """Return the text of the file."""
    document = {"version": 2, "sources": [_source(name) for name in SOURCES]}
    dumped: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    return f"{MARK}\n{dumped}"


def _source(of: str) -> Entry:
    about = schema.SCHEMAS[of]
    if of == "snapshots":
        about += " It has no tests here: each would read every landed day."
    tables = [_table(r) for r in _relations() if r.schema == of]
    return {"name": SOURCES[of], "description": about, "database": DATABASE, "schema": of, "tables": tables}


def _relations() -> Iterator[Relation]:
    """Yield every table and view of the sources."""
    yield from schema.declared()
    types = catalog.types()
    for v in catalog.views():
        # A view's columns may have any type of DuckDB's, not only the declared ones.
        listed = tuple(Column(name, types[v.name, name], meaning) for name, meaning in v.columns)  # type: ignore[arg-type]
        yield Relation("main", v.name, v.comment, listed, v.key, v.nullable)
    for t in TABLES.values():
        columns, key = catalog.snapshot_columns(t), (*t.key, SNAPSHOT_DATE.name)
        yield Relation("snapshots", t.name, f"Every landed day: {t.comment}", columns, key)
    yield OBSERVED


def _table(r: Relation) -> Entry:
    about = describe(r.name, r.key, r.nullable, (c.name for c in r.columns))
    entry: Entry = {"name": r.name, "description": f"{r.comment} {about}".rstrip()}
    is_tested = r.schema != "snapshots"
    if is_tested and len(r.key) > 1:
        entry["data_tests"] = [{"unique": {"arguments": {"column_name": f"({', '.join(r.key)})"}}}]
    entry["columns"] = [_column(r, c, is_tested=is_tested) for c in r.columns]
    return entry


def _column(r: Relation, c: Column, *, is_tested: bool) -> Entry:
    entry: Entry = {"name": c.name, "description": c.comment, "data_type": c.type.lower()}
    if is_tested and (tests := [*_of_key(r, c), *_relationships(r, c)]):
        entry["data_tests"] = tests
    return entry


def _of_key(r: Relation, c: Column) -> Iterator[Any]:
    # In history, a column that is required today may be NULL on days before it was declared.
    if (c.required and r.schema == "main") or (c.name in r.key and c.name not in r.nullable):
        yield "not_null"
    if r.key == (c.name,):
        yield "unique"


def _relationships(r: Relation, c: Column) -> Iterator[Entry]:
    """Yield a column's `relationships` tests. They only warn unless both rows come from the same record."""
    if r.schema not in {"main", "history"}:
        return
    for table, other, column in references():
        if (table.name, column) == (r.name, c.name):
            test: Entry = {"arguments": {"to": f"source('{SOURCES[r.schema]}', '{other.name}')", "field": column}}
            if not (table.set == other.set and column == table.parent_key):
                test["config"] = {"severity": "warn"}
            yield {"relationships": test}
