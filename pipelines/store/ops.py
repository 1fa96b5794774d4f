"""The record of the work as tables: every sync, page, reject and drift, as the manifests in `raw/` tell them.

They are published with the work they record, in the same file, and can always be told anew from `raw/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

import duckdb
import pyarrow as pa

from pipelines.landing import Body, Manifest, Reject, Verdict
from pipelines.store.database import transaction

Recorded = tuple[object, int, str]


class Telling(Protocol):
    """What knows the landings: `raw/`."""

    def manifests(self) -> list[Manifest]:
        """All manifests, in order of day and landing."""

    def pages(self, manifest: Manifest) -> Iterable[Body]:
        """The landed bodies of one."""

    def rejects(self, manifest: Manifest) -> Iterable[Reject]:
        """The refused records of one."""


def record(con: duckdb.DuckDBPyConnection, raw: Telling, *, again: bool = False) -> int:
    """Write what the tables do not tell yet, or all that `raw/` tells `again`. Returns how many landings were written.

    What was told of landings that `raw/` no longer holds stands.
    """
    told = set() if again else set(con.execute("SELECT snapshot_date, landing, verdict FROM ops.syncs").fetchall())
    fresh = [m for m in raw.manifests() if m.verdict and (m.snapshot_date, m.landing, str(m.verdict)) not in told]
    with transaction(con):
        for manifest in fresh:
            _forget(con, manifest)
            _insert(con, "syncs", [_sync(manifest)])
            _insert(con, "pages", [_page(manifest, b) for b in raw.pages(manifest)])
            _insert(con, "rejects", [_reject(manifest, r) for r in raw.rejects(manifest)])
            day = (manifest.snapshot_date, manifest.landing)
            _insert(con, "drift", [(*day, d.set, d.field, d.type, d.count) for d in manifest.drift])
    return len(fresh)


def _forget(con: duckdb.DuckDBPyConnection, manifest: Manifest) -> None:
    for table in ("syncs", "pages", "rejects", "drift"):
        con.execute(
            f"DELETE FROM ops.{table} WHERE snapshot_date = $1 AND landing = $2",
            [manifest.snapshot_date, manifest.landing],
        )


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: list[tuple[object, ...]]) -> None:
    if rows:
        described = con.execute(f"SELECT * FROM ops.{table} LIMIT 0").description or []
        columns = [c[0] for c in described]
        fresh = pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
        con.register("fresh", fresh)
        con.execute(f"INSERT INTO ops.{table} SELECT * FROM fresh")
        con.unregister("fresh")


def _sync(m: Manifest) -> tuple[object, ...]:
    outcome = {Verdict.HELD: "held", Verdict.FAILED: "failed"}.get(m.verdict or Verdict.FAILED, "synced")
    received = {w.set: w.received for w in m.walks}
    answers = [a.answer for a in m.absences]
    return (
        m.snapshot_date,
        m.landing,
        _utc(m.started_at),
        _utc(m.judged_at or m.finished_at),
        outcome,
        m.proven,
        str(m.verdict),
        m.reason,
        received.get("students", 0),
        received.get("classes", 0),
        sum(w.walks for w in m.walks),
        sum(w.repeated for w in m.walks),
        sum(m.rejected.values()),
        len(answers),
        answers.count("slipped"),
        answers.count("removed"),
        sum(c.added for c in m.counts),
        sum(c.changed for c in m.counts),
        sum(c.removed for c in m.counts),
        m.requests,
        m.retries,
        m.bytes_received,
        m.rollbook,
    )


def _page(m: Manifest, b: Body) -> tuple[object, ...]:
    return (
        m.snapshot_date, m.landing, b.set, b.kind, b.walk, b.page, _utc(b.received_at), b.records, b.size, b.sha256,
    )  # fmt: skip


def _reject(m: Manifest, r: Reject) -> tuple[object, ...]:
    return (m.snapshot_date, m.landing, r.set, r.page, r.position, r.id, r.reason, r.record)


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)
