"""Maps Dagster's partitions and tags to the days and institutions that a run covers, and back.

A single school's partitions are days. With a registry they are days x institutions or, if it sets `batches`, days x
batches of institutions. Only this module knows which; the stages ask it for a run's `Scope` and for asset events.
Institutions are read when definitions are loaded. An institution that leaves the registry keeps its runs and events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import dagster as dg

from pipelines import report, settings
from pipelines.cron import due
from pipelines.errors import ArgumentError, RollbookError, SettingError
from pipelines.institutions import Registry
from pipelines.landing.raw import RawStore
from pipelines.settings import SourceSettings

# The dimensions, in the order in which Dagster writes them into a key: 2026-11-20|linden-vale, 2026-11-20|batch-03.
DATE, INSTITUTION = "date", "institution"
PUBLISHED = dg.AssetKey(["published", "rollbook"])
PARTITION_TAG = "dagster/partition"
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"

# A run with this tag fetches, whichever day it covers; the schedule and `rollbook sync` set it.
SYNC_TAG = "rollbook/sync"
NIGHTLY = "nightly"
# Any of these tags marks a backfill: launched in the UI over several days, or by `rollbook backfill`.
BACKFILL_TAGS = {"dagster/backfill", RANGE_START}
INSTITUTION_TAG = "rollbook/institution"
BATCH_TAG = "rollbook/batch"
# Runs against one host run one at a time: see the limits in dagster_home/deploy/district/.
HOST_TAG = "rollbook/host"
# The schedule that requested a batch's nightly run, which leaves out institutions of other schedules.
SCHEDULE_TAG = "rollbook/schedule"
# The institutions that a run over several is limited to, comma-separated.
ONLY_TAG = "rollbook/only"

_SUMMER_AND_WINTER = (datetime(2026, 1, 15), datetime(2026, 7, 15))  # noqa: DTZ001 - used in every zone
_EASTERNMOST = "Etc/GMT-14"


@dataclass(frozen=True)
class Scope:
    """The days and institutions that a run covers. A single school is one institution with an empty name."""

    days: tuple[date, ...]
    institutions: tuple[str, ...] = ("",)
    batch: str = ""

    @property
    def is_alone(self) -> bool:
        """Whether the run covers exactly one institution, and so does the work in its own process."""
        return len(self.institutions) == 1

    @property
    def institution(self) -> str:
        """The one institution. Raises RollbookError if there are several, or none is left."""
        if not self.is_alone:
            raise RollbookError("This run covers several institutions; each of them runs in a process of its own")
        return self.institutions[0]


class Partitions:
    """The partitions of a single school or of a registry. `sources` says when each institution is synced."""

    def __init__(
        self,
        timezone: str,
        first_day: date,
        registry: Registry | None = None,
        sources: Mapping[str, SourceSettings] = MappingProxyType({}),
    ) -> None:
        self.sources = sources
        self.names = tuple(registry.institutions) if registry else ("",)
        self.batches = registry.batches if registry else None
        self.is_single = registry is None
        # Today is a partition: a sync is labelled with the day on which it begins.
        self.days = dg.DailyPartitionsDefinition(start_date=str(first_day), timezone=timezone, end_offset=1)
        self.definition: dg.PartitionsDefinition[Any] = self.days
        if registry is not None:
            listed = self._batch_names() if self.batches else self.names
            institutions = dg.StaticPartitionsDefinition(list(listed))
            self.definition = dg.MultiPartitionsDefinition({DATE: self.days, INSTITUTION: institutions})

    @property
    def freshness(self) -> dg.FreshnessPolicy | None:
        """Fails when nothing was published for the longest time between two nights, and their grace period.

        Dagster tracks freshness per asset, not per partition: with a registry it fails only when no institution
        published. The sensor `watch` reports late nights per institution.
        """
        nights = [due(source.cron) for source in self.sources.values()]
        return dg.FreshnessPolicy.time_window(max(n.gap + n.grace for n in nights)) if nights else None

    def scope(self, tags: Mapping[str, str]) -> Scope:
        """Return the days and institutions that a run with these tags covers.

        Raises SettingError for an institution that has left the registry, and ArgumentError for a run without a day.
        """
        first, last = (tags.get(PARTITION_TAG) or tags.get(tag) for tag in (RANGE_START, RANGE_END))
        if first is None or last is None:
            raise ArgumentError("This run has no partition: launch it for a day")
        (first, _, first_place), (last, _, last_place) = first.partition("|"), last.partition("|")
        start, end = date.fromisoformat(first), date.fromisoformat(last)
        days = tuple(start + timedelta(days=n) for n in range((end - start).days + 1))
        places = _between(self._batch_names() if self.batches else self.names, first_place, last_place)
        names = tuple(name for name in self.names if self.place_of(name) in places and self.is_of(name, tags))
        return Scope(days, names, ", ".join(places) if self.batches else "")

    def key(self, day: date, institution: str = "") -> str:
        """Return the partition key of an institution's day; for a single school, the day."""
        if self.is_single:
            return str(day)
        return self.batch_key(day, self.place_of(institution))

    def place_of(self, institution: str) -> str:
        """Return an institution's key in the dimension `institution`: its name, or its batch."""
        return self.batch_of(institution) if self.batches else institution

    def batch_of(self, institution: str) -> str:
        """Return an institution's batch, a hash of its name: adding an institution moves no other one."""
        return self._batch_name(int(sha256(institution.encode()).hexdigest()[:16], 16) % (self.batches or 1))

    def batch_key(self, day: date, batch: str) -> dg.MultiPartitionKey:
        """Return the partition key of a batch's day."""
        return dg.MultiPartitionKey({DATE: str(day), INSTITUTION: batch})

    def in_batch(self, batch: str) -> tuple[str, ...]:
        """Return the institutions of a batch."""
        return tuple(name for name in self.names if self.batch_of(name) == batch)

    def tags(self, institution: str, first: date, last: date | None = None) -> dict[str, str]:
        """Return the tags of a run over an institution's day, or over its days from `first` to `last`."""
        if last is not None:
            days = {RANGE_START: str(self.key(first, institution)), RANGE_END: str(self.key(last, institution))}
            return days | self.owner_tags(institution)
        return _partition_tags(self.key(first, institution)) | self.owner_tags(institution)

    def owner_tags(self, institution: str) -> dict[str, str]:
        """Return the tags that name a run's institution, for searches and queue limits. A single school has none."""
        if not institution:
            return {}
        source = self.sources.get(institution)
        host = {HOST_TAG: host_of(source)} if source and source.base_url else {}
        batch = {BATCH_TAG: self.batch_of(institution), ONLY_TAG: institution} if self.batches else {}
        return {INSTITUTION_TAG: institution, **host, **batch}

    def batch_tags(self, day: date, batch: str) -> dict[str, str]:
        """Return the tags of a run over a batch's day."""
        return _partition_tags(self.batch_key(day, batch)) | {BATCH_TAG: batch}

    def tags_of_scope(self, tags: Mapping[str, str]) -> dict[str, str]:
        """Return the owner tags of a run launched in the UI, which sets none."""
        if name := self.institution_of(tags):
            return self.owner_tags(name)
        try:
            batch = self.scope(tags).batch
        except RollbookError:
            return {}
        return {BATCH_TAG: batch} if batch else {}

    def institution_of(self, tags: Mapping[str, str]) -> str:
        """Return the one institution of a run with these tags; empty for a single school, or if there are several."""
        try:
            scope = self.scope(tags)
        except RollbookError:
            return ""
        return scope.institution if scope.is_alone else ""

    def place_tags(self, institution: str) -> dict[str, str]:
        """Return the tags to search an institution's runs by. Other runs of its batch match too: filter by `is_of`."""
        if self.is_single:
            return {}
        return {BATCH_TAG: self.batch_of(institution)} if self.batches else {INSTITUTION_TAG: institution}

    def is_of(self, institution: str, tags: Mapping[str, str]) -> bool:
        """Whether a run over an institution's batch covers the institution, and not only others of the batch."""
        if ONLY_TAG in tags and institution not in tags[ONLY_TAG].split(","):
            return False
        source = self.sources.get(institution)
        return SCHEDULE_TAG not in tags or (source is not None and schedule_name(source) == tags[SCHEDULE_TAG])

    def event(
        self, asset: dg.AssetKey, day: date, scope: Scope, metadata: Mapping[str, Any]
    ) -> dg.AssetMaterialization | dg.AssetObservation:
        """Return the event for an asset made on a day. With batches it is an observation: one institution alone does
        not materialize its batch's day.
        """
        institution = scope.institution
        key = self.key(day, institution)
        if self.batches:
            return dg.AssetObservation(asset, partition=key, metadata={"institution": institution, **metadata})
        return dg.AssetMaterialization(asset, partition=key, metadata=metadata)

    def page(self, institution: str) -> str:
        """Return the URL path at which `rollbook serve` shows the morning page of an institution or a single school."""
        return f"/{report.FILE}" if self.is_single else f"/report/{institution}.html"

    def _batch_names(self) -> tuple[str, ...]:
        return tuple(self._batch_name(number) for number in range(self.batches or 0))

    def _batch_name(self, number: int) -> str:
        digits = max(2, len(str(self.batches)))
        return f"batch-{number + 1:0{digits}}"


