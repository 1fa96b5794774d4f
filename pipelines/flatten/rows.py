"""Decoded records become columns: one Arrow table per declared table, a few thousand records at a time.

Validation by declared types is in `shapes`; the rules that need more than one value (a class listed twice) are here.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
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

# Records per batch: large enough that Arrow's own cost vanishes, small enough to stay flat in memory.
BATCH = 5_000
# And bytes of their bodies, where a few records are as long as thousands.
BATCH_BYTES = 64 * 2**20
# A single student's record is kept whole, as one value; a longer one is more than the warehouse can hold in memory.
DETAIL_BYTES = 4 * 2**20
# Characters of a refused record that are kept with its reason. The whole is in raw/.
RECORD_MOST = 2**16

_ARROW: dict[str, pa.DataType] = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us"),
    "JSON": pa.string(),
}
# Ids and places: numbers that are never NULL.
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
    """The Arrow schema of one table's rows, with `seq`: the position of the record among those landed of its set."""
    return pa.schema([(c.name, _ARROW[c.type]) for c in table.columns] + [("seq", pa.int64())])


@dataclass
class Batch:
    """Some landed records, flattened.

    `tables` holds the rows per table name, and under `observed` one row per record seen: its `state` is `stated` or
    `rejected`; a row with a `table_name` and the state `silent` says that a stated record was silent about it.
    """

    tables: dict[str, pa.Table]
    rejects: list[Reject] = field(default_factory=list)
    drift: list[Drift] = field(default_factory=list)
    records: int = 0


def load() -> None:
    """Load what making columns needs: pyarrow loads pandas for its first array, which takes a third of a second."""
    pa.array([])


def flatten(set_name: str, bodies: Iterable[Landed]) -> Iterator[Batch]:
    """Flatten the landed bodies of one set, in order, batch by batch.

    From a search's result only the record that was sought is taken. Raises nothing for a bad record: it becomes a
    reject. Contract: "Student", "Class", "Institution".
    """
    columns = _Columns(set_name)
    with _no_collector():
        for body in bodies:
            columns.take(body)
            if columns.records >= BATCH or columns.size >= BATCH_BYTES:
                yield columns.batch()
        yield columns.batch(last=True)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the garbage collector from looking at millions of values that are never part of a cycle (a third faster)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Objects:
    """Objects of one kind, field by field. One that is missing or null has a null in every field.

    All fields are taken in one go, which costs half of asking each object for one after the other.
    """

    def __init__(self, objects: Sequence[Any]) -> None:
        self.objects = objects
        self._inner: dict[str, _Objects] = {}

    @cached_property
    def _fields(self) -> dict[str, tuple[Any, ...]]:
        there = next(filter(None, self.objects), None)
        if there is None:
            return {}
        names = there.__struct_fields__
        nothing = (None,) * len(names)
        # Most objects are always there; `all` knows that ten times as fast as a look at each.
        rows = map(astuple, self.objects) if all(self.objects) else [astuple(o) if o else nothing for o in self.objects]
        return dict(zip(names, zip(*rows, strict=True), strict=True))

    def at(self, path: Sequence[str]) -> tuple[Any, ...]:
        """The values that a path leads to, one an object."""
        field, *further = path
        if further:
            return self.inner(field).at(further)
        return self._fields.get(field) or (None,) * len(self.objects)

    def inner(self, field: str) -> _Objects:
        """The objects that a field holds."""
        if field not in self._inner:
            self._inner[field] = _Objects(self.at([field]))
        return self._inner[field]


