"""One night as plain calls: `sync` is its table of contents. No Dagster, no SQL, no HTTP.

    land        fetch everything once; raw bodies and their manifest (source)
    snapshot    flatten the landing, compose its day, decide on it (`policy`), move it into the lake (`landings`)
    merge       bring the history up to the lake, in the next file (store)
    publish     check the next file and swap it in, expire old days (`recovery`); then tell what listens (`listeners`)

The stages are in `stages`; each is given what the one before it returned, and leaves its result on disk, so that the
next run resumes after a killed one: before any decision, `writing` brings the lake and the published file to the state
that all counted landings imply. All of it happens under the writer lock. A backfill and a rebuild (`past`), approvals
and what else operators do (`operations`) are functions over the same stages. `assembly` adds the listeners.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from rollbook.landing.manifest import Details, Manifest, TableCounts
from rollbook.night.rollbook import Rollbook
from rollbook.night.stages import Landed, land, merge, publish, snapshot
from rollbook.night.writing import fetching, reported_end
from rollbook.store.lake import DayRecord


@dataclass(frozen=True)
class Synced:
    """The result of one sync: the landing with its verdict, and the changes in each current table."""

    manifest: Manifest
    day: DayRecord
    counts: tuple[TableCounts, ...]


def sync(
    rollbook: Rollbook,
    day: date | None = None,
    *,
    details: Details = Details.none,
    fresh: bool = False,
    full_refresh: bool = False,
) -> Synced:
    """Fetch, decide, merge, publish: the nightly job. `fresh` fetches even if the day was fetched minutes ago;
    `full_refresh` merges the whole lake into an empty file. Raises RollbookError; readers then keep the last
    published file.
    """
    with reported_end(rollbook, day or rollbook.today()), fetching(rollbook) as blocked:
        landed = land(rollbook, day, details=details, fresh=fresh, blocked=blocked)
        return finish(rollbook, landed, full_refresh=full_refresh)


def finish(rollbook: Rollbook, landed: Landed, *, full_refresh: bool = False) -> Synced:
    """Decide on a landing, merge and publish it: the rest of a night. Raises what the three stages raise."""
    manifest, record = snapshot(rollbook, landed)
    merged = merge(rollbook, full_refresh=full_refresh, ahead=landed.ahead, digest=record.digest)
    publish(rollbook, merged)
    return Synced(manifest, record, merged.counts)
