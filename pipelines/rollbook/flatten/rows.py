"""Turns decoded records into columns: one Arrow table per declared table, a few thousand records at a time.

The declarations become types, which say what a record of a set must look like and decode a whole page at once. If a
record does not fit, the page's records are read one by one, slowly (`values`): a value that can mean one thing only is
read so, any other value is refused and NULL, with a reason (G9). Whichever way a page was read, the values get one
form: texts in NFC, without HTML's references (O&#039;Brien) and blanks at the ends, a blank text as NULL, a DOUBLE to
nine digits, a zero such as 1970-01-01 as no date (G6).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache, cached_property
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import astuple

from rollbook.flatten.values import GAPPED, Node, Read, json_type, normalise, shortened
from rollbook.landing.manifest import Drift, LandedBody, Reject
from rollbook.landing.records import (
    MAX_DEPTH,
    UNREADABLE,
    Records,
    decode_page,
    id_reader,
    is_too_deep,
    readable,
    records_of,
    unescaped,
)
from rollbook.tables import SETS, TABLES, Column, Table, of_set

# Records per batch: large enough to make Arrow's fixed cost negligible, small enough to keep memory flat.
BATCH = 5_000
# Bytes of bodies per batch, in case of a few huge records.
BATCH_BYTES = 64 * 2**20
# A student's details are stored as one value; a longer value would not fit into the warehouse's memory.
DETAIL_BYTES = 4 * 2**20
# Significant digits of a stored DOUBLE: services compute rates again each night, and the last digits differ.
DIGITS = 9
# How services write a date that is not there: zero in .NET and Go; the first day and zero in SQL Server; zero in Delphi
# and Access; zero in Unix (the day before it, west of Greenwich).
NO_DATES = (date(1, 1, 1), date(1753, 1, 1), date(1900, 1, 1), date(1899, 12, 30), date(1969, 12, 31), date(1970, 1, 1))
# Characters of a refused record that are stored with the reason. The whole record is in raw/.
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

OBSERVED = pa.schema(
    [
        ("set_name", pa.string()),
        ("id", pa.int64()),
        ("state", pa.string()),
        ("table_name", pa.string()),
        ("seq", pa.int64()),
    ]
)
# The values that were refused: of which record (and entry of a list), in which table and column.
REFUSED = pa.schema(
    [
        ("id", pa.int64()),
        ("entry", pa.int64()),
        ("table_name", pa.string()),
        ("column_name", pa.string()),
        ("seq", pa.int64()),
    ]
)


def schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of one table's rows, with `seq`: the record's position among the set's landed records."""
    return pa.schema([(c.name, _ARROW[c.type]) for c in table.columns] + [("seq", pa.int64())])


@dataclass
class Batch:
    """Some landed records, flattened.

    `tables` holds the rows per table name. The table `observed` has one row per record seen, with the `state` `stated`
    or `rejected`; a further row with the state `not_stated` and a `table_name` per table that a record left unstated.
    The table `refused` has one row per refused value of the other tables.
    """

    tables: dict[str, pa.Table]
    rejects: list[Reject] = field(default_factory=list)
    drift: list[Drift] = field(default_factory=list)
    records: int = 0
    oddities: Counter[str] = field(default_factory=Counter)

    def values(self) -> dict[str, int]:
        """Return the number of values of each column, by table.column."""
        return {
            f"{name}.{column}": len(rows) - rows[column].null_count
            for name, rows in self.tables.items()
            if name in TABLES
            for column in rows.column_names
        }


def load() -> None:
    """Warm up pyarrow: its first array imports pandas, if installed, which takes half as long as all else."""
    pa.array([])


