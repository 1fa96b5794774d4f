"""Turns decoded records into columns: one Arrow table per declared table, a few thousand records at a time.

The declarations become types, which say what a record of a set must look like and decode a whole page at once. If a
record does not fit, the page's records are read one by one, slowly, with a reason for each refusal. Rules that need
more than one value (a class listed twice) are checked afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache, cached_property
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import astuple
from numpy.typing import NDArray

from pipelines.landing.manifest import Drift, Landed, Reject
from pipelines.landing.records import (
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
from pipelines.tables import SETS, TABLES, Column, Table, of_set

# Records per batch: large enough to make Arrow's fixed cost negligible, small enough to keep memory flat.
BATCH = 5_000
# Bytes of bodies per batch, in case of a few huge records.
BATCH_BYTES = 64 * 2**20
# A student's details are stored as one value; a longer one would not fit into the warehouse's memory.
DETAIL_BYTES = 4 * 2**20
# Characters of a refused record that are stored with its reason. The whole record is in raw/.
MAX_RECORD_TEXT = 2**16

_ARROW: dict[str, pa.DataType] = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us"),
    "JSON": pa.string(),
}
# Ids and positions: numbers that are never NULL.
Integers = NDArray[np.int64]

OBSERVED = pa.schema(
    [
        ("set_name", pa.string()),
        ("id", pa.int64()),
        ("state", pa.string()),
        ("table_name", pa.string()),
        ("seq", pa.int64()),
    ]
)


def schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of one table's rows, with `seq`: the record's position among its set's landed records."""
    return pa.schema([(c.name, _ARROW[c.type]) for c in table.columns] + [("seq", pa.int64())])


@dataclass
class Batch:
    """Some landed records, flattened.

    `tables` holds the rows per table name. Its table `observed` has one row per record seen, with the `state` `stated`
    or `rejected`; a further row with the state `not_stated` and a `table_name` per table that a record left unstated.
    """

    tables: dict[str, pa.Table]
    rejects: list[Reject] = field(default_factory=list)
    drift: list[Drift] = field(default_factory=list)
    records: int = 0


def load() -> None:
    """Make pyarrow's first array ahead of time: it imports pandas, if installed: a third of a second."""
    pa.array([])


class _Objects:
    """A list of objects of one kind, read by field. A missing or null object has None in every field.

    All fields are read at once, which costs half as much as reading them one by one.
    """

    def __init__(self, objects: Sequence[Any]) -> None:
        self.objects = objects
        self._inner: dict[str, _Objects] = {}

    @cached_property
    def _fields(self) -> dict[str, tuple[Any, ...]]:
        first = next(filter(None, self.objects), None)
        if first is None:
            return {}
        names = first.__struct_fields__
        nothing = (None,) * len(names)
        # Most kinds are never missing; `all` checks that ten times as fast as a loop.
        rows = map(astuple, self.objects) if all(self.objects) else [astuple(o) if o else nothing for o in self.objects]
        return dict(zip(names, zip(*rows, strict=True), strict=True))

    def at(self, path: Sequence[str]) -> tuple[Any, ...]:
        """Return the values at a path, one per object."""
        field, *further = path
        if further:
            return self.inner(field).at(further)
        return self._fields.get(field) or (None,) * len(self.objects)

    def inner(self, field: str) -> _Objects:
        """Return the objects in a field."""
        if field not in self._inner:
            self._inner[field] = _Objects(self.at([field]))
        return self._inner[field]