def read() -> Partitions:
    """Return the partitions of the registry or, without one, of a single school.

    They begin today while its settings are wrong or raw/ is damaged. Raises SettingError for a broken registry.
    """
    registry = settings.registry()
    sources: dict[str, SourceSettings] = {}
    if registry is not None:
        sources = settings.sources(registry)
    else:
        with suppress(SettingError):  # the UI must load all the same; `rollbook doctor` says what is wrong
            sources = {"": settings.load(fetches=False)}
    common = settings.common_path() if sources else Path()
    firsts = [_first_day(RawStore(common / name / "raw"), source) for name, source in sources.items()]
    zones = {source.timezone for source in sources.values()} or {"UTC"}
    return Partitions(easternmost(zones), min(firsts, default=datetime.now(UTC).date()), registry, sources)


def easternmost(zones: Iterable[str]) -> str:
    """Return the zone in which a day begins first, so that every institution's today is a partition.

    If no single zone is first in both summer and winter, return UTC+14.
    """
    offsets = {zone: [ZoneInfo(zone).utcoffset(day) or timedelta() for day in _SUMMER_AND_WINTER] for zone in zones}
    first = [max(column) for column in zip(*offsets.values(), strict=True)]
    return next((zone for zone, own in sorted(offsets.items()) if own == first), _EASTERNMOST)


