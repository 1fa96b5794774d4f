"""The record of the syncs as tables: every sync, page, reject and drift, from the manifests in `raw/`.

They are published in the same file as the data they describe, and can always be rebuilt from `raw/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from uuid import uuid4

import duckdb
import pyarrow as pa

from pipelines.landing.manifest import Body, Drift, Manifest, Reject, Verdict
from pipelines.landing.raw import RawStore
from pipelines.store.database import count, transaction
from pipelines.store.relations import DRIFT, PAGES, REJECTS, SYNC_SETS, SYNCS
from pipelines.tables import Relation

Row = dict[str, object]
# The columns of ops.syncs by which a landing is recognised as recorded.
_KEY = "snapshot_date, landing, outcome, verdict"
DISCARDED = "discarded"


def record(con: duckdb.DuckDBPyConnection, raw: RawStore, *, full_refresh: bool = False) -> int:
    """Write the landings that the tables lack, or with `full_refresh` all in `raw/`. Returns how many were written.

    Rows of landings that `raw/` no longer holds stay.
    """
    recorded = set() if full_refresh else set(con.execute(f"SELECT {_KEY} FROM ops.syncs").fetchall())
    fresh = [m for m in raw.manifests() if m.verdict and _key(m, _outcome(m)) not in recorded]
    discarded = [(m, d) for m, d in raw.discarded() if _key(m, DISCARDED) not in recorded]
    with transaction(con):
        for manifest in fresh:
            _forget(con, manifest)
            _insert(con, SYNCS, manifest, [_sync(manifest, _outcome(manifest), manifest.reason)])
            _insert(con, SYNC_SETS, manifest, _sync_sets(manifest))
            _insert(con, PAGES, manifest, map(_page, raw.open(manifest).pages()))
            _insert(con, REJECTS, manifest, map(_reject, raw.open(manifest).rejects()))
            _insert(con, DRIFT, manifest, map(_drift, manifest.drift))
        for manifest, discard in discarded:
            _forget(con, manifest)
            _insert(con, SYNCS, manifest, [_sync(manifest, DISCARDED, discard.reason)])
            _insert(con, SYNC_SETS, manifest, _sync_sets(manifest))
    return len(fresh) + len(discarded)


def stamp(con: duckdb.DuckDBPyConnection, at: datetime) -> str:
    """Give the file a new version id, published `at`; returns the id."""
    version = uuid4().hex
    con.execute("DELETE FROM spans.version")
    con.execute("INSERT INTO spans.version VALUES ($1, $2)", [version, _utc(at)])
    return version


def expire_rejects(con: duckdb.DuckDBPyConnection, before: date) -> int:
    """Remove the rejected records of earlier days, which expire like the raw bodies; returns how many there were."""
    return count(con, "DELETE FROM ops.rejects WHERE snapshot_date < $before", {"before": before})


def _forget(con: duckdb.DuckDBPyConnection, manifest: Manifest) -> None:
    for relation in (SYNCS, SYNC_SETS, PAGES, REJECTS, DRIFT):
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


def _key(m: Manifest, outcome: str) -> tuple[object, ...]:
    return (m.snapshot_date, m.landing, outcome, str(m.verdict))


def _outcome(m: Manifest) -> str:
    return (m.verdict or Verdict.FAILED).outcome


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
        "slipped": answers.count("slipped"),
        "removed": answers.count("removed"),
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
            "slipped": answers.count("slipped"),
            "removed": answers.count("removed"),
        }


def _page(b: Body) -> Row:
    return {
        "set_name": b.set,
        "kind": b.kind,
        "walk": b.walk,
        "page": b.page,
        "received_at": _utc(b.received_at),
        "records": b.records,
        "size": b.size,
        "sha256": b.sha256,
    }


def _reject(r: Reject) -> Row:
    return {
        "set_name": r.set,
        "page": r.page,
        "position": r.position,
        "id": r.id,
        "reason": r.reason,
        "record": r.record,
    }


def _drift(d: Drift) -> Row:
    return {"set_name": d.set, "field": d.field, "type": d.type, "count": d.count}


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)