class Flattener:
    """Flattens one set's bodies as they arrive: `add` returns a batch once it has enough records, `last` the rest."""

    def __init__(self, set_name: str) -> None:
        self.set_name = set_name
        self.shape: Shape | None = None if set_name == "details" else shape(set_name)
        self.tables = of_set(set_name)
        self.seq = 0
        self.drift: Counter[tuple[str, str]] = Counter()
        self._empty()

    def add(self, body: Landed) -> Batch | None:
        """Add the records of one body; returns a batch when enough records are collected."""
        self.size += len(body.content)
        if self.shape is None:
            self._add_details(body)
        else:
            self._add_records(body, self.shape)
        return self._batch() if self.records >= BATCH or self.size >= BATCH_BYTES else None

    def last(self) -> Batch:
        """Return the remaining records, and the drift of all bodies."""
        batch = self._batch()
        batch.drift = [Drift(self.set_name, f, t, n) for (f, t), n in sorted(self.drift.items())]
        return batch

    def _empty(self) -> None:
        self.records = 0
        self.size = 0
        self.rejects: list[Reject] = []
        self.rejected: list[tuple[int, int]] = []
        self.kept: list[Any] = []
        self.seqs: list[int] = []
        self.payloads: list[tuple[int | None, str, datetime | None]] = []

    def _add_details(self, body: Landed) -> None:
        """Add a student's details: the student's id, the record as JSON, when it was received (UTC)."""
        if len(body.content) > DETAIL_BYTES:
            too_long = f"it is longer than {DETAIL_BYTES // 2**20} MB"
            self._reject(body, 0, body.sought, too_long, msgspec.Raw(body.content))
        else:
            value = msgspec.json.decode(body.content, type=dict[str, msgspec.Raw])
            payload = bytes(value.get("data", msgspec.Raw(body.content))).decode()
            received_at = body.received_at.replace(tzinfo=None) if body.received_at else None
            self.payloads.append((body.sought, payload, received_at))
            self._number(1)

    def _add_records(self, body: Landed, shape: Shape) -> None:
        positions, records = self._valid_records(shape, body)
        if duplicates := self._duplicates(records):
            raws, ids = shape.raws(body.content), _Objects(records).at(shape.id_path)
            for i, reason in duplicates.items():
                self._reject(body, positions[i], ids[i], reason, raws[positions[i]])
            records = [record for i, record in enumerate(records) if i not in duplicates]
        self.kept += records
        self._number(len(records))

    def _number(self, records: int) -> None:
        """Assign the next positions to this many kept records."""
        self.seqs += range(self.seq + 1, self.seq + records + 1)
        self.seq += records
        self.records += records

    def _valid_records(self, shape: Shape, body: Landed) -> tuple[Sequence[int], list[Any]]:
        """Return the positions and records of a body that fit the declarations; rejects the others."""
        if body.kind == "auth":
            envelope = msgspec.json.decode(body.content, type=dict[str, msgspec.Raw])
            return self._read_singly(shape, body, [envelope["data"]])
        if body.kind == "walk" and (page := shape.page(body.content)) is not None:
            return range(len(page)), page
        return self._read_singly(shape, body, shape.raws(body.content))

    def _read_singly(self, shape: Shape, body: Landed, raws: list[msgspec.Raw]) -> tuple[Sequence[int], list[Any]]:
        """Read a body's records one by one; rejects those that do not fit the declarations, with the reason."""
        positions, records = [], []
        for position, raw in enumerate(raws):
            drift: Counter[tuple[str, str]] = Counter()
            record, found, reason = shape.one(raw, drift)
            if body.sought is not None and found != body.sought:
                continue
            self.drift.update(drift)
            if record is None:
                self._reject(body, position, found, reason, raw)
            else:
                positions.append(position)
                records.append(record)
        return positions, records

    def _reject(self, body: Landed, position: int, found: int | None, reason: str, raw: msgspec.Raw) -> None:
        self.seq += 1
        self.records += 1
        text = shortened(bytes(raw).decode(errors="replace"), MAX_RECORD_TEXT)
        self.rejects.append(Reject(self.set_name, body.page, position + 1, reason, text, found))
        if found is not None:
            self.rejected.append((found, self.seq))

    def _duplicates(self, records: list[Any]) -> dict[int, str]:
        """Return the records (by index) that list the same key twice, with the reason."""
        found = {}
        for table in self.tables:
            if table.is_list:
                field, within = table.field, table.key[1:]
                for i, rows in enumerate(map(attrgetter(field), records)):
                    if rows and len(rows) > 1 and len(set(map(attrgetter(*within), rows))) < len(rows):
                        found[i] = f"{field}: the same {' and '.join(within)} twice"
        return found

    def _batch(self) -> Batch:
        """Return the collected records as Arrow tables, and reset."""
        seqs = np.array(self.seqs, np.int64)
        if self.shape is None:
            details = TABLES["student_details"]
            columns = list(zip(*self.payloads, strict=True)) or [(), (), ()]
            tables = {
                details.name: pa.table([*columns, seqs], schema=schema(details)),
                "observed": self._observed(np.array(columns[0], np.int64), seqs, _Objects(())),
            }
        else:
            records = _Objects(self.kept)
            ids = np.array(records.at(self.shape.id_path), np.int64)
            tables = {table.name: _rows(table, records, ids, seqs) for table in self.tables}
            tables["observed"] = self._observed(ids, seqs, records)
        done = Batch(tables, self.rejects, records=self.records)
        self._empty()
        return done

    def _observed(self, ids: Integers, seqs: Integers, records: _Objects) -> pa.Table:
        def rows(state: str, ids: Any, seqs: Any, table: str | None = None) -> pa.Table:
            sets, *rest = (pa.repeat(pa.scalar(text, pa.string()), len(ids)) for text in (self.set_name, state, table))
            return pa.table([sets, pa.array(ids, pa.int64()), *rest, pa.array(seqs, pa.int64())], schema=OBSERVED)

        rejected_ids, rejected_seqs = zip(*self.rejected, strict=True) if self.rejected else ((), ())
        found = [rows("stated", ids, seqs), rows("rejected", rejected_ids, rejected_seqs)]
        for table in self.tables:
            if table.may_be_unstated:
                unstated = ~_present(records.at([table.field]))
                found.append(rows("not_stated", ids[unstated], seqs[unstated], table.name))
        return pa.concat_tables(found)