class _Objects:
    """A list of objects of one kind, read by field. A missing or null object has None in every field.

    All fields are read at once, which costs half as much as reading field by field.
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
    """Flattens one set's bodies in turn: `add` returns a batch once there are enough records, `last` the rest."""

    def __init__(self, set_name: str) -> None:
        self.set_name = set_name
        self.shape: Shape | None = None if set_name == "details" else shape(set_name)
        self.tables = of_set(set_name)
        self.seq = 0
        self.drift: Counter[tuple[str, str]] = Counter()
        self.oddities: Counter[str] = Counter()
        self._empty()

    def add(self, body: LandedBody) -> Batch | None:
        """Add the records of one body; returns a batch when enough records are collected."""
        self.size += len(body.content)
        if self.shape is None:
            self._add_details(body)
        else:
            self._add_records(body, self.shape)
        return self._batch() if self.records >= BATCH or self.size >= BATCH_BYTES else None

    def last(self) -> Batch:
        """Return the remaining records, and the drift and oddities of all bodies."""
        batch = self._batch()
        batch.drift = [Drift(self.set_name, f, t, n) for (f, t), n in sorted(self.drift.items())]
        batch.oddities = self.oddities
        return batch

    def _empty(self) -> None:
        self.records = 0
        self.size = 0
        self.rejects: list[Reject] = []
        self.rejected: list[tuple[int, int]] = []
        self.refused: list[tuple[int, int | None, int | None, str, str]] = []
        self.kept: list[Any] = []
        self.seqs: list[int] = []
        self.payloads: list[tuple[int | None, str, datetime | None]] = []

    def _add_details(self, body: LandedBody) -> None:
        """Add a student's details: the student's id, the record as JSON, and when that was received (UTC)."""
        if len(body.content) > DETAIL_BYTES:
            too_long = f"it is longer than {DETAIL_BYTES // 2**20} MB"
            self._reject(body, 1, body.sought, too_long, msgspec.Raw(body.content))
        else:
            value = msgspec.json.decode(body.content, type=dict[str, msgspec.Raw])
            payload = bytes(value.get("data", msgspec.Raw(body.content))).decode()
            received_at = body.received_at.replace(tzinfo=None) if body.received_at else None
            self.payloads.append((body.sought, payload, received_at))
            self._number(1)

    def _add_records(self, body: LandedBody, shape: Shape) -> None:
        records = self._valid_records(shape, body)
        self.kept += records
        self._number(len(records))

    def _number(self, records: int) -> None:
        """Assign the next positions to so many kept records."""
        self.seqs += range(self.seq + 1, self.seq + records + 1)
        self.seq += records
        self.records += records

    def _valid_records(self, shape: Shape, body: LandedBody) -> list[Any]:
        """Return the records of a body, with one type; rejects unreadable records."""
        if body.kind == "auth":
            envelope = msgspec.json.decode(body.content, type=dict[str, msgspec.Raw])
            return self._read_singly(shape, body, [envelope["data"]])
        if body.kind == "walk":
            page = shape.page(body.content)
            if page is not None and not self._repeats(page):
                return page
        return self._read_singly(shape, body, shape.raws(body.content, self.oddities))

    def _read_singly(self, shape: Shape, body: LandedBody, raws: list[msgspec.Raw]) -> list[Any]:
        """Read a body's records singly; rejects what cannot be read, with the reason."""
        records: list[Any] = []
        for position, raw in enumerate(raws, start=1):
            read = shape.one(raw)
            if body.sought is not None and read.id != body.sought:
                continue
            self.drift.update(read.drift)
            if read.record is None:
                self._reject(body, position, read.id, read.reason, raw)
                continue
            self.oddities.update(read.oddities)
            self.rejects += [
                Reject(self.set_name, body.page, position, kind, id=read.id, table=table, column=column)
                for table, column, kind, _ in read.refused
            ]
            place = len(self.kept) + len(records)
            self.refused += [
                (place, read.id, entry, table, column)
                for table, refused, _, entry in read.refused
                for column in _columns_of(TABLES[table], refused)
            ]
            records.append(read.record)
        return records

    def _reject(self, body: LandedBody, position: int, ident: int | None, reason: str, raw: msgspec.Raw) -> None:
        self.seq += 1
        self.records += 1
        text = shortened(bytes(raw).decode(errors="replace"), MAX_RECORD_TEXT)
        self.rejects.append(Reject(self.set_name, body.page, position, reason, text, ident))
        if ident is not None:
            self.rejected.append((ident, self.seq))

    def _repeats(self, records: list[Any]) -> bool:
        """Whether a record lists the same key twice."""
        for table in self.tables:
            if table.is_list:
                within = attrgetter(*table.key[1:])
                for rows in map(attrgetter(table.field), records):
                    if rows and len(rows) > 1 and len(set(map(within, rows))) < len(rows):
                        return True
        return False

    def _batch(self) -> Batch:
        """Return the collected records as Arrow tables, and reset."""
        seqs = pa.array(self.seqs, pa.int64())
        if self.shape is None:
            details = TABLES["student_details"]
            columns = list(zip(*self.payloads, strict=True)) or [(), (), ()]
            tables = {
                details.name: pa.table([*columns, seqs], schema=schema(details)),
                "observed": self._observed(pa.array(columns[0], pa.int64()), seqs, _Objects(())),
            }
        else:
            records = _Objects(self.kept)
            ids = pa.array(records.at(self.shape.id_path), pa.int64())
            tables = {table.name: _rows(table, records, ids, seqs) for table in self.tables}
            tables["observed"] = self._observed(ids, seqs, records)
            refused = [(*rest, self.seqs[place]) for place, *rest in self.refused]
            values = list(zip(*refused, strict=True)) or [()] * len(REFUSED)
            tables["refused"] = pa.table(values, schema=REFUSED)
        done = Batch(tables, self.rejects, records=self.records)
        self._empty()
        return done

    def _observed(self, ids: pa.Array, seqs: pa.Array, records: _Objects) -> pa.Table:
        def rows(state: str, ids: Any, seqs: Any, table: str | None = None) -> pa.Table:
            sets, *rest = (pa.repeat(pa.scalar(text, pa.string()), len(ids)) for text in (self.set_name, state, table))
            return pa.table([sets, pa.array(ids, pa.int64()), *rest, pa.array(seqs, pa.int64())], schema=OBSERVED)

        rejected_ids, rejected_seqs = zip(*self.rejected, strict=True) if self.rejected else ((), ())
        tables = [rows("stated", ids, seqs), rows("rejected", rejected_ids, rejected_seqs)]
        for table in self.tables:
            if table.may_be_unstated:
                unstated = pc.invert(_present(records.at([table.field])))
                tables.append(rows("not_stated", ids.filter(unstated), seqs.filter(unstated), table.name))
        return pa.concat_tables(tables)


