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

from pipelines.store import relations, schema
from pipelines.tables import SETS, TABLES, Column, Relation, Table, owner, references
from pipelines.views import catalog, fleet, metrics, thresholds

_PAIR = re.compile(r"-- (?P<question>[^\n]+)\n(?P<sql>[^;]+;)")

_JOINS = (
    "Below, `class_id` joins `classes` means: on the column of that name there. Use LEFT JOIN where that row may be",
    "missing: a student in `history` or `changes` may have left, and a student's record may name a class that is not",
    "listed.",
)
_KEY_OF_VERSIONS = "Key: the key of the table in `main`, and `valid_from`."
_KEY_OF_SNAPSHOTS = "Key: the key of the table in `main`, and `snapshot_date`."

_TERMS = (
    "The view `calendar` shows each date's term. List the terms in `terms.csv` beside the published file, one per",
    "line; each publish reads it. It starts empty.",
    "",
    "```csv",
    "name,first_day,last_day",
    "Autumn 2026,2026-09-01,2026-12-18",
    "```",
)


_LIMITS = (
    "The thresholds of `students_to_watch` and `watch_daily`: edit `thresholds.csv` beside the published file; each",
    "publish reads it. A threshold without a line there has its default. The defaults are chosen so that a school of a",
    "few hundred students, most of them doing well, lists some tens of them:",
)


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
    """Return the text of the whole file."""
    return "\n".join(line.rstrip() for line in _lines()) + "\n"


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


def _lines() -> Iterator[str]:
    yield from _text("dictionary.md")
    yield from ("", *_text("connect.md"))
    yield from ("", *_text("privacy.md"))
    yield from ("", "## How the tables relate", "", *_JOINS, "", *_diagram())
    types = catalog.types()
    yield from ("", "## Views", "", "Views in the schema `main`: `SELECT * FROM roster`.")
    for v in catalog.views():
        keys = describe(v.name, v.key, v.nullable, [name for name, _ in v.columns])
        yield from ("", f"### {v.name}", "", v.comment, "", keys, "")
        yield from _columns((name, types[v.name, name], meaning) for name, meaning in v.columns)
    yield from ("", "## Measures", "", *_measures())
    yield from ("", "## Thresholds", "", *_thresholds())
    yield from ("", "## Terms", "", *_TERMS)
    yield from ("", "## Tables", "", schema.SCHEMAS["main"])
    for t in TABLES.values():
        yield from ("", f"### {t.name}", "", t.comment, "", describe(t.name, t.key, (), t.names), "")
        yield from _columns((c.name, c.type, c.comment) for c in t.columns)
    yield from _fixed("main")
    yield from ("", "## Macros", "", "Most are tables that take a day: `FROM students_as_of(DATE '2026-10-01')`.", "")
    yield from _table(("macro", "returns"), ((f"`{m.call}`", m.comment) for m in catalog.macros()))
    yield from ("", "## history", "", schema.SCHEMAS["history"], _KEY_OF_VERSIONS, "", *_versions(), "")
    yield from _columns((c.name, c.type, c.comment) for c in relations.VALID)
    yield from ("", "## snapshots", "", schema.SCHEMAS["snapshots"], _KEY_OF_SNAPSHOTS, "")
    yield from _snapshots()
    yield from _relation("snapshots.observed", relations.OBSERVED)
    yield from ("", "## ops", "", schema.SCHEMAS["ops"], *_fixed("ops"))
    yield from ("", "## spans", "", schema.SCHEMAS["spans"], *_fixed("spans"), "", *_span_tables(), "")
    yield from _columns((c.name, c.type, c.comment) for c in relations.SPAN)
    yield from ("", *_text("fleet.md"))
    yield from _fleet()
    yield from ("", "## Cookbook", "", "Twenty questions; replace the dates and ids with your own.")
    for number, recipe in enumerate(cookbook(), start=1):
        yield from ("", f"### {number}. {recipe.question}", "", "```sql", *recipe.sql.splitlines(), "```")


