"""Turns decoded records into columns: one Arrow table per declared table, a few thousand records at a time.

`shapes` validates by declared types; rules that need more than one value (a class listed twice) are here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import astuple
from numpy.typing import NDArray

from pipelines.flatten.shapes import Shape, shape, shortened
from pipelines.landing.manifest import Drift, Landed, Reject
from pipelines.tables import TABLES, Table, of_set

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
    or `rejected`; a further row with the state `silent` and a `table_name` per table that a record left unstated.
    """

    tables: dict[str, pa.Table]
    rejects: list[Reject] = field(default_factory=list)
    drift: list[Drift] = field(default_factory=list)
    records: int = 0


def load() -> None:
    """Make pyarrow's first array ahead of time: it imports pandas, which takes a third of a second."""
    pa.array([])


def flatten(set_name: str, bodies: Iterable[Landed]) -> Iterator[Batch]:
    """Flatten the landed bodies of one set, in order; yields at least one batch.

    A search's result contributes only the record that was sought. A bad record raises no error: it becomes a reject.
    Contract: "Student", "Class", "Institution".
    """
    flattener = Flattener(set_name)
    for body in bodies:
        if (batch := flattener.add(body)) is not None:
            yield batch
    yield flattener.last()


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
        self._add(body)
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
        self.payloads: list[tuple[int | None, str, Any]] = []

    def _add(self, body: Landed) -> None:
        self.size += len(body.content)
        if self.shape is None:
            if len(body.content) > DETAIL_BYTES:
                too_long = f"it is longer than {DETAIL_BYTES // 2**20} MB"
                self._reject(body, 0, body.sought, too_long, msgspec.Raw(body.content))
                return
            self.payloads.append(_payload(body))
            self._number(1)
            return
        positions, records = self._valid_records(self.shape, body)
        if duplicates := self._duplicates(records):
            raws, ids = self.shape.raws(body.content), _Objects(records).at(self.shape.id_path)
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
                field, second = table.field, attrgetter(table.key[1])
                for i, rows in enumerate(map(attrgetter(field), records)):
                    if rows and len(rows) > 1 and len(set(map(second, rows))) < len(rows):
                        found[i] = f"{field}: the same {table.key[1]} twice"
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
                found.append(rows("silent", ids[unstated], seqs[unstated], table.name))
        return pa.concat_tables(found)


def _payload(body: Landed) -> tuple[int | None, str, datetime | None]:
    """Return a student's details: the student's id, the record as JSON, when it was received (UTC)."""
    value = msgspec.json.decode(body.content, type=dict[str, msgspec.Raw])
    payload = bytes(value.get("data", msgspec.Raw(body.content))).decode()
    return body.sought, payload, body.received_at.replace(tzinfo=None) if body.received_at else None


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
