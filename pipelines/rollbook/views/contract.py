"""The data dictionary as an Open Data Contract (ODCS), for catalogs and for tools that test one.

It is about `main`: the current tables, and the views. Types, keys and what may not be NULL come from the declarations,
and so do the rules of quality: keys are unique, and percents are not negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from rollbook import __version__
from rollbook.errors import ArgumentError
from rollbook.store import schema
from rollbook.store.published import PUBLISHED
from rollbook.tables import Column, Relation
from rollbook.util.files import write as write_file
from rollbook.views import metrics
from rollbook.views.dictionary import Entry, relations

ODCS = "v3.1.0"
# The contract's words for the types; any other of DuckDB's is an object there.
LOGICAL = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "number"),
    "VARCHAR": "string",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "BOOLEAN": "boolean",
}


def write(path: Path, added: Iterable[Relation] = ()) -> None:
    """Write the contract to a file. `added` are the tables that features add. Raises ArgumentError for a folder."""
    if path.is_dir():
        raise ArgumentError(f"{path} is a folder: name a file, such as rollbook.odcs.yaml")
    write_file(path, render(added).encode(), mode=0o644)  # it holds no records


def render(added: Iterable[Relation] = ()) -> str:
    """Return the contract's text, in YAML."""
    document = {
        "apiVersion": ODCS,
        "kind": "DataContract",
        "id": "rollbook",
        "name": "Rollbook",
        "version": __version__,
        "status": "active",
        "description": {
            "purpose": "A school's students and classes as its records service has them each night.",
            "usage": f"{schema.SCHEMAS['main']} Open the file read-only; it is replaced as a whole each night.",
            "limitations": "It holds pupils' records. What the service leaves out stays as it was; see data_quality.",
        },
        "servers": [{"server": "published", "type": "duckdb", "database": PUBLISHED, "schema": "main"}],
        "schema": [_object(r) for r in (*relations(), *added) if r.schema == "main"],
        "customProperties": [
            {"property": f"metric:{m.name}", "value": {"definition": m.definition, "query": m.query}}
            for m in metrics.METRICS
        ],
    }
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110))


def _object(r: Relation) -> Entry:
    """A table or view."""
    entry: Entry = {
        "name": r.name,
        "physicalName": r.name,
        "logicalType": "object",
        "description": r.comment,
        "properties": [_property(r, c) for c in r.columns],
    }
    if rules := [*_rules(r)]:
        entry["quality"] = rules
    return entry


def _property(r: Relation, c: Column) -> Entry:
    is_key = c.name in r.key and c.name not in r.nullable
    entry: Entry = {
        "name": c.name,
        "logicalType": LOGICAL.get(c.type.partition("(")[0], "object"),
        "physicalType": c.type,
        "description": c.comment,
        "required": c.required or is_key,
    }
    if is_key and not r.nullable:
        entry |= {"primaryKey": True, "primaryKeyPosition": r.key.index(c.name) + 1}
    if r.key == (c.name,):
        entry["unique"] = True
    if c.personal:
        entry["classification"] = "restricted"
    return entry


def _rules(r: Relation) -> Iterator[Entry]:
    if len(r.key) > 1:
        keys = ", ".join(r.key)
        yield {
            "type": "sql",
            "description": f"No two rows share {keys}.",
            "query": f"SELECT COUNT(*) FROM (SELECT {keys} FROM {r.name} GROUP BY ALL HAVING COUNT(*) > 1)",
            "mustBe": 0,
        }
    for c in r.columns:
        if c.percent:
            yield {
                "type": "sql",
                "description": f"{c.name} is not negative.",
                "query": f"SELECT COUNT(*) FROM {r.name} WHERE {c.name} < 0",
                "mustBe": 0,
            }
