"""The declarations as types: what a record of a set must look like, made once from `tables.py`.

These types decode a whole page at once. If a record does not fit, the page's records are read one by one, slowly, with
a reason for each refusal; that is here too, because it walks the same tree. `rows` turns records into columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Annotated, Any

import msgspec

from pipelines.records import (
    MAX_DEPTH,
    MAX_NUMBER,
    MAX_TEXT,
    UNREADABLE,
    Id,
    as_integer,
    decode_page,
    id_reader,
    is_too_deep,
)
from pipelines.tables import SETS, Column, of_set

# Longest undeclared field name that is shown, in characters.
MAX_FIELD_NAME = 100

_TYPES: dict[str, Any] = {
    "BIGINT": Annotated[int, msgspec.Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)],
    "DOUBLE": Annotated[float, msgspec.Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)],
    "DATE": date,
    "VARCHAR": Annotated[str, msgspec.Meta(max_length=MAX_TEXT)],
    "BOOLEAN": bool,
}
_PERCENT = Annotated[float, msgspec.Meta(ge=0, le=100)]


@dataclass
class Node:
    """One object of a record: its fields with values (`columns`), and those with objects or lists of objects."""

    columns: dict[str, Column] = field(default_factory=dict)
    objects: dict[str, Node] = field(default_factory=dict)
    unkept: tuple[str, ...] = ()
    is_list: bool = False
    required: bool = False

    def child(self, name: str, *, is_list: bool = False, required: bool = False) -> Node:
        """Return the node of the field `name`; creates it if missing."""
        node = self.objects.setdefault(name, Node(is_list=is_list))
        node.required |= required
        return node

    def place(self, column: Column) -> None:
        """Add a column at its path, creating missing objects."""
        node = self
        for step in column.path[:-1]:
            node = node.child(step, required=column.required)
        node.columns[column.path[-1]] = column

    def struct(self, name: str, *, strict: bool) -> type[msgspec.Struct]:
        """Return the msgspec type of this object; if `strict`, it refuses undeclared fields."""
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for key, column in self.columns.items():
            kind = _kind(column)
            fields.append((key, kind) if column.required else (key, kind | None, None))
        for key, node in self.objects.items():
            inner: Any = node.struct(f"{name}_{key}", strict=strict)
            inner = list[inner] if node.is_list else inner
            fields.append((key, inner) if node.required else (key, inner | None, None))
        fields.sort(key=len)  # msgspec wants required fields first
        # gc=False: records never form cycles and are freed page by page, so the collector need not track them.
        return msgspec.defstruct(name, fields, forbid_unknown_fields=strict, gc=False)


def tree(set_name: str) -> Node:
    """Return the tree of one record of a set."""
    root = Node(unkept=SETS[set_name].unkept)
    for table in of_set(set_name):
        node = (
            root
            if not table.path
            else root.child(table.field, is_list=table.is_list, required=not table.may_be_unstated)
        )
        inherited = table.parent_key if table.path else None  # a child row's first key is the record's id
        for column in table.columns:
            if column.name != inherited:
                node.place(column)
    return root


class Shape:
    """Decodes one set: whole pages fast, or single records slowly, with the reason for a refusal."""

    def __init__(self, set_name: str) -> None:
        self.tree = tree(set_name)
        self.lenient = SETS[set_name].lenient
        self.id_path = SETS[set_name].id_path
        self.record = self.tree.struct(set_name, strict=False)
        strict = self.tree.struct(set_name, strict=True)
        self.id_of = id_reader(self.id_path)
        self._page = msgspec.json.Decoder(_envelope(list[strict]))  # type: ignore[valid-type]
        self._raw = msgspec.json.Decoder(_envelope(list[msgspec.Raw]))

    def page(self, content: bytes) -> list[Any] | None:
        """Decode all records of a page; None if any of them does not fit the declarations exactly."""
        try:
            return self._page.decode(content).data  # type: ignore[no-any-return]
        except UNREADABLE:
            return None

    def raws(self, content: bytes) -> list[msgspec.Raw]:
        """Return the records of a page, each still as JSON."""
        return decode_page(self._raw, content).data  # type: ignore[no-any-return]

    def one(self, raw: msgspec.Raw, drift: Counter[tuple[str, str]]) -> tuple[Any | None, int | None, str]:
        """Read one record: (the record, its id, ""), or (None, its id if readable, the reason for the refusal).

        Counts undeclared fields in `drift` by (path, JSON type).
        """
        content = bytes(raw)
        found = self.id_of(content)
        if is_too_deep(content):
            return None, found, f"it is nested more than {MAX_DEPTH} levels deep"
        try:
            value = msgspec.json.decode(content)
        except UNREADABLE as error:
            return None, found, f"it cannot be read: {_reason(str(error))}"
        if not isinstance(value, dict):
            return None, found, f"expected an object, got {json_type(value)}"
        self._normalise(value, self.tree, "", drift)
        try:
            record = msgspec.convert(value, self.record)
        except msgspec.ValidationError as error:
            return None, found, _reason(str(error))
        return record, found, ""

    def _normalise(self, value: dict[str, Any], node: Node, path: str, drift: Counter[tuple[str, str]]) -> None:
        """Turn integral floats into integers where a column is declared as one, and count undeclared fields.

        In a lenient set, an optional value that does not fit its declared type becomes None.
        """
        for key, item in value.items():
            if (column := node.columns.get(key)) is not None:
                if column.type == "BIGINT" and type(item) is float and (number := as_integer(item)) is not None:
                    value[key] = number
                if self.lenient and not column.required:
                    try:
                        msgspec.convert(value[key], _kind(column))
                    except msgspec.ValidationError:
                        value[key] = None
            elif (child := node.objects.get(key)) is not None:
                for inner in _objects(item, is_list=child.is_list):
                    self._normalise(inner, child, f"{path}{key}{'[]' if child.is_list else ''}.", drift)
            elif key not in node.unkept:
                drift[path + shortened(key, MAX_FIELD_NAME), json_type(item)] += 1


@cache
def shape(set_name: str) -> Shape:
    """Return the shape of a set, made once."""
    return Shape(set_name)


def drift_of_student(record: bytes) -> Counter[tuple[str, str]]:
    """Count the undeclared fields of one student's record, by path and JSON type."""
    drift: Counter[tuple[str, str]] = Counter()
    shape("students").one(msgspec.Raw(record), drift)
    return drift


def json_type(value: object) -> str:
    """Return JSON's name for the type of a decoded value."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def shortened(text: str, most: int) -> str:
    """Cut a text to `most` characters, and add an ellipsis if it was longer."""
    return text if len(text) <= most else text[:most] + "…"


def _envelope(data: Any) -> Any:
    return msgspec.defstruct("Envelope", [("data", data)], gc=False)


def _kind(column: Column) -> Any:
    """Return the type of a column's value if it is not null."""
    return Id if column.id else _PERCENT if column.percent else _TYPES[column.type]


def _objects(item: object, *, is_list: bool) -> Iterable[dict[str, Any]]:
    items = item if is_list and isinstance(item, list) else [item]
    return (i for i in items if isinstance(i, dict))


def _reason(error: str) -> str:
    """Turn `Expected `int`, got `str` - at `$.summary.total`` into `summary.total: expected int, got str`."""
    problem, _, where = error.replace("`", "").partition(" - at $")
    problem = problem.replace("Invalid RFC3339 encoded date", "not a date (YYYY-MM-DD)")
    problem = problem[:1].lower() + problem[1:]
    where = where.strip().strip(".").replace("[...]", "[]")
    return f"{where}: {problem}" if where else problem
