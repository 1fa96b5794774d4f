"""Decoded records become columns: one Arrow table per declared table, a few thousand records at a time.

Validation by declared types is in `shapes`; the rules that need more than one value (a class listed twice) are here.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, compress
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from pipelines.flatten.shapes import Shape, shape
from pipelines.landing import Drift, Landed, Reject
from pipelines.tables import TABLES, Column, Table, of_set

# Records per batch: large enough that Arrow's own cost vanishes, small enough to stay flat in memory.
BATCH = 5_000

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


def flatten(set_name: str, bodies: Iterable[Landed]) -> Iterator[Batch]:
    """Flatten the landed bodies of one set, in order, batch by batch.

    From a search's result only the record that was sought is taken. Raises nothing for a bad record: it becomes a
    reject. Contract: "Student", "Class", "Institution".
    """
    columns = _Columns(set_name)
    with _no_collector():
        for body in bodies:
            columns.take(body)
            if columns.records >= BATCH:
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
        self.rejects: list[Reject] = []
        self.rejected: list[tuple[int, int]] = []
        self.kept: list[Any] = []
        self.seqs: list[int] = []
        self.payloads: list[tuple[int | None, str, Any]] = []

    def take(self, body: Landed) -> None:
        """Take the records of one body."""
        if self.shape is None:
            self._take_detail(body)
            return
        if body.kind == "auth":
            envelope = msgspec.json.decode(body.content, type=dict[str, msgspec.Raw])
            body_records = self._slowly(self.shape, body, [envelope["data"]])
        elif body.kind == "walk" and (page := self.shape.page(body.content)) is not None:
            body_records = list(enumerate(page))
        else:
            body_records = self._slowly(self.shape, body, self.shape.raws(body.content))
        doubled = self._doubled([record for _, record in body_records])
        for position, record in body_records:
            self.seq += 1
            if doubled and (reason := doubled.get(id(record))):
                raw = self.shape.raws(body.content)[position]
                self._reject(body, position, attrgetter(".".join(self.shape.id_path))(record), reason, raw)
            else:
                self.kept.append(record)
                self.seqs.append(self.seq)
        self.records += len(body_records)

    def _slowly(self, shape: Shape, body: Landed, raws: list[msgspec.Raw]) -> list[tuple[int, Any]]:
        """Read a body's records one by one; the refused are set aside with their reason."""
        fit = []
        for position, raw in enumerate(raws):
            drift: Counter[tuple[str, str]] = Counter()
            record, found, reason = shape.one(raw, drift)
            if body.sought is not None and found != body.sought:
                continue
            self.drift.update(drift)
            if record is None:
                self._reject(body, position, found, reason, raw)
            else:
                fit.append((position, record))
        return fit

    def _reject(self, body: Landed, position: int, found: int | None, reason: str, raw: msgspec.Raw) -> None:
        self.seq += 1
        self.records += 1
        text = bytes(raw).decode(errors="replace")
        self.rejects.append(Reject(self.set_name, body.page, position + 1, reason, text, found))
        if found is not None:
            self.rejected.append((found, self.seq))

    def _take_detail(self, body: Landed) -> None:
        value = msgspec.json.decode(body.content, type=dict[str, msgspec.Raw])
        payload = bytes(value.get("data", msgspec.Raw(body.content))).decode()
        fetched_at = body.received_at.replace(tzinfo=None) if body.received_at else None
        self.seq += 1
        self.records += 1
        self.payloads.append((body.sought, payload, fetched_at))
        self.seqs.append(self.seq)

    def _doubled(self, records: list[Any]) -> dict[int, str]:
        """The records (by identity) that list the same key twice, with the reason."""
        found = {}
        for table in self.tables:
            if table.is_list:
                field, second = table.path.removesuffix("[]"), attrgetter(table.key[1])
                for record in records:
                    rows = getattr(record, field)
                    if rows and len(rows) > 1 and len(set(map(second, rows))) < len(rows):
                        found[id(record)] = f"{field}: the same {table.key[1]} twice"
        return found

    def batch(self, *, last: bool = False) -> Batch:
        """What was gathered, as columns; then start anew. The drift comes with the last batch."""
        tables = {"observed": self._observed()}
        if self.shape is None:
            details = TABLES["student_details"]
            columns = [list(c) for c in zip(*self.payloads, strict=True)] or [[], [], []]
            tables[details.name] = pa.table([*columns, self.seqs], schema=schema(details))
        else:
            ids = self._ids()
            for table in self.tables:
                tables[table.name] = _rows(table, self.kept, ids, self.seqs)
        drift = [Drift(self.set_name, f, t, n) for (f, t), n in sorted(self.drift.items())] if last else []
        done = Batch(tables, self.rejects, drift, self.records)
        self._empty()
        return done

    def _ids(self) -> list[Any]:
        if self.shape is None:
            return [payload[0] for payload in self.payloads]
        return list(map(attrgetter(".".join(self.shape.id_path)), self.kept))

    def _observed(self) -> pa.Table:
        ids = self._ids()
        rows: list[tuple[int, str, str | None, int]] = []
        rows += [(i, "rejected", None, seq) for i, seq in self.rejected]
        for table in self.tables:
            if table.silent:
                said = map(attrgetter(table.path.removesuffix("[]")), self.kept)
                rows += [
                    (i, "silent", table.name, seq) for i, seq, s in zip(ids, self.seqs, said, strict=True) if s is None
                ]
        other = [list(c) for c in zip(*rows, strict=True)] or [[], [], [], []]
        n = len(ids)
        return pa.table(
            [
                pa.array([self.set_name] * (n + len(rows)), pa.string()),
                pa.array(ids + other[0], pa.int64()),
                pa.array(["stated"] * n + other[1], pa.string()),
                pa.array([None] * n + other[2], pa.string()),
                pa.array(self.seqs + other[3], pa.int64()),
            ],
            schema=OBSERVED,
        )


def _rows(table: Table, records: list[Any], ids: Any, seqs: Any) -> pa.Table:
    """One table's rows out of decoded records; `ids` and `seqs` are theirs, in the same order."""
    if table.path:
        found = list(map(attrgetter(table.path.removesuffix("[]")), records))
        if table.is_list:
            counts = [len(rows) if rows else 0 for rows in found]
            records = list(chain.from_iterable(filter(None, found)))
            ids, seqs = np.repeat(ids, counts), np.repeat(seqs, counts)
        elif not all(found):
            there = [o is not None for o in found]
            ids, seqs, records = (list(compress(values, there)) for values in (ids, seqs, found))
        else:
            records = found
    inherited = table.parent_key if table.path else None
    arrays = [pa.array(ids if c.name == inherited else _values(c, records), _ARROW[c.type]) for c in table.columns]
    return pa.table([*arrays, pa.array(seqs, pa.int64())], schema=schema(table))


def _values(column: Column, records: list[Any]) -> list[Any]:
    """One column's values; an object on the way that is missing or null makes the value NULL."""
    values = list(map(attrgetter(column.path[0]), records))
    for step in column.path[1:]:
        get = attrgetter(step)
        # Most objects are always there; `all` knows that ten times as fast as a look at each.
        values = list(map(get, values)) if all(values) else [None if o is None else get(o) for o in values]
    return values