def _fleet() -> Iterator[str]:
    """Yield the tables that only the fleet's file has."""
    institutions, types = fleet.INSTITUTIONS, fleet.types()
    yield from ("", f"### {institutions.name}", "", institutions.comment, "", "Key: `institution`.", "")
    yield from _columns((c.name, c.type, c.comment) for c in institutions.columns)
    for r in fleet.rollups():
        keys = ", ".join(f"`{name}`" for name in r.key)
        yield from ("", f"### {r.name}", "", r.comment, "", f"Key: {keys}.", "")
        yield from _columns((name, types[r.name, name], meaning) for name, meaning in r.columns)


def _text(name: str) -> list[str]:
    """Return the lines of a part that is written by hand."""
    return files("pipelines.views").joinpath(name).read_text(encoding="utf-8").rstrip().splitlines()


def _diagram() -> Iterator[str]:
    """Yield the keys as a Mermaid diagram: readable as text, drawn where Markdown is rendered."""
    yield from ("```mermaid", "erDiagram")
    for table, other, column in references():
        is_about = column == table.parent_key
        yield f"    {other.name} {_line(table, is_about=is_about)} {table.name} : {column}"
    for key in relations.CHANGE_KEYS:
        yield f"    {owner(key).name} |o--o{{ {relations.CHANGES.name} : {key}"
    for t in TABLES.values():
        yield f"    {t.name} {{"
        yield from (f"        {c.type} {c.name} PK" for c in t.columns if c.name in t.key)
        yield from (f"        {c.type} {c.name}" for c in t.columns if c.id and c.name not in t.key)
        yield "    }"
    yield "```"


def _line(table: Table, *, is_about: bool) -> str:
    """Return Mermaid's line from a record's table to a table of its parts, or to one that only refers to the record."""
    if not is_about:
        return "|o--o{"
    if table.is_list:
        return "||--o{"
    return "||--||" if table.path and not table.may_be_unstated else "||--o|"


def _measures() -> Iterator[str]:
    yield "Measures that several views share are defined once. The view `metrics` has each measure's SQL and source."
    yield ""
    rows = (
        (f"`{m.name}`", f"{', '.join(m.grain)}", m.definition, f"`{m.shown_in}`" if m.shown_in else "")
        for m in metrics.METRICS
    )
    yield from _table(("measure", "one value per", "meaning", "shown in"), rows)


def _thresholds() -> Iterator[str]:
    yield from _LIMITS
    yield ""
    rows = ((f"`{t.name}`", f"{t.value:g}", t.meaning) for t in thresholds.DEFAULTS)
    yield from _table(("name", "value", "meaning"), rows)


def _fixed(of: str) -> Iterator[str]:
    """Yield the tables of a schema that do not come from a set."""
    for r in relations.KEPT:
        if r.schema == of:
            yield from _relation(r.name if of == "main" else f"{of}.{r.name}", r)


def _relation(name: str, r: Relation) -> Iterator[str]:
    yield from ("", f"### {name}", "", r.comment, "")
    if r.key:
        yield from (describe(name, r.key, r.nullable, [c.name for c in r.columns]), "")
    yield from _columns((c.name, c.type, c.comment) for c in r.columns)


def _versions() -> Iterator[str]:
    rows = ((f"`history.{t.name}`", _named(t.versioned)) for t in TABLES.values())
    yield from _table(("table", "columns, before the two below"), rows)


def _snapshots() -> Iterator[str]:
    rows = ((f"`snapshots.{t.name}`", _named(catalog.snapshot_columns(t))) for t in TABLES.values())
    yield from _table(("view", "columns"), rows)


def _span_tables() -> Iterator[str]:
    rows = ((f"`spans.{t.name}`", _named(t.versioned)) for t in TABLES.values())
    yield from _table(("table", "columns, before the three below"), rows)


def _named(columns: Iterable[Column]) -> str:
    return ", ".join(c.name for c in columns)


def _columns(columns: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    yield from _table(("column", "type", "meaning"), ((f"`{name}`", kind, meaning) for name, kind, meaning in columns))


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(headings)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"


def write(path: Path) -> None:
    """Write the dictionary to a file."""
    path.write_text(render(), encoding="utf-8")
