"""One night as plain calls: `sync` is its table of contents. No Dagster, no SQL, no HTTP.

    land        fetch everything once; raw bodies and their manifest (source)
    snapshot    flatten the landing, compose its day, decide on it (`policy`), move it into the lake (`landings`)
    merge       bring the history up to the lake, in the next file (store)
    publish     check the next file and swap it in, expire old days (`recovery`); then tell what listens (`listeners`)

The stages are in `stages`; each is given what the one before it returned, and leaves its result on disk, so that the
next run resumes after a killed one: before any decision, `writing` brings the lake and the published file to the state
that all counted landings imply. All of it happens under the writer lock. A backfill and a rebuild (`past`), approvals
and what else a writer does at other times are functions over the same stages. `assembly` adds the listeners.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from rollbook.errors import OtherInstitutionError
from rollbook.landing.manifest import Details, Manifest, TableCounts
from rollbook.night.place import Place, today_at
from rollbook.night.stages import land, merge, plan, publish, snapshot
from rollbook.night.writing import Blocked, Writer, reported_end
from rollbook.source.fetch import why_refused
from rollbook.store.lake import DayRecord

if TYPE_CHECKING:  # a night is given its settings and does not read any
    from rollbook.settings import Settings


@dataclass(frozen=True)
class Synced:
    """The result of one sync: the landing with its verdict, and the changes in each current table. `is_new`: it was
    merged now, and not by an earlier sync.
    """

    manifest: Manifest
    day: DayRecord
    counts: tuple[TableCounts, ...]
    is_new: bool = True


def sync(
    writer: Writer,
    day: date | None = None,
    *,
    details: Details = Details.none,
    fresh: bool = False,
    full_refresh: bool = False,
    unless_synced: bool = False,
) -> Synced:
    """Fetch, decide, merge, publish: the nightly job. `fresh` fetches even if the day was fetched minutes ago, and
    `unless_synced` not at all if the day is synced already; `full_refresh` merges the whole lake into an empty file.
    Raises RollbookError; readers then keep the last published file.
    """
    place, settings, clock, listeners = writer.place, writer.settings, writer.clock, writer.listeners
    with reported_end(listeners, day or today_at(settings, clock())), writer.fetching() as state:
        blocked = state.error if isinstance(state, Blocked) else None
        day, reuse = place.partition(day, settings, clock()), not fresh and details == "none"
        if unless_synced and (counted := place.landings.counted(day)):
            if blocked is not None:
                raise blocked
            check_still_alone(place, settings)
            return Synced(counted[-1], place.lake.days()[day], (), is_new=False)
        planned = plan(place, day, settings, clock(), blocked=blocked, known=listeners.landings(day), reuse=reuse)
        landed = land(place, planned, settings, details=details, clock=clock, progress=writer.progress)
        if blocked is not None:  # the landing is kept for the next writer
            raise blocked
        manifest, record = snapshot(place, landed, settings, clock())
        merged = merge(place, full_refresh=full_refresh, ahead=landed.ahead, digest=record.digest, stays_open=True)
        publish(place, merged, settings, listeners, clock())
        check_still_alone(place, settings)
        return Synced(manifest, record, merged.counts)


def check_still_alone(place: Place, settings: Settings) -> None:
    """Raise OtherInstitutionError if, on this warehouse's first day, another one has begun with the same key meanwhile
    (G11).
    """
    bound = place.bound_to() if len(place.raw.days()) == 1 else None
    if bound is not None and (refused := why_refused(settings, bound, bound)):
        raise OtherInstitutionError(refused)
