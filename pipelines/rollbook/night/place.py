"""An institution's folders, and what a night reads of its settings."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Protocol
from zoneinfo import ZoneInfo

from rollbook.landing.manifest import Manifest
from rollbook.landing.own import Own
from rollbook.landing.raw import RawStore
from rollbook.night import policy
from rollbook.night.landings import Composer, Landings
from rollbook.night.recovery import Recovery
from rollbook.store.lake import Lake
from rollbook.store.warehouse import Warehouse
from rollbook.views.additions import Addition

Clock = Callable[[], datetime]


class Rules(policy.HoldLimits, Protocol):
    """The settings that a night reads, besides those of the fetch."""

    @property
    def timezone(self) -> str:
        """The time zone's name."""

    @property
    def zone(self) -> ZoneInfo:
        """The time zone, by which days are counted."""

    @property
    def first_date(self) -> date | None:
        """The first day that can be synced, if it is set."""

    @property
    def cache_minutes(self) -> float:
        """For how long a landing may be used again."""

    @property
    def keep_days(self) -> int | None:
        """For how many days raw bodies and snapshots are kept; None: for good."""

    def command(self, arguments: str) -> str:
        """A command about this warehouse, as somebody types it."""


class Inputs(Protocol):
    """A feature, as a landing knows it (see `rollbook.feature.Feature`)."""

    def inputs(self, root: Path) -> Own | None:
        """The school's own lists in the warehouse at `root`."""


@dataclass(frozen=True)
class Place:
    """An institution's folders: what was landed (`raw`), and what is made from that (`warehouse`, with the lake); and
    what features add to a landing (`inputs`) and to the published file.
    """

    raw: RawStore
    warehouse: Warehouse
    additions: tuple[Addition, ...] = ()
    inputs: tuple[Inputs, ...] = ()

    @property
    def lake(self) -> Lake:
        """The daily snapshots."""
        return self.warehouse.lake

    @cached_property
    def landings(self) -> Landings:
        """Which landings count, wait or come next."""
        return Landings(self.raw)

    @cached_property
    def composer(self) -> Composer:
        """Composes days from landings."""
        return Composer(self.raw, self.warehouse)

    @cached_property
    def recovery(self) -> Recovery:
        """Finds what is behind `raw/`."""
        return Recovery(self.landings, self.warehouse, self.composer)

    def own(self) -> Own | None:
        """The school's own lists that a night lands; None where nobody can see which there are."""
        found = [lists for each in self.inputs if (lists := each.inputs(self.warehouse.root)) is not None]
        return {name: content for lists in found for name, content in lists.items()} if found else None

    def newest(self) -> Manifest | None:
        """The newest landing that counts; None before the first."""
        return self.landings.newest()

    def bound_to(self) -> int | None:
        """The warehouse's institution, from the first counted landing (G11); None before that landing."""
        school_id = self.raw.school_id()
        return self.warehouse.bound_to() if school_id is None else school_id

    def first_day(self, rules: Rules, now: datetime) -> date:
        """The first day that can be synced: as set, else the first landed day, or yesterday before any landing: the
        first sync may have begun before midnight.
        """
        landed, today = self.raw.all_days(), today_at(rules, now)
        return rules.first_date or min((*landed, today if landed else today - timedelta(days=1)))

    def partition(self, day: date | None, rules: Rules, now: datetime) -> date:
        """Return the day (default: today). Raises ArgumentError if it cannot be synced (`policy.partition`)."""
        today = today_at(rules, now)
        return policy.partition(day or today, self.first_day(rules, now), today, rules.timezone)

    def clear(self) -> None:
        """Remove everything landed and derived. For made-up institutions: a real one's raw/ has no other copy."""
        warehouse = self.warehouse
        for folder in (self.raw.root, self.lake.root, warehouse.versions.folder, warehouse.build / "stage"):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (warehouse.published_file, warehouse.next):
            file.unlink(missing_ok=True)
        warehouse.pseudonymous.clear()
        warehouse.prepare()


def today_at(rules: Rules, now: datetime) -> date:
    """The date in ROLLBOOK_TIMEZONE at a moment."""
    return now.astimezone(rules.zone).date()


def quiet(what: str, done: int, total: int) -> None:
    """Show no progress."""
