"""The data dictionary, `warehouse/README.md`: what is in the published file, generated from the declarations.

Each table, view, macro and column is described by its COMMENT in the file. The cookbook's questions are in
`cookbook.sql`. `rollbook docs` writes the dictionary; a test fails when it is stale.

For dbt it is a `sources.yml` with descriptions, data types and tests: one source per schema, for a file that the
profile attaches as `rollbook`. Keys become `not_null` and `unique` tests, references between tables `relationships`. A
composite key is one `unique` over a row, `(student_id, class_id)`, which needs no package. For dbt 1.10.5 and later,
which support a test's `arguments`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from rollbook.errors import ArgumentError
from rollbook.store import schema
from rollbook.tables import SETS, TABLES, Column, Relation, Table, owner, references
from rollbook.util.files import folder as make_folder
from rollbook.util.files import write as write_file
from rollbook.util.machine import existing
from rollbook.views import catalog, editable, metrics

DBT_FILE = "sources.yml"
# The first line of a file that may be overwritten.
MARK = "# Made by `rollbook docs --dbt`: it is written again each time, so keep your own sources in another file."

# Each schema's source. `spans` is bookkeeping, not for analysis.
SOURCES = {"main": "rollbook", "history": "rollbook_history", "snapshots": "rollbook_snapshots", "ops": "rollbook_ops"}
DATABASE = "rollbook"

Entry = dict[str, Any]

_PAIR = re.compile(r"-- (?P<question>[^\n]+)\n(?P<sql>[^;]+;)")


@dataclass(frozen=True)
class Recipe:
    """A question that analysts ask, and the SQL that answers it."""

    question: str
    sql: str


def cookbook() -> tuple[Recipe, ...]:
    """Return the cookbook's questions, in order."""
    _, _, body = files("rollbook.views").joinpath("cookbook.sql").read_text(encoding="utf-8").partition("\n\n")
    return tuple(Recipe(m["question"], m["sql"]) for m in _PAIR.finditer(body))


@dataclass(frozen=True)
class Described:
    """A table of a chapter: its name, what a row is, the key, and each column's name, type and meaning."""

    name: str
    comment: str
    key: tuple[str, ...]
    columns: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Chapter:
    """A feature's chapter, in Markdown, and the tables that it describes."""

    text: str
    tables: Sequence[Described] = ()


def render(chapters: Sequence[Chapter] = ()) -> str:
    """Return the text of the whole file, from the template, with the features' chapters."""
    place = files("rollbook.views")

    def text(name: str) -> str:
        """A part that is written by hand."""
        return place.joinpath(name).read_text(encoding="utf-8").rstrip()

    values: dict[str, object] = {
        "text": text,
        "describe": describe,
        "of": lambda columns: [(f"`{c.name}`", c.type, c.comment) for c in columns],
        "typed": lambda view, types: [(f"`{name}`", types[view.name, name], meaning) for name, meaning in view.columns],
        "listed": _listed,
        "kept": lambda of: [(r.name if of == "main" else f"{of}.{r.name}", r) for r in schema.KEPT if r.schema == of],
        "references": list(_references()),
        "tables": TABLES.values(),
        "views": catalog.views(),
        "types": catalog.types(),
        "measures": [
            (f"`{m.name}`", ", ".join(m.grain), m.definition, f"`{m.shown_in}`" if m.shown_in else "")
            for m in metrics.METRICS
        ],
        "thresholds": [(f"`{t.name}`", f"{t.value:g}", t.meaning) for t in editable.DEFAULTS],
        "schemas": schema.SCHEMAS,
        "macros": [(f"`{m.name}({', '.join(m.parameters)})`", m.comment) for m in catalog.macros()],
        "valid": schema.VALID,
        "span": schema.SPAN,
        "observed": schema.OBSERVED,
        "chapters": chapters,
        "cookbook": cookbook(),
    }
    environment = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)  # noqa: S701 - the output is Markdown
    written = environment.from_string(text("dictionary.md.jinja")).render(values)
    return "\n".join(line.rstrip() for line in written.splitlines()) + "\n"


