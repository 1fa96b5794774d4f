"""Where a row or a value comes from: the landing, the request and the record as received, and what changed it.

The published history names the landed day that first stated it, so only that day's landings are read. They are read as
the night reads them: the day's last record that states the table counts, unless a later landing states it absent (G7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from rollbook.errors import ArgumentError
from rollbook.flatten.rows import Flattener, shape
from rollbook.landing.bodies import LandingFolder, landed, name
from rollbook.landing.manifest import Body
from rollbook.landing.raw import RawStore
from rollbook.night.policy import counted
from rollbook.reading.query import run_query
from rollbook.store.published import PUBLISHED
from rollbook.store.schema import CHANGE_KEYS
from rollbook.store.statements import statements
from rollbook.tables import SETS, TABLES, Table
from rollbook.util.text import count_of, printable

sql = statements("rollbook.features.why")

MAX_CHANGES = 50

# A heading and a sentence.
Line = tuple[str, str]


@dataclass(frozen=True)
class Provenance:
    """Where a row or a value comes from, in words, and its changes up to then: rows of `main.changes`, newest first.

    `students` is how many students it is about.
    """

    lines: list[Line]
    changes: list[tuple[date, str, str | None, str | None, str | None]]
    students: int


@dataclass(frozen=True)
class Record:
    """A record as received: its body, where it begins there (in bytes), and its place in a list of records, from 1."""

    body: Body
    start: int
    content: bytes
    place: int | None = None


def key_of(text: str) -> tuple[int, ...]:
    """A row's key as people write it: 7, or 7,501. Raises ArgumentError."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(f"{printable(text)} is not a key: write an id such as 7, or two such as 7,501") from None


def trace(
    root: Path, of: str, key: tuple[int, ...], column: str | None = None, on: date | None = None, *, show: bool = False
) -> Provenance:
    """Trace a row of a current table, or one value of it, as it is or was `on` a day, to what was received.

    Without `show`, neither names nor the record are in it. Raises ArgumentError for a table, column or row that is not
    there, NothingLandedError before the first publish, and DamagedError for a landing that cannot be read.
    """
    table = TABLES.get(of)
    if table is None:
        raise ArgumentError(f"There is no table {of}: choose from {', '.join(TABLES)}")
    if column not in (None, *table.names) or len(key) != len(table.key):
        raise ArgumentError(f"The key of {of} is {','.join(table.key)}; its columns are {', '.join(table.names)}")
    raw, student = RawStore(root / "raw"), table.parent_key == SETS["students"].key
    if student and key[0] in raw.erasure_register.matcher():
        raise ArgumentError(f"Student {key[0]} was erased: neither the values nor their source are kept")
    hidden = [c.name for c in table.columns if c.personal and not show]
    held = "SELECT column_name FROM duckdb_columns() WHERE schema_name = 'history' AND table_name = $of"
    versioned = {name for (name,) in run_query(root / PUBLISHED, held, {"of": of}).rows}
    values: dict[str, Any] = {"on": on or date.max, "key": list(key)}
    untracked = column is not None and column not in versioned
    query = sql("provenance", table=table, column=column, untracked=untracked)
    rows = run_query(root / PUBLISHED, query, values).rows
    row = f"{of} {','.join(map(str, key))}"
    if not rows:
        raise ArgumentError(f"There is no row {row}{f' on {on}' if on else ''}, nor was there one before")
    since, until, is_removed, day = rows[0]
    keys = table.key if table.parent_key in CHANGE_KEYS else ()
    query = sql("changes_of", table=table, keys=keys, most=MAX_CHANGES)
    changes = run_query(root / PUBLISHED, query, values | {"hidden": hidden, "column": column}).rows
    state = f"removed on {until}" if is_removed else f"since {since}{f', until {until}' if until else ''}"
    lines = [("row", f"{row}: {state}"), *_source(raw, table, key, day, column, hidden, show=show)]
    lines += _decisions(raw, {day, *(change[0] for change in changes)})
    return Provenance(lines, changes, int(student))