def _rows(table: Table, records: _Objects, ids: Integers, seqs: Integers) -> pa.Table:
    """Return one table's rows from decoded records, whose `ids` and `seqs` are in the same order."""
    rows = records
    if table.is_list:
        lists = records.at([table.field])
        counts = [len(found) if found else 0 for found in lists]
        rows = _Objects(list(chain.from_iterable(filter(None, lists))))
        ids, seqs = np.repeat(ids, counts), np.repeat(seqs, counts)
    elif table.path:
        rows = records.inner(table.field)
        if not all(rows.objects):
            present = _present(rows.objects)
            rows = _Objects(list(filter(None, rows.objects)))
            ids, seqs = ids[present], seqs[present]
    inherited = table.parent_key if table.path else None
    arrays = [pa.array(ids if c.name == inherited else rows.at(c.path), _ARROW[c.type]) for c in table.columns]
    return pa.table([*arrays, pa.array(seqs)], schema=schema(table))


def _present(objects: Sequence[Any]) -> NDArray[np.bool_]:
    """Return a mask of the objects that are neither missing nor null."""
    return np.array([o is not None for o in objects], np.bool_)


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
                items = item if child.is_list and isinstance(item, list) else [item]
                for inner in (i for i in items if isinstance(i, dict)):
                    self._normalise(inner, child, f"{path}{key}{'[]' if child.is_list else ''}.", drift)
            elif key not in node.unkept:
                drift[path + shortened(key, MAX_FIELD_NAME), json_type(item)] += 1


# The shape of a set, made once.
shape = cache(Shape)


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


def _reason(error: str) -> str:
    """Turn `Expected `int`, got `str` - at `$.summary.total`` into `summary.total: expected int, got str`."""
    problem, _, where = error.replace("`", "").partition(" - at $")
    problem = problem.replace("Invalid RFC3339 encoded date", "not a date (YYYY-MM-DD)")
    problem = problem[:1].lower() + problem[1:]
    where = where.strip().strip(".").replace("[...]", "[]")
    return f"{where}: {problem}" if where else problem
