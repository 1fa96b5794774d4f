"""What was made of each day, as Dagster's events: of a run's own days, and of days that were landed without Dagster.

The warehouse says everything, so that an event is the same, no matter what records it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import dagster as dg

from rollbook.defs import runs
from rollbook.defs.resources import School
from rollbook.landing.manifest import Manifest
from rollbook.night.place import Place
from rollbook.store.lake import DayRecord
from rollbook.tables import TABLES, WALKED

Event = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
Metadata = Mapping[str, Any]
# The first part of each asset's key.
RAW, TABLE, PUBLISHED = GROUPS = ("raw", "tables", "published")
FILE = (PUBLISHED, "rollbook")
ALL_ASSETS = (*((RAW, name) for name in WALKED), *((TABLE, name) for name in TABLES), FILE)
# Dagster has no way to take a day's mark back. So a day whose landings were all discarded is marked once more.
GONE = {"outcome": "discarded"}
DISCARDED = {**GONE, "dagster/partition_row_count": 0}


def made(
    school: School, place: Place, groups_by_day: Mapping[date, Collection[str]]
) -> Iterator[dg.AssetMaterialization]:
    """Yield what was made of these days, in these groups of assets: the sets of the last landing and, of a day that
    counts, tables and file.

    Of a day that has neither any more, that it was discarded.
    """
    records, discarded = place.lake.days(), place.raw.discarded_days()
    newest = max(place.warehouse.shown(), default=None)
    for day, groups in groups_by_day.items():
        facts: dict[tuple[str, str], Metadata] = dict.fromkeys(ALL_ASSETS, DISCARDED) if day in discarded else {}
        decided, counted = last_decided(place, day), place.landings.counted(day)
        if decided is not None:
            facts |= {(RAW, name): _set(decided, name) for name in WALKED}
        if counted and day in records:
            facts |= {(TABLE, name): _table(counted, records[day], name) for name in TABLES}
            facts[FILE] = _file(counted, records[day])
            if day == newest:
                facts[FILE] = {**facts[FILE], **_of_now(place)}
        for key, metadata in facts.items():
            if key[0] in groups:
                tags = {runs.OUTCOME: metadata.get("outcome", "synced")}
                yield dg.AssetMaterialization(school.key(*key), partition=str(day), metadata=metadata, tags=tags)


def marks(place: Place, days: Iterable[date]) -> dict[date, dict[str, Metadata]]:
    """Return how each of these days should be marked now, by group of assets: as far as that tells one landing from
    another.

    The landed sets are marked once the landing is decided, tables and file once it counts and readers have it.
    """
    shown, by_day = place.warehouse.shown(), dict[date, dict[str, Metadata]]()
    for day in days:
        decided, counted = last_decided(place, day), place.landings.counted(day)
        by_day[day] = {RAW: _set_mark(decided) if decided is not None else GONE}
        if counted and day in shown:
            by_day[day] |= dict.fromkeys((TABLE, PUBLISHED), _file_mark(counted))
        elif not counted and day not in shown:
            by_day[day] |= dict.fromkeys((TABLE, PUBLISHED), GONE)
    return by_day


def unmarked(
    instance: dg.DagsterInstance, school: School, marks: Mapping[date, Mapping[str, Metadata]]
) -> dict[date, list[str]]:
    """Return the groups of assets that Dagster has not marked so, by day: never, or before an approval or a discard."""
    raw, file = (_marked(instance, school.key(*key), marks) for key in ((RAW, "students"), FILE))
    was = {RAW: raw, TABLE: file, PUBLISHED: file}
    # A day that was never marked is not marked as gone.
    groups = {day: [g for g, mark in of.items() if was[g].get(str(day), GONE) != mark] for day, of in marks.items()}
    return {day: missing for day, missing in groups.items() if missing}


def _marked(instance: dg.DagsterInstance, key: dg.AssetKey, days: Iterable[date]) -> dict[str | None, Metadata]:
    """How an asset was last marked on each of these days."""
    marked: dict[str | None, Metadata] = {}
    for record in each(instance.fetch_materializations, key, days):
        metadata = record.asset_materialization.metadata
        marked.setdefault(record.partition_key, {n: metadata[n].value for n in _MARKS if n in metadata})
    return marked


def each(fetch: Callable[..., Any], key: dg.AssetKey, days: Iterable[date]) -> Iterator[Any]:
    """Yield Dagster's records of an asset on these days, the newest first."""
    if partitions := [str(day) for day in days]:
        yield from pages(fetch, dg.AssetRecordsFilter(key, asset_partitions=partitions))