def _source(
    raw: RawStore, table: Table, key: tuple[int, ...], day: date, column: str | None, hidden: list[str], *, show: bool
) -> Iterator[Line]:
    """The source of a row on a landed day: the record, or the proof of its absence; or why that is gone."""
    for manifest in reversed(counted(raw.manifests(day))):
        folder, proof = raw.open(manifest), manifest.proof(table.set)
        is_absent = key[0] in manifest.absent(table.set)
        records = _records(folder, table, key[0])
        stating = [(record, rows) for record in records if (rows := _read(table, key, record, column)) is not None]
        if not (stating or is_absent):
            continue  # refused, not stated or not read: what an earlier landing of the day stated stays
        yield "landing", f"{name(folder.path)}, {manifest.verdict} at {manifest.judged_at:%Y-%m-%d %H:%M} UTC"
        if proof is not None:
            whole = f"{proof.unique_ids:,} ids on {count_of(proof.pages, 'page')}, as total_count said"
            yield "proof", f"walk {proof.walk} was complete: {whole}"
        for record, rows in stating[:1]:
            yield from _request(record.body)
            at = f"bytes {record.start:,} to {record.start + len(record.content):,} of the body"
            yield "record", f"{at}{f', number {record.place} in it' if record.place else ''}"
            if column and rows:
                yield "value", f"{column}: {'(not shown)' if column in hidden else rows[0][column]}"
            if show:
                yield "received", record.content.decode(errors="replace")
        if not stating:
            searches = (a for a in manifest.absences if (a.set, a.id) == (table.set, key[0]))
            answers = (f"by {', '.join(a.asked_by)}: {a.answer}" for a in searches)
            yield "searched", next(answers, "not at all: too many had vanished, and a person approved of that")
            for body in folder.pages():
                if (body.kind, body.set, body.sought) == ("search", table.set, key[0]):
                    yield from _request(body)
        return
    expired = f"what was landed on {day} has expired (ROLLBOOK_KEEP_DAYS), and only the history has it"
    missing = f"raw/ has no landing of {day} that states it: `rollbook status` says what is missing"
    yield "source", expired if raw.has_expired(day) else missing


def _request(body: Body) -> Iterator[Line]:
    """A request and the body that answered it, in words."""
    page = {"walk": f"?page={body.page}", "search": f"?search=(a name)&page={body.page}"}.get(body.kind, "")
    path = SETS[body.set].endpoint.format(id=body.sought) + page
    yield "request", f"GET /svcapi/v1/{path}, answered at {body.received_at:%Y-%m-%d %H:%M:%S} UTC"
    erased = f", without {count_of(body.erased, 'erased record')}" if body.erased else ""
    frame = f"{body.length:,} bytes from {body.offset:,} on in bodies.zst"
    yield "body", f"{count_of(body.records, 'record')}{erased}, {body.size:,} bytes, SHA-256 {body.sha256}; {frame}"


def _records(folder: LandingFolder, table: Table, ident: int) -> list[Record]:
    """All places where a landing lists a record, as far as they count, the last one first."""
    records = list[Record]()
    for body, content in folder.contents(folder.counted(table.set)):
        if not SETS[table.set].walked:
            records += [Record(body, 0, content)] if body.sought in (None, ident) else []
            continue
        for place, (listed, where) in enumerate(shape(table.set).places(content), start=1):
            if listed == ident:
                records.append(Record(body, where.start, content[where], place))
    return records[::-1]


def _read(table: Table, key: tuple[int, ...], record: Record, column: str | None) -> list[dict[str, Any]] | None:
    """The row that a record states for a key, if it lists it; None if it was refused, does not state the table, or had
    the value of the `column` refused.
    """
    flattener = Flattener(table.set)
    whole = b'{"data":[%s]}' % record.content if SETS[table.set].walked else record.content
    batch = flattener.add(landed(record.body, whole)) or flattener.last()
    states = [(seen["state"], seen["table_name"]) for seen in batch.tables["observed"].to_pylist()]
    if ("stated", None) not in states or ("not_stated", table.name) in states:
        return None
    values = batch.tables["refused"].to_pylist() if "refused" in batch.tables else []
    if (table.name, column, key[-1]) in [(r["table_name"], r["column_name"], r["entry"] or key[-1]) for r in values]:
        return None
    return [row for row in batch.tables[table.name].to_pylist() if tuple(row[k] for k in table.key) == key]


def _decisions(raw: RawStore, days: Iterable[date]) -> Iterator[Line]:
    """People's decisions about these days' landings, in words."""
    for day in sorted(days):
        for m in (*raw.manifests(day), *(m for m, _ in raw.discarded(day))):
            landing = f"landing {m.landing} of {day}"
            if (a := m.approval) is not None:
                why = "; ".join(filter(None, (a.reason, f"held because {a.held}")))
                yield "approved", f"{landing}, at {a.approved_at:%Y-%m-%d %H:%M} UTC by {a.by}; {why}"
            for d in raw.discards(m):
                yield "discarded", f"{landing}, at {d.discarded_at:%Y-%m-%d %H:%M} UTC by {d.by}; {d.reason}"
                if d.undone_at is not None:
                    yield "put back", f"{landing}, at {d.undone_at:%Y-%m-%d %H:%M} UTC by {d.undone_by}"