def describe(name: str, key: Collection[str], nullable: Collection[str], columns: Iterable[str]) -> str:
    """Return a table's key, and which of its columns join which table or view; empty without a key.

    Columns join by name: the table of the set with that key, or the view with the column as the whole key.
    """
    if not key:
        return ""
    targets = {v.key[0]: v.name for v in reversed(catalog.views()) if len(v.key) == 1 and v.key[0].endswith("_id")}
    targets |= {s.key: owner(s.key).name for s in SETS.values()}
    parts = ", ".join(f"`{k}` (may be NULL)" if k in nullable else f"`{k}`" for k in key)
    joined = "; ".join(f"`{c}` joins `{targets[c]}`" for c in columns if targets.get(c, name) != name)
    return f"Key: {parts}." + (f" {joined}." if joined else "")


def _listed(of: str) -> list[tuple[str, str]]:
    """The tables of a schema that has a table for each declared table, with the columns."""
    listed = {t.name: (*t.columns, schema.SNAPSHOT_DATE) if of == "snapshots" else t.versioned for t in TABLES.values()}
    return [(f"`{of}.{name}`", ", ".join(c.name for c in columns)) for name, columns in listed.items()]


def _references() -> Iterator[str]:
    """Yield the lines between the tables of a Mermaid diagram."""
    for table, other, column in references():
        yield f"{other.name} {_line(table, is_about=column == table.parent_key)} {table.name} : {column}"
    for key in dict.fromkeys(s.key for s in SETS.values()):
        yield f"{owner(key).name} |o--o{{ {schema.CHANGES.name} : {key}"


def _line(table: Table, *, is_about: bool) -> str:
    """Return Mermaid's line from a record's table to a table of its parts, or to one that only refers to the record."""
    if not is_about:
        return "|o--o{"
    if table.is_list:
        return "||--o{"
    return "||--||" if table.path and not table.may_be_unstated else "||--o|"


def write(path: Path, chapters: Sequence[Chapter] = ()) -> None:
    """Write the dictionary to a file."""
    make_folder(path.parent)
    write_file(path, render(chapters).encode(), mode=0o644)  # it holds no records


def write_dbt(folder: Path, added: Iterable[Relation] = ()) -> Path:
    """Write `sources.yml` into a folder and return its path. `added` are the tables that features add.

    Makes the folder if needed. Raises ArgumentError where it cannot be one, or if it holds a file of that name that
    Rollbook did not write.
    """
    path = folder / DBT_FILE
    if not (nearest := existing(folder)).is_dir():
        raise ArgumentError(f"{nearest} is not a folder: name one, for example models/rollbook in your dbt project")
    is_ours = path.is_file() and path.read_bytes().startswith(MARK.encode())
    if path.is_symlink() or (path.exists() and not is_ours):
        raise ArgumentError(f"{path} was not written by Rollbook, so it is kept: move it, or name another folder")
    make_folder(folder, 0o755)
    write_file(path, render_dbt(added).encode(), mode=0o644)  # it holds no records, and is meant to be committed
    return path


def render_dbt(added: Iterable[Relation] = ()) -> str:
    """Return the text of `sources.yml`, with the tables that features add."""
    every = [*relations(), *added]
    document = {"version": 2, "sources": [_source(name, every) for name in SOURCES]}
    dumped: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    return f"{MARK}\n{dumped}"


def _source(of: str, every: Iterable[Relation]) -> Entry:
    about = schema.SCHEMAS[of]
    if of == "snapshots":
        about += " It has no tests here: each would read every landed day."
    tables = [_table(r) for r in every if r.schema == of]
    return {"name": SOURCES[of], "description": about, "database": DATABASE, "schema": of, "tables": tables}


def relations() -> Iterator[Relation]:
    """Yield every table and view of the sources."""
    yield from schema.declared()
    types = catalog.types()
    for v in catalog.views():
        # A view's columns may have any type of DuckDB's, not only the declared types.
        listed = tuple(Column(name, types[v.name, name], meaning) for name, meaning in v.columns)  # type: ignore[arg-type]
        yield Relation("main", v.name, v.comment, listed, v.key, v.nullable)
    yield from schema.snapshots()


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
    # In history, a column that is required today may be NULL on days before the declaration.
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
