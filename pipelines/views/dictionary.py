"""The data dictionary, `warehouse/README.md`: what is in the published file, generated from the declarations.

Each table, view, macro and column is described by its COMMENT in the file. The cookbook's questions are in
`cookbook.sql`. `rollbook docs` writes the dictionary; a test fails when it is stale.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from pipelines.store import relations, schema
from pipelines.tables import SETS, TABLES, Relation, Table, owner, references
from pipelines.views import catalog, fleet, metrics, thresholds

_PAIR = re.compile(r"-- (?P<question>[^\n]+)\n(?P<sql>[^;]+;)")


@dataclass(frozen=True)
class Recipe:
    """A question that analysts ask, and the SQL that answers it."""

    question: str
    sql: str


def cookbook() -> tuple[Recipe, ...]:
    """Return the cookbook's questions, in order."""
    text = files("pipelines.views").joinpath("cookbook.sql").read_text(encoding="utf-8")
    _, _, body = text.partition("\n\n")
    return tuple(Recipe(m["question"], m["sql"]) for m in _PAIR.finditer(body))


def render() -> str:
    """Return the text of the whole file, from its template."""
    place = files("pipelines.views")

    def text(name: str) -> str:
        """A part that is written by hand."""
        return place.joinpath(name).read_text(encoding="utf-8").rstrip()

    values: dict[str, object] = {
        "text": text,
        "describe": describe,
        "of": lambda columns: [(f"`{c.name}`", c.type, c.comment) for c in columns],
        "typed": lambda view, types: [(f"`{name}`", types[view.name, name], meaning) for name, meaning in view.columns],
        "listed": _listed,
        "kept": lambda of: [
            (r.name if of == "main" else f"{of}.{r.name}", r) for r in relations.KEPT if r.schema == of
        ],
        "references": list(_references()),
        "tables": TABLES.values(),
        "views": catalog.views(),
        "types": catalog.types(),
        "measures": [
            (f"`{m.name}`", ", ".join(m.grain), m.definition, f"`{m.shown_in}`" if m.shown_in else "")
            for m in metrics.METRICS
        ],
        "thresholds": [(f"`{t.name}`", f"{t.value:g}", t.meaning) for t in thresholds.DEFAULTS],
        "schemas": schema.SCHEMAS,
        "macros": [(f"`{m.call}`", m.comment) for m in catalog.macros()],
        "valid": relations.VALID,
        "span": relations.SPAN,
        "observed": relations.OBSERVED,
        "institutions": fleet.INSTITUTIONS,
        "rollups": fleet.rollups(),
        "rollup_types": fleet.types(),
        "cookbook": cookbook(),
    }
    made = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)  # noqa: S701 - it is Markdown
    written = made.from_string(text("dictionary.md.jinja")).render(values)
    return "\n".join(line.rstrip() for line in written.splitlines()) + "\n"


def describe(name: str, key: Collection[str], nullable: Collection[str], columns: Iterable[str]) -> str:
    """Return a table's key, and which of its columns join which table or view; empty without a key.

    Columns join by name: the table of the set whose key it is, or the view with this column as its whole key.
    """
    if not key:
        return ""
    targets = {v.key[0]: v.name for v in reversed(catalog.views()) if len(v.key) == 1 and v.key[0].endswith("_id")}
    targets |= {s.key: owner(s.key).name for s in SETS.values()}
    parts = ", ".join(f"`{k}` (may be NULL)" if k in nullable else f"`{k}`" for k in key)
    joined = "; ".join(f"`{c}` joins `{targets[c]}`" for c in columns if targets.get(c, name) != name)
    return f"Key: {parts}." + (f" {joined}." if joined else "")


def _listed(of: str) -> list[tuple[str, str]]:
    """The tables of a schema that has one for each table, with their columns."""
    columns = catalog.snapshot_columns if of == "snapshots" else lambda table: table.versioned
    return [(f"`{of}.{t.name}`", ", ".join(c.name for c in columns(t))) for t in TABLES.values()]


def _kept(of: str) -> list[tuple[str, Relation]]:
    """The tables of a schema that do not come from a set, by name."""
    return [(r.name if of == "main" else f"{of}.{r.name}", r) for r in relations.KEPT if r.schema == of]


def _references() -> Iterator[str]:
    """Yield the lines between the tables of a Mermaid diagram."""
    for table, other, column in references():
        yield f"{other.name} {_line(table, is_about=column == table.parent_key)} {table.name} : {column}"
    for key in relations.CHANGE_KEYS:
        yield f"{owner(key).name} |o--o{{ {relations.CHANGES.name} : {key}"


def _line(table: Table, *, is_about: bool) -> str:
    """Return Mermaid's line from a record's table to a table of its parts, or to one that only refers to the record."""
    if not is_about:
        return "|o--o{"
    if table.is_list:
        return "||--o{"
    return "||--||" if table.path and not table.may_be_unstated else "||--o|"


def write(path: Path) -> None:
    """Write the dictionary to a file."""
    path.write_text(render(), encoding="utf-8")
