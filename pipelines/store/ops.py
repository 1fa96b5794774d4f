"""The record of the work as tables: every sync, page, reject and drift, as the manifests in `raw/` tell them.

They are published with the work they record, in the same file, and can always be told anew from `raw/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Protocol

import duckdb
import pyarrow as pa

from pipelines.landing.manifest import Body, Discard, Manifest, Reject, Verdict
from pipelines.store.database import count, transaction

# What of a landing is compared with what the tables tell already.
_TOLD = "snapshot_date, landing, outcome, verdict"
DISCARDED = "discarded"


class Telling(Protocol):
    """What knows the landings: `raw/`."""

    def manifests(self) -> list[Manifest]:
        """All manifests, in order of day and landing."""

    def discarded(self) -> list[tuple[Manifest, Discard]]:
        """Those that were taken back, each with why."""

    def pages(self, manifest: Manifest) -> Iterable[Body]:
        """The landed bodies of one."""

    def rejects(self, manifest: Manifest) -> Iterable[Reject]:
        """The refused records of one."""


def record(con: duckdb.DuckDBPyConnection, raw: Telling, *, full_refresh: bool = False) -> int:
    """Write what the tables do not tell yet, or all of it in a `full_refresh`. Returns how many landings were written.

    What was told of landings that `raw/` no longer holds stands.
    """
    told = set() if full_refresh else set(con.execute(f"SELECT {_TOLD} FROM ops.syncs").fetchall())
    fresh = [m for m in raw.manifests() if m.verdict and _told(m, _outcome(m)) not in told]
    taken_back = [(m, d) for m, d in raw.discarded() if _told(m, DISCARDED) not in told]
    with transaction(con):
        for manifest in fresh:
            _forget(con, manifest)
            _insert(con, "syncs", [_sync(manifest, _outcome(manifest), manifest.reason)])
            _insert(con, "pages", [_page(manifest, b) for b in raw.pages(manifest)])
            _insert(con, "rejects", [_reject(manifest, r) for r in raw.rejects(manifest)])
            day = (manifest.snapshot_date, manifest.landing)
            _insert(con, "drift", [(*day, d.set, d.field, d.type, d.count) for d in manifest.drift])
        for manifest, discard in taken_back:
            _forget(con, manifest)
            _insert(con, "syncs", [_sync(manifest, DISCARDED, discard.reason)])
    return len(fresh) + len(taken_back)


def expire_rejects(con: duckdb.DuckDBPyConnection, before: date) -> int:
    """Remove the rejected records of earlier days, whose raw bodies expire with them; returns how many there were."""
    return count(con, "DELETE FROM ops.rejects WHERE snapshot_date < $before", {"before": before})


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


def _told(m: Manifest, outcome: str) -> tuple[object, ...]:
    return (m.snapshot_date, m.landing, outcome, str(m.verdict))


def _outcome(m: Manifest) -> str:
    return (m.verdict or Verdict.FAILED).outcome


def _sync(m: Manifest, outcome: str, reason: str) -> tuple[object, ...]:
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
        reason,
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
