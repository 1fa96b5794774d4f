"""The record of the syncs as tables: every sync, page, reject and drift, from the manifests in `raw/`.

They are published in the same file as the data they describe, and can always be rebuilt from `raw/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime
from uuid import uuid4

import duckdb
import msgspec
import pyarrow as pa

from rollbook.landing.formats import FORMAT
from rollbook.landing.manifest import Body, Drift, Manifest, Reject
from rollbook.landing.raw import RawStore
from rollbook.store.database import count, transaction
from rollbook.store.schema import DRIFT, PAGES, REFUSED_VALUES, REJECTS, SYNC_SETS, SYNCS
from rollbook.tables import Relation

Row = dict[str, object]
# The columns of ops.syncs by which a landing is recognised as recorded.
_KEY = "snapshot_date, landing, outcome, verdict"
DISCARDED = "discarded"


def record(con: duckdb.DuckDBPyConnection, raw: RawStore, *, full_refresh: bool = False) -> int:
    """Write the landings that the tables lack, or with `full_refresh` all in `raw/`. Returns how many were written.

    Rows of landings that `raw/` no longer holds stay.
    """
    recorded = set() if full_refresh else set(con.execute(f"SELECT {_KEY} FROM ops.syncs").fetchall())
    fresh = [
        (m, outcome, reason)
        for m, outcome, reason in decided(raw)
        if (m.snapshot_date, m.landing, outcome, str(m.verdict)) not in recorded
    ]
    _write(con, raw, fresh)
    return len(fresh)


def record_again(con: duckdb.DuckDBPyConnection, raw: RawStore) -> None:
    """Write what the tables say of landings again, as `raw/` has them now. A kept file learns of no later landing."""
    recorded = set(con.execute("SELECT snapshot_date, landing FROM ops.syncs").fetchall())
    _write(con, raw, [each for each in decided(raw) if (each[0].snapshot_date, each[0].landing) in recorded])


def _write(con: duckdb.DuckDBPyConnection, raw: RawStore, landings: Iterable[tuple[Manifest, str, str]]) -> None:
    with transaction(con):
        for manifest, outcome, reason in landings:
            _forget(con, manifest)
            _insert(con, SYNCS, manifest, [_sync(manifest, outcome, reason)])
            _insert(con, SYNC_SETS, manifest, _sync_sets(manifest))
            if outcome != DISCARDED:
                _insert(con, PAGES, manifest, map(_page, raw.open(manifest).pages()))
                rejects = raw.open(manifest).rejects()
                _insert(con, REJECTS, manifest, (_row(r) for r in rejects if not r.column))
                _insert(con, REFUSED_VALUES, manifest, (_refused_value(r) for r in rejects if r.column))
                _insert(con, DRIFT, manifest, map(_row, manifest.drift))


def check(raw: RawStore) -> None:
    """Read all that a full refresh records. Raises DamagedError."""
    for manifest, outcome, _ in decided(raw):
        if outcome != DISCARDED:
            list(raw.open(manifest).pages())
            raw.open(manifest).rejects()


def decided(raw: RawStore) -> list[tuple[Manifest, str, str]]:
    """The landings with a verdict, each with its outcome as in `ops.syncs` and the reason. Raises DamagedError."""
    rows = [(m, m.verdict.outcome, m.reason) for m in raw.manifests() if m.verdict]
    return rows + [(m, DISCARDED, discard.reason) for m, discard in raw.discarded()]


def stamp(con: duckdb.DuckDBPyConnection, at: datetime) -> str:
    """Give the file a new version id, published `at`; returns the id."""
    version = uuid4().hex
    con.execute("DELETE FROM spans.version")
    con.execute("INSERT INTO spans.version VALUES ($1, $2, $3)", [version, _utc(at), FORMAT])
    return version


def expire_rejects(con: duckdb.DuckDBPyConnection, before: date) -> int:
    """Remove the refused records and values of earlier days, which expire like the bodies; returns how many records."""
    con.execute("DELETE FROM ops.refused_values WHERE snapshot_date < $1", [before])
    return count(con, "DELETE FROM ops.rejects WHERE snapshot_date < $before", {"before": before})


def clean_reasons(con: duckdb.DuckDBPyConnection, cleaned: Callable[[str], str]) -> None:
    """Clean the reasons that people gave for a discard, also of days that `raw/` no longer holds."""
    given = con.execute("SELECT DISTINCT reason FROM ops.syncs WHERE outcome = $1", [DISCARDED]).fetchall()
    for (reason,) in given:
        if cleaned(reason) != reason:
            con.execute(
                "UPDATE ops.syncs SET reason = $1 WHERE outcome = $2 AND reason = $3",
                [cleaned(reason), DISCARDED, reason],
            )


def _forget(con: duckdb.DuckDBPyConnection, manifest: Manifest) -> None:
    for relation in (SYNCS, SYNC_SETS, PAGES, REJECTS, REFUSED_VALUES, DRIFT):
        con.execute(
            f"DELETE FROM ops.{relation.name} WHERE snapshot_date = $1 AND landing = $2",
            [manifest.snapshot_date, manifest.landing],
        )


def _insert(con: duckdb.DuckDBPyConnection, relation: Relation, manifest: Manifest, rows: Iterable[Row]) -> None:
    """Insert rows of one landing by column name."""
    landing: Row = {"snapshot_date": manifest.snapshot_date, "landing": manifest.landing}
    whole = [landing | row for row in rows]
    if whole:
        fresh = pa.table({c.name: [row[c.name] for row in whole] for c in relation.columns})
        con.register("fresh", fresh)
        con.execute(f"INSERT INTO {relation.schema}.{relation.name} BY NAME SELECT * FROM fresh")
        con.unregister("fresh")


def _sync(m: Manifest, outcome: str, reason: str) -> Row:
    answers = [a.answer for a in m.absences]
    return {
        "started_at": _utc(m.started_at),
        "finished_at": _utc(m.judged_at or m.finished_at),
        "outcome": outcome,
        "proven": m.proven,
        "verdict": str(m.verdict),
        "reason": reason,
        "walks": sum(w.walks for w in m.walks),
        "repeated": sum(w.repeated for w in m.walks),
        "rejected": sum(m.rejected.values()),
        "verified": len(answers),
        "found_by_search": answers.count("found_by_search"),
        "removed": answers.count("removed"),
        "unclear": answers.count("unclear"),
        "rows_added": sum(c.added for c in m.counts),
        "rows_changed": sum(c.changed for c in m.counts),
        "rows_removed": sum(c.removed for c in m.counts),
        "requests": m.requests,
        "retries": m.retries,
        "bytes_received": m.bytes_received,
        "rollbook": m.rollbook,
    }


def _sync_sets(m: Manifest) -> Iterator[Row]:
    for w in m.walks:
        answers = [a.answer for a in m.absences if a.set == w.set]
        yield {
            "set_name": w.set,
            "received": w.received - w.erased,
            "records": w.records,
            "proven": m.proof(w.set) is not None,
            "walks": w.walks,
            "repeated": w.repeated,
            "rejected": m.rejected.get(w.set, 0),
            "verified": len(answers),
            "found_by_search": answers.count("found_by_search"),
            "removed": answers.count("removed"),
            "unclear": answers.count("unclear"),
            "hidden": len(hidden := m.hidden(w.set)),
            "hidden_since": min(hidden.values(), default=None),
        }


def _page(b: Body) -> Row:
    return msgspec.structs.asdict(b) | {"set_name": b.set, "received_at": _utc(b.received_at)}


def _row(of: Reject | Drift) -> Row:
    return vars(of) | {"set_name": of.set}


def _refused_value(of: Reject) -> Row:
    return _row(of) | {"table_name": of.table, "column_name": of.column}


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)