def schedule_name(source: SourceSettings) -> str:
    """Return the name of the schedule shared by all institutions with this cron line and zone."""
    zone, cron = source.timezone, " ".join(source.cron.split())
    for sign, word in (("*", "x"), ("/", "_per_"), (",", "_and_"), ("-", "_to_"), (" ", "_")):
        cron = cron.replace(sign, word)
    for sign, word in (("/", "_"), ("+", "_plus_"), ("-", "_minus_")):
        zone = zone.replace(sign, word)
    return f"{NIGHTLY}_{zone}_{cron}"


def paused(registry: Registry) -> dict[str, str]:
    """Return the paused institutions and why: paused in the registry, or by Rollbook after a refused key."""
    from pipelines.fleet.nights import outcomes  # a single school needs none of it

    fleet = settings.common_path() / settings.FLEET
    found = {name: i.paused or outcomes.load(fleet, name).paused for name, i in registry.institutions.items()}
    return {name: why for name, why in found.items() if why}


def host_of(source: SourceSettings) -> str:
    """Return the host and port of an institution's service, as `source.client` uses them."""
    return urlsplit(source.base_url).netloc


def _first_day(raw: RawStore, source: SourceSettings) -> date:
    today = datetime.now(source.zone).date()
    try:
        return source.first_date or min((*raw.all_days(), today))
    except RollbookError:
        return today


def _partition_tags(key: str) -> dict[str, str]:
    by_dimension = key.keys_by_dimension if isinstance(key, dg.MultiPartitionKey) else {}
    return {PARTITION_TAG: str(key), **{f"{PARTITION_TAG}/{name}": part for name, part in by_dimension.items()}}


def _between(names: Sequence[str], first: str, last: str) -> tuple[str, ...]:
    for name in (first, last):
        if name not in names:
            raise SettingError(f"{name} is no longer in the registry: its data stay, but Rollbook does not sync it")
    return tuple(names[names.index(first) : names.index(last) + 1])