def pages(fetch: Callable[..., Any], of: dg.AssetRecordsFilter) -> Iterator[Any]:
    """Yield all of Dagster's records that a filter names, the newest first."""
    page = fetch(of, limit=1000)
    yield from page.records
    while page.has_more:
        page = fetch(of, limit=1000, cursor=page.cursor)
        yield from page.records


_MARKS = ("landing", "landings", "outcome")


def _set_mark(manifest: Manifest) -> dict[str, Any]:
    return {"landing": manifest.landing, "outcome": manifest.verdict.outcome if manifest.verdict else ""}


def _file_mark(counted: Sequence[Manifest]) -> dict[str, Any]:
    return {"landing": counted[-1].landing, "landings": ", ".join(str(m.landing) for m in counted)}


def hold_note(school: School, held: Manifest) -> dg.AssetObservation:
    """Return an observation of a held landing: why it is held, what would change, and what stands for it."""
    metadata: Metadata = {
        "held": held.hold_digest,
        "why": held.reason,
        "what would change": runs.change_table(held.counts),
    }
    return note(school, "held", metadata, held.snapshot_date)


def note(school: School, outcome: str, metadata: Metadata, day: date | None = None) -> dg.AssetObservation:
    """Return an observation of the published file."""
    partition = str(day) if day else None
    return dg.AssetObservation(school.key(*FILE), partition=partition, metadata=metadata, tags={runs.OUTCOME: outcome})


def last_decided(place: Place, day: date) -> Manifest | None:
    """The day's last landing with a verdict, whatever that is."""
    return next((m for m in reversed(place.raw.manifests(day)) if m.verdict is not None), None)


def _set(manifest: Manifest, name: str) -> Metadata:
    """Of a landed set: numbers, which the UI plots over the days, and the fields that are not declared."""
    metadata: dict[str, Any] = {
        **_set_mark(manifest),
        "landed at": dg.MetadataValue.timestamp(manifest.finished_at),
        "requests": manifest.requests,
        "retries": manifest.retries,
        "bytes": manifest.bytes_received,
        "seconds": (manifest.finished_at - manifest.started_at).total_seconds(),
    }
    if (walk := manifest.walk(name)) is not None:
        absences = [absence.answer for absence in manifest.absences if absence.set == name]
        metadata |= {
            "dagster/partition_row_count": walk.records,
            "walks": walk.walks,
            "repeated": walk.repeated,
            "proven": int(manifest.proof(name) is not None),
            "verified absent": absences.count("removed"),
            "found by search": absences.count("found_by_search"),
            "unclear": unclear(manifest, name),
            "refused": manifest.rejected.get(name, 0),
        }
    if unknown := unknown_fields(manifest, name):
        metadata["unknown fields"] = unknown
    return metadata


def unclear(manifest: Manifest, name: str) -> int:
    """How many records that a set no longer lists were searched for without a clear answer, or not at all."""
    return len(manifest.unclear(name)) + len(manifest.unverified.get(name, ()))


def unknown_fields(manifest: Manifest, name: str) -> str:
    """The fields of a set that are not declared, each with its type and the number of records."""
    return ", ".join(f"{d.field} ({d.type}, {d.count})" for d in manifest.drift if d.set == name)


def _table(counted: Sequence[Manifest], record: DayRecord, name: str) -> Metadata:
    """Of a table: the rows of the day's snapshot, and what the last landing changed."""
    metadata: dict[str, Any] = {
        "dagster/partition_row_count": record.rows.get(name, 0),
        "landings": _file_mark(counted)["landings"],
    }
    for c in (counts for counts in counted[-1].counts if counts.table == name):
        metadata |= {"dagster/row_count": c.before + c.added - c.removed}
        metadata |= {"added": c.added, "changed": c.changed, "removed": c.removed}
    return metadata


def _file(counted: Sequence[Manifest], record: DayRecord) -> Metadata:
    """Of the published file: the records of that day, and what the last landing changed in all tables together."""
    counts = counted[-1].counts
    return {
        **_file_mark(counted),
        "landed at": dg.MetadataValue.timestamp(counted[-1].finished_at),
        **{name: record.rows.get(name, 0) for name in WALKED},
        "added": sum(c.added for c in counts),
        "changed": sum(c.changed for c in counts),
        "removed": sum(c.removed for c in counts),
    }


def _of_now(place: Place) -> Metadata:
    """Of the published file as it is now: the file of an earlier day is gone, so only the newest has these."""
    file = place.warehouse.published_file
    return {"path": dg.MetadataValue.path(file), "bytes": file.stat().st_size if file.exists() else 0}