def _rows(table: Table, records: _Objects, ids: pa.Array, seqs: pa.Array) -> pa.Table:
    """Return one table's rows from decoded records, whose `ids` and `seqs` are in the same order."""
    rows = records
    if table.is_list:
        lists = records.at([table.field])
        ends = accumulate((len(entries) if entries else 0 for entries in lists), initial=0)
        rows = _Objects(list(chain.from_iterable(filter(None, lists))))
        nested = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.nulls(len(rows.objects)))
        owners = pc.list_parent_indices(nested)
        ids, seqs = ids.take(owners), seqs.take(owners)
    elif table.path:
        rows = records.inner(table.field)
        if not all(rows.objects):
            present = _present(rows.objects)
            rows = _Objects(list(filter(None, rows.objects)))
            ids, seqs = ids.filter(present), seqs.filter(present)
    inherited = table.parent_key if table.path else None
    arrays = [
        ids if c.name == inherited else _in_one_form(c, pa.array(rows.at(c.path), _ARROW[c.type]))
        for c in table.columns
    ]
    return pa.table([*arrays, seqs], schema=schema(table))


def _in_one_form(column: Column, values: pa.Array) -> pa.Array:
    """Return the values in the stored form: a value that can be written in several forms would else make
    versions (G6).
    """
    if column.type == "VARCHAR":
        written = values
        if pc.any(pc.match_substring(values, "&")).as_py():
            values = pa.array([text and unescaped(text) for text in values.to_pylist()], pa.string())
        if not pc.all(pc.string_is_ascii(values)).as_py():
            values = pc.utf8_normalize(values, "NFC")
        values = pc.utf8_trim_whitespace(values)
        return pc.if_else(pc.equal(values, ""), written if column.required else None, values)
    if column.type == "DOUBLE":
        digits = pc.subtract(DIGITS - 1.0, pc.floor(pc.log10(pc.abs(values))))
        up, down = (pc.power(10.0, pc.max_element_wise(d, 0.0, skip_nulls=False)) for d in (digits, pc.negate(digits)))
        whole = pc.round(pc.divide(pc.multiply(values, up), down), round_mode="half_to_even")
        rounded = pc.multiply(pc.divide(whole, up), down)
        return pc.if_else(pc.is_finite(rounded), rounded, values)  # the largest and smallest would become infinite
    if column.type == "DATE":
        return pc.if_else(pc.is_in(values, pa.array(NO_DATES)), None, values)
    return values