class _Columns:
    """The records of one set, gathered until there are enough for a batch."""

    def __init__(self, set_name: str) -> None:
        self.set_name = set_name
        self.shape: Shape | None = None if set_name == "details" else shape(set_name)
        self.tables = of_set(set_name)
        self.seq = 0
        self.drift: Counter[tuple[str, str]] = Counter()
        self._empty()

    def _empty(self) -> None:
        self.records = 0
        self.size = 0
        self.rejects: list[Reject] = []
        self.rejected: list[tuple[int, int]] = []
        self.kept: list[Any] = []
        self.seqs: list[int] = []
        self.payloads: list[tuple[int | None, str, Any]] = []

    def take(self, body: Landed) -> None:
        """Take the records of one body."""
        self.size += len(body.content)
        if self.shape is None:
            if len(body.content) > DETAIL_BYTES:
                too_long = f"it is longer than {DETAIL_BYTES // 2**20} MB"
                self._reject(body, 0, body.sought, too_long, msgspec.Raw(body.content))
                return
            self.payloads.append(_payload(body))
            self._number(1)
            return
        positions, records = self._fitting(self.shape, body)
        if doubled := self._doubled(records):
            raws, ids = self.shape.raws(body.content), _Objects(records).at(self.shape.id_path)
            for i, reason in doubled.items():
                self._reject(body, positions[i], ids[i], reason, raws[positions[i]])
            records = [record for i, record in enumerate(records) if i not in doubled]
        self.kept += records
        self._number(len(records))

    def _number(self, records: int) -> None:
        """Give so many kept records their places."""
        self.seqs += range(self.seq + 1, self.seq + records + 1)
        self.seq += records
        self.records += records

    def _fitting(self, shape: Shape, body: Landed) -> tuple[Sequence[int], list[Any]]:
        """The records of a body that are as declared, and where in it they stand; the others are set aside."""
        if body.kind == "auth":
            envelope = msgspec.json.decode(body.content, type=dict[str, msgspec.Raw])
            return self._slowly(shape, body, [envelope["data"]])
        if body.kind == "walk" and (page := shape.page(body.content)) is not None:
            return range(len(page)), page
        return self._slowly(shape, body, shape.raws(body.content))

    def _slowly(self, shape: Shape, body: Landed, raws: list[msgspec.Raw]) -> tuple[Sequence[int], list[Any]]:
        """Read a body's records one by one; the refused are set aside with their reason."""
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
        text = shortened(bytes(raw).decode(errors="replace"), RECORD_MOST)
        self.rejects.append(Reject(self.set_name, body.page, position + 1, reason, text, found))
        if found is not None:
            self.rejected.append((found, self.seq))

    def _doubled(self, records: list[Any]) -> dict[int, str]:
        """The records (by index) that list the same key twice, with the reason."""
        found = {}
        for table in self.tables:
            if table.is_list:
                field, second = table.field, attrgetter(table.key[1])
                for i, rows in enumerate(map(attrgetter(field), records)):
                    if rows and len(rows) > 1 and len(set(map(second, rows))) < len(rows):
                        found[i] = f"{field}: the same {table.key[1]} twice"
        return found

    def batch(self, *, last: bool = False) -> Batch:
        """What was gathered, as columns; then start anew. The drift comes with the last batch."""
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
        drift = [Drift(self.set_name, f, t, n) for (f, t), n in sorted(self.drift.items())] if last else []
        done = Batch(tables, self.rejects, drift, self.records)
        self._empty()
        return done

    def _observed(self, ids: Integers, seqs: Integers, records: _Objects) -> pa.Table:
        def rows(state: str, ids: Any, seqs: Any, about: str | None = None) -> pa.Table:
            of, *what = (pa.repeat(pa.scalar(word, pa.string()), len(ids)) for word in (self.set_name, state, about))
            return pa.table([of, pa.array(ids, pa.int64()), *what, pa.array(seqs, pa.int64())], schema=OBSERVED)

        refused, at = zip(*self.rejected, strict=True) if self.rejected else ((), ())
        found = [rows("stated", ids, seqs), rows("rejected", refused, at)]
        for table in self.tables:
            if table.may_be_unstated:
                silent = ~_there(records.at([table.field]))
                found.append(rows("silent", ids[silent], seqs[silent], table.name))
        return pa.concat_tables(found)


def _payload(body: Landed) -> tuple[int | None, str, datetime | None]:
    """A student's detail as it came: whose it is, the record as JSON, when it was received (UTC)."""
    value = msgspec.json.decode(body.content, type=dict[str, msgspec.Raw])
    payload = bytes(value.get("data", msgspec.Raw(body.content))).decode()
    return body.sought, payload, body.received_at.replace(tzinfo=None) if body.received_at else None


def _rows(table: Table, records: _Objects, ids: Integers, seqs: Integers) -> pa.Table:
    """One table's rows out of decoded records; `ids` and `seqs` are theirs, in the same order."""
    rows = records
    if table.is_list:
        lists = records.at([table.field])
        counts = [len(found) if found else 0 for found in lists]
        rows = _Objects(list(chain.from_iterable(filter(None, lists))))
        ids, seqs = np.repeat(ids, counts), np.repeat(seqs, counts)
    elif table.path:
        rows = records.inner(table.field)
        if not all(rows.objects):
            there = _there(rows.objects)
            rows = _Objects(list(filter(None, rows.objects)))
            ids, seqs = ids[there], seqs[there]
    inherited = table.parent_key if table.path else None
    arrays = [pa.array(ids if c.name == inherited else rows.at(c.path), _ARROW[c.type]) for c in table.columns]
    return pa.table([*arrays, pa.array(seqs)], schema=schema(table))


def _there(objects: Sequence[Any]) -> NDArray[np.bool_]:
    """Which of the objects are neither missing nor null."""
    return np.array([o is not None for o in objects], np.bool_)
