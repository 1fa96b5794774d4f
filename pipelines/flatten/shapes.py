"""The declarations as types: what a record of a set must look like, made once from `tables.py`.

A page is decoded by these types in one go. A record that does not fit is looked at alone, slowly and in words; that
is here too, because it walks the same tree. Turning records into columns is not: see `rows`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Annotated, Any

import msgspec

from pipelines.records import MAX_ID, NESTED_MOST, TEXT_MOST, UNREADABLE, Id, id_reader, is_nested, split, whole
from pipelines.tables import SETS, Column, of_set

# Characters of an unknown field's name that are told.
FIELD_MOST = 100

_TYPES: dict[str, Any] = {
    "BIGINT": Annotated[int, msgspec.Meta(ge=-(2**63), le=MAX_ID)],
    "DOUBLE": float,
    "DATE": date,
    "VARCHAR": Annotated[str, msgspec.Meta(max_length=TEXT_MOST)],
    "BOOLEAN": bool,
}
_PERCENT = Annotated[float, msgspec.Meta(ge=0, le=100)]


@dataclass
class Node:
    """One object of a record: its fields that hold values, and those that hold objects or lists of them."""

    columns: dict[str, Column] = field(default_factory=dict)
    objects: dict[str, Node] = field(default_factory=dict)
    unkept: tuple[str, ...] = ()
    is_list: bool = False
    required: bool = False

    def below(self, name: str, *, is_list: bool = False, required: bool = False) -> Node:
        """The node of the field `name`, made when it is not there yet."""
        node = self.objects.setdefault(name, Node(is_list=is_list))
        node.required |= required
        return node

    def place(self, column: Column) -> None:
        """Put a column where its path leads, making the objects on the way."""
        node = self
        for step in column.path[:-1]:
            node = node.below(step, required=column.required)
        node.columns[column.path[-1]] = column

    def struct(self, name: str, *, strict: bool) -> type[msgspec.Struct]:
        """The msgspec type of this object; a `strict` one refuses fields that are not declared."""
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for key, column in self.columns.items():
            kind = _kind(column)
            fields.append((key, kind) if column.required else (key, kind | None, None))
        for key, node in self.objects.items():
            inner: Any = node.struct(f"{name}_{key}", strict=strict)
            inner = list[inner] if node.is_list else inner
            fields.append((key, inner) if node.required else (key, inner | None, None))
        fields.sort(key=len)  # msgspec wants the required ones first
        # gc=False: records are dropped by the page and never part of a cycle, so the collector need not look at them.
        return msgspec.defstruct(name, fields, forbid_unknown_fields=strict, gc=False)


def tree(set_name: str) -> Node:
    """The shape of one record of a set."""
    root = Node(unkept=SETS[set_name].unkept)
    for table in of_set(set_name):
        node = (
            root
            if not table.path
            else root.below(table.field, is_list=table.is_list, required=not table.may_be_unstated)
        )
        inherited = table.parent_key if table.path else None  # a child row's first key is the record's id
        for column in table.columns:
            if column.name != inherited:
                node.place(column)
    return root


class Shape:
    """All that decoding one set needs: the fast types for a page, and the slow reading of one record."""

    def __init__(self, set_name: str) -> None:
        self.tree = tree(set_name)
        self.lenient = SETS[set_name].lenient
        self.id_path = tuple(SETS[set_name].id_field.split("."))
        self.record = self.tree.struct(set_name, strict=False)
        strict = self.tree.struct(set_name, strict=True)
        self.id_of = id_reader(self.id_path)
        self._page = msgspec.json.Decoder(_envelope(list[strict]))  # type: ignore[valid-type]
        self._raw = msgspec.json.Decoder(_envelope(list[msgspec.Raw]))

    def page(self, content: bytes) -> list[Any] | None:
        """All records of a page, or None when one of them does not fit exactly as declared."""
        try:
            return self._page.decode(content).data  # type: ignore[no-any-return]
        except UNREADABLE:
            return None

    def raws(self, content: bytes) -> list[msgspec.Raw]:
        """The records of a page, each still as JSON."""
        return split(self._raw, content).data  # type: ignore[no-any-return]

    def one(self, raw: msgspec.Raw, drift: Counter[tuple[str, str]]) -> tuple[Any | None, int | None, str]:
        """Read one record: (the record, its id, ""), or (None, its id if readable, what is wrong in words).

        Fields that are not declared are counted in `drift` by (path, JSON type).
        """
        content = bytes(raw)
        found = self.id_of(content)
        if is_nested(content):
            return None, found, f"it is nested more than {NESTED_MOST} levels deep"
        try:
            value = msgspec.json.decode(content)
        except UNREADABLE as error:
            return None, found, f"it cannot be read: {_in_words(str(error))}"
        if not isinstance(value, dict):
            return None, found, f"expected an object, got {json_type(value)}"
        _settle(value, self.tree, "", drift)
        if self.lenient:
            _forgive(value, self.tree)
        try:
            record = msgspec.convert(value, self.record)
        except msgspec.ValidationError as error:
            return None, found, _in_words(str(error))
        return record, found, ""


@cache
def shape(set_name: str) -> Shape:
    """The shape of one set, made once."""
    return Shape(set_name)


def json_type(value: object) -> str:
    """What JSON calls the type of a decoded value."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def shortened(text: str, most: int) -> str:
    """A text as it is shown: so many characters, and a sign that there were more."""
    return text if len(text) <= most else text[:most] + "…"


def _envelope(data: Any) -> Any:
    return msgspec.defstruct("Envelope", [("data", data)], gc=False)


def _settle(value: dict[str, Any], node: Node, path: str, drift: Counter[tuple[str, str]]) -> None:
    """Make integral floats the integers they are, where one is declared, and count what is not declared."""
    for key, item in value.items():
        column = node.columns.get(key)
        if column is not None:
            if column.type == "BIGINT" and type(item) is float and (number := whole(item)) is not None:
                value[key] = number
        elif (below := node.objects.get(key)) is not None:
            for inner in _objects(item, is_list=below.is_list):
                _settle(inner, below, f"{path}{key}{'[]' if below.is_list else ''}.", drift)
        elif key not in node.unkept:
            drift[path + shortened(key, FIELD_MOST), json_type(item)] += 1


def _forgive(value: dict[str, Any], node: Node) -> None:
    """Make NULL of whatever is not as declared and need not be there."""
    for key, item in value.items():
        column, below = node.columns.get(key), node.objects.get(key)
        if column is not None and not column.required:
            try:
                msgspec.convert(item, _kind(column))
            except msgspec.ValidationError:
                value[key] = None
        elif below is not None and isinstance(item, dict):
            _forgive(item, below)


def _kind(column: Column) -> Any:
    """The type of a column's value, where there is one."""
    return Id if column.id else _PERCENT if column.percent else _TYPES[column.type]


def _objects(item: object, *, is_list: bool) -> Iterable[dict[str, Any]]:
    items = item if is_list and isinstance(item, list) else [item]
    return (i for i in items if isinstance(i, dict))


def _in_words(error: str) -> str:
    """`Expected `int`, got `str` - at `$.summary.total`` becomes `summary.total: expected int, got str`."""
    problem, _, where = error.replace("`", "").partition(" - at $")
    problem = problem.replace("Invalid RFC3339 encoded date", "not a date (YYYY-MM-DD)")
    problem = problem[:1].lower() + problem[1:]
    where = where.strip().strip(".").replace("[...]", "[]")
    return f"{where}: {problem}" if where else problem