def _present(objects: Sequence[Any]) -> pa.BooleanArray:
    """Return a mask of the objects that are neither missing nor null."""
    return pa.array([o is not None for o in objects], pa.bool_())


def tree(set_name: str) -> Node:
    """Return the tree of one record of a set."""
    own, *_ = of_set(set_name)
    root = Node(own.name, unkept=SETS[set_name].unkept)
    for table in of_set(set_name):
        node = root
        if table.path:
            required = not table.may_be_unstated
            node = root.child(table.field, table.name, is_list=table.is_list, required=required)
            node.key = table.key[1:]
        inherited = table.parent_key if table.path else None  # a child row's first key is the record's id
        for column in table.columns:
            if column.name != inherited:
                node.place(column)
    return root


class Shape:
    """Decodes one set: whole pages fast, or single records slowly, with the reason for a refusal."""

    def __init__(self, set_name: str) -> None:
        self.tree = tree(set_name)
        self.id_path = SETS[set_name].id_path
        self.record = self.tree.struct(set_name, strict=False)
        strict = self.tree.struct(set_name, strict=True)
        self.id_of = id_reader(self.id_path)
        self._page = msgspec.json.Decoder(_envelope(list[strict]))  # type: ignore[valid-type]
        self._raw = msgspec.json.Decoder(_envelope(Records, None))

    def page(self, content: bytes) -> list[Any] | None:
        """Decode all records of a page; None if any record does not fit the declarations exactly."""
        try:
            return self._page.decode(content).data  # type: ignore[no-any-return]
        except UNREADABLE:
            return None

    def raws(
        self, content: bytes, oddities: Counter[str] | None = None, *, in_place: bool = False
    ) -> list[msgspec.Raw]:
        """Return the records of a page, each still as JSON; counts in `oddities` a page that JSON does not allow."""
        text = readable(content, in_place=in_place)
        if oddities is not None and text != content:
            oddities["a page that JSON does not allow"] += 1
        data = decode_page(self._raw, text).data
        if oddities is not None and isinstance(data, dict):
            oddities[GAPPED] += 1
        return records_of(data) or []

    def places(self, content: bytes) -> Iterator[tuple[int | None, slice]]:
        """Yield the id of each record of a page, and where the record is among the bytes as received."""
        end, text = 0, readable(content, in_place=True)
        for record in map(bytes, self.raws(content, in_place=True)):
            start = text.find(record, end)
            end = max(end, start + len(record))
            yield self.id_of(record), slice(start, end)

    def one(self, raw: msgspec.Raw) -> Read:
        """Read one record: every value as declared, or as the only possible meaning, or refused."""
        content = bytes(raw)
        read = Read(self.id_of(content))
        if is_too_deep(content):
            return read.refuse(f"it is nested more than {MAX_DEPTH} levels deep")
        try:
            value = _decoded(content)
        except (*UNREADABLE, ValueError) as error:
            return read.refuse(f"it cannot be read: {_reason(str(error))}")
        if not isinstance(value, dict):
            return read.refuse(f"expected an object, got {json_type(value)}")
        normalise(value, self.tree, read)
        try:
            read.record = msgspec.convert(value, self.record)
        except msgspec.ValidationError as error:
            return read.refuse(_reason(str(error)))
        return read


def _decoded(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        # A number beyond all limits, which is one value: the standard library reads infinity.
        return json.loads(content, parse_int=lambda digits: int(digits) if len(digits) < 40 else math.inf)


# The shape of a set, made once.
shape = cache(Shape)


def _envelope(data: Any, *default: None) -> Any:
    return msgspec.defstruct("Envelope", [("data", data, *default)], gc=False)


def _reason(error: str) -> str:
    """Turn `Expected `int`, got `str` - at `$.summary.total`` into `summary.total: expected int, got str`."""
    problem, _, where = error.replace("`", "").partition(" - at $")
    problem = problem.replace("Invalid RFC3339 encoded date", "not a date (YYYY-MM-DD)")
    problem = problem[:1].lower() + problem[1:]
    where = where.strip().strip(".").replace("[...]", "[]")
    return f"{where}: {problem}" if where else problem


def _columns_of(table: Table, refused: str) -> list[str]:
    """The columns of a table that a refused value leaves empty: one, or those that are read from a refused object."""
    return [c.name for c in table.columns if refused in c.path[:-1]] or [refused]
