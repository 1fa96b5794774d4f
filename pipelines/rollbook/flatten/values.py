"""Reads the values of one record as declared, where a service writes differently (G9).

Values with only one possible meaning are read so, and counted as an oddity: `{}` as an empty list, `[]` or `false` as a
missing object, a number in quotes, the date of a timestamp, 0 as no id, "N/A" as no number. Any other value that is not
as declared is refused: the column is NULL, and the rest of the record counts. `rows` turns records into tables, and
decides which records are refused as a whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, TypeVar

import msgspec

from rollbook.landing.records import MAX_ID, MAX_NUMBER, MAX_TEXT, Id, as_integer, as_number, as_truth, values_of
from rollbook.tables import Column

_Number = TypeVar("_Number", int, float)

# Longest undeclared field name that is shown, in characters.
MAX_FIELD_NAME = 100
# An object listed twice with different values: the last counts. A finding, not a refusal.
CONFLICT = "listed twice, differently"
# The oddity of an object that stands for a list.
GAPPED = "an object with numbers for a list"

# A required text is not blank.
_REQUIRED_TEXT = Annotated[str, msgspec.Meta(max_length=MAX_TEXT, pattern=r"\S")]
_TYPES: dict[str, Any] = {
    "BIGINT": Annotated[int, msgspec.Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)],
    "DOUBLE": Annotated[float, msgspec.Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)],
    "DATE": date,
    "VARCHAR": Annotated[str, msgspec.Meta(max_length=MAX_TEXT)],
    "BOOLEAN": bool,
}
# Above 100 is extra credit: such a number is kept, and `data_quality` finds it.
_PERCENT = Annotated[float, msgspec.Meta(ge=0, le=MAX_NUMBER)]

# A date, alone or before a time of day: with the year first or, with dots, with the day first. 1/9/2025 is ambiguous.
_YEAR_FIRST, _DAY_FIRST = (
    re.compile(form + r"(?:[T ]\d\d?:\d\d.*)?", re.ASCII | re.DOTALL)
    for form in (r"(\d{4})[-/](\d\d?)[-/](\d\d?)", r"(\d\d?)\.(\d\d?)\.(\d{4})")
)
# The contract's names for 1 and 0 (a class's status).
_STATUS: Mapping[object, bool] = {"active": True, "inactive": False}
# How services write NULL in a column that holds no texts.
_NO_VALUE = frozenset({"", "-", "n/a", "na", "nan", "null", "none", "never"})


@dataclass
class Node:
    """An object of a record: the fields with values (`columns`), and the fields with objects or lists of objects.

    `table` is the table that an unreadable object belongs to; `key` are the fields that tell a list's objects apart.
    """

    table: str
    columns: dict[str, Column] = field(default_factory=dict)
    objects: dict[str, Node] = field(default_factory=dict)
    unkept: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    is_list: bool = False
    required: bool = False

    def child(self, name: str, table: str, *, is_list: bool = False, required: bool = False) -> Node:
        """Return the node of the field `name`; creates a missing node."""
        node = self.objects.setdefault(name, Node(table, is_list=is_list))
        node.required |= required
        return node

    def place(self, column: Column) -> None:
        """Add a column at the path, creating missing objects."""
        node = self
        for step in column.path[:-1]:
            node = node.child(step, self.table, required=column.required)
        node.columns[column.path[-1]] = column

    def struct(self, name: str, *, strict: bool) -> type[msgspec.Struct]:
        """Return the msgspec type of the object; if `strict`, the type refuses undeclared fields."""
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for key, column in self.columns.items():
            kind = _kind(column)
            fields.append((key, kind) if column.required else (key, kind | None, None))
        for key, node in self.objects.items():
            inner: Any = node.struct(f"{name}_{key}", strict=strict)
            inner = list[inner] if node.is_list else inner
            fields.append((key, inner) if node.required else (key, inner | None, None))
        fields.sort(key=len)  # msgspec wants required fields first
        # gc=False: records never form cycles and are freed page by page, so the collector need not track records.
        return msgspec.defstruct(name, fields, forbid_unknown_fields=strict, gc=False)


@dataclass
class Read:
    """A record as read: the `id` if readable, and the `record`, or the `reason` why it is refused.

    `refused` has the table, the column and the reason of each refused value, and within a list the key of the entry.
    `drift` counts undeclared fields by path
    and JSON type, `oddities` what was read generously, by kind.
    """

    id: int | None
    record: Any = None
    reason: str = ""
    refused: list[tuple[str, str, str, int | None]] = field(default_factory=list)
    drift: Counter[tuple[str, str]] = field(default_factory=Counter)
    oddities: Counter[str] = field(default_factory=Counter)

    def refuse(self, reason: str) -> Read:
        """Refuse the whole record."""
        self.reason = reason
        return self


class _RefusedError(ValueError):
    """A value that is not as declared, and cannot be read in one way only."""


def normalise(value: dict[str, Any], node: Node, read: Read, path: str = "") -> None:
    """Replace the values of a decoded object by values that the declarations take; count undeclared fields."""
    for key, item in value.items():
        if (column := node.columns.get(key)) is not None:
            try:
                value[key] = _value(column, item, read.oddities)
            except _RefusedError as error:
                value[key] = None
                read.refused.append((node.table, column.name, str(error), None))
        elif (child := node.objects.get(key)) is not None:
            value[key] = (_list if child.is_list else _object)(key, item, child, read, path)
        elif key not in node.unkept:
            read.drift[path + shortened(key, MAX_FIELD_NAME), json_type(item)] += 1


def _object(key: str, item: Any, node: Node, read: Read, path: str) -> dict[str, Any] | None:
    """Return the object of a field; None, which is not stated, if it cannot be read."""
    if isinstance(item, dict):
        normalise(item, node, read, f"{path}{key}.")
        return item
    if item == [] or item is False:  # PHP's answer where a query finds no row
        read.oddities["[] for an object" if item == [] else "false for an object"] += 1
    elif item is not None:
        read.refused.append((node.table, key, "not an object", None))
    return None


def _list(key: str, item: Any, node: Node, read: Read, path: str) -> list[dict[str, Any]] | None:
    """Return the list of a field, each object once; None, which is not stated, if it cannot be read."""
    if isinstance(item, dict) and (entries := values_of(item)) is not None:
        read.oddities[GAPPED if item else "{} for a list"] += 1
        item = entries
    if not isinstance(item, list):
        if item is not None:
            read.refused.append((node.table, key, "not a list", None))
        return None
    before, unique = len(read.refused), dict[tuple[Any, ...], dict[str, Any]]()
    for entry in item:
        ident: tuple[Any, ...] = (None,)
        inside = len(read.refused)
        if isinstance(entry, dict):
            normalise(entry, node, read, f"{path}{key}[].")
            ident = tuple(map(entry.get, node.key))
            read.refused[inside:] = [(*refused[:3], ident[0]) for refused in read.refused[inside:]]
        if None in ident:
            # Without the entry a membership would end: the list says nothing instead.
            del read.refused[before:]
            why = "an entry that cannot be read, so the list is not stated"
            read.refused.append((node.table, node.key[0], why, None))
            return None
        if ident in unique and unique[ident] == entry:
            read.oddities["an entry twice"] += 1
        elif ident in unique:
            read.refused.append((node.table, node.key[0], CONFLICT, None))
        unique[ident] = entry
    return list(unique.values())


def _value(column: Column, item: Any, oddities: Counter[str]) -> Any:
    """Return a value as the declarations take it. Raises _RefusedError."""
    if item is None:
        return None
    if isinstance(item, str) and column.is_text and not item.strip():
        return None
    if isinstance(item, str) and not column.is_text and (word := item.strip().lower()) in _NO_VALUE:
        oddities["a word for no value" if word else "a blank text for no value"] += 1
        return None
    if item is False and not column.is_flag and column.type != "BOOLEAN":
        oddities["false for no value"] += 1
        return None
    return _READERS[column.type](column, item, oddities)


def _number(value: _Number | None, item: Any, refusal: str, oddities: Counter[str]) -> _Number:
    if value is None:
        raise _RefusedError(refusal)
    if isinstance(item, str):
        oddities["a number in quotes"] += 1
    return value


def _integer(column: Column, item: Any, oddities: Counter[str]) -> int | None:
    if column.is_flag and as_integer(item) is None:
        word = item.strip().lower() if isinstance(item, str) else None
        if (truth := _STATUS.get(word, as_truth(item))) is not None:
            oddities["false or true for 0 or 1"] += 1
            return int(truth)
    value = _number(as_integer(item), item, "not a whole number", oddities)
    if column.id and not column.required and value == 0:
        oddities["0 for no id"] += 1
        return None
    if not (1 <= value <= MAX_ID if column.id else abs(value) <= MAX_NUMBER):
        raise _RefusedError("out of range")
    return value


def _double(column: Column, item: Any, oddities: Counter[str]) -> float:
    if column.percent and isinstance(item, str) and item.rstrip().endswith("%"):
        oddities["a percent sign"] += 1
        item = item.rstrip()[:-1]
    value = _number(as_number(item), item, "not a number", oddities)
    if not abs(value) <= MAX_NUMBER:
        raise _RefusedError("out of range")
    if column.percent and value < 0:
        raise _RefusedError("negative")
    return float(value)


def _date(column: Column, item: Any, oddities: Counter[str]) -> date | None:  # noqa: ARG001 - a reader's signature
    if isinstance(item, dict):  # PHP's DateTime, with its zone beside the date
        item = item.get("date")
    text = item.strip() if isinstance(item, str) else ""
    text = text.replace("-0001-11-30", "0000-00-00")  # as PHP writes MySQL's zero
    if (match := _YEAR_FIRST.fullmatch(text)) is not None:
        year, month, day = map(int, match.groups())
    elif (match := _DAY_FIRST.fullmatch(text)) is not None:
        day, month, year = map(int, match.groups())
    else:
        raise _RefusedError("not a date")
    if (year, month, day) == (0, 0, 0):  # MySQL's; other zeros are dates to a decoder: `rows` stores NULL, too
        oddities["0000-00-00 for no date"] += 1
        return None
    try:
        found = date(year, month, day)
    except ValueError:
        raise _RefusedError("not a date") from None
    if item != str(found):
        oddities["a timestamp for a date" if ":" in text else "another form of a date"] += 1
    return found


def _text(column: Column, item: Any, oddities: Counter[str]) -> str:  # noqa: ARG001 - a reader's signature
    if type(item) is int:
        oddities["a number for a text"] += 1
        return str(item)
    if not isinstance(item, str):
        raise _RefusedError("not a text")
    if len(item) > MAX_TEXT:
        raise _RefusedError("too long")
    return item


def _boolean(column: Column, item: Any, oddities: Counter[str]) -> bool:  # noqa: ARG001 - a reader's signature
    if type(item) is float or (truth := as_truth(item)) is None:
        raise _RefusedError("not true or false")
    if item is not truth:
        oddities["0 or 1 for false or true"] += 1
    return truth


_READERS: Mapping[str, Any] = {
    "BIGINT": _integer,
    "DOUBLE": _double,
    "DATE": _date,
    "VARCHAR": _text,
    "BOOLEAN": _boolean,
}


def _kind(column: Column) -> Any:
    """Return the type of a column's value unless null."""
    if column.id:
        return Id
    if column.type == "VARCHAR" and column.required:
        return _REQUIRED_TEXT
    return _PERCENT if column.percent else _TYPES[column.type]


def json_type(value: object) -> str:
    """Return JSON's name for the type of a decoded value."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def shortened(text: str, most: int) -> str:
    """Cut a text to `most` characters, and add an ellipsis to a longer text."""
    return text if len(text) <= most else text[:most] + "…"
