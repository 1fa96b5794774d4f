"""`rollbook fleet rebuild`: an engine recomputes all histories from the lakes, to publish or compare them.

For use after a declaration changed, or a disk was lost. Each institution's file goes through its own lock, checks and
publish, so that none can harm another; an interrupted run leaves each file either old or new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq

from pipelines import machine
from pipelines.errors import NothingLandedError, RollbookError
from pipelines.fleet import engine as engines
from pipelines.fleet.file.gathering import Gathered, gather
from pipelines.fleet.history import lakes
from pipelines.fleet.history.histories import Difference, Histories
from pipelines.institutions import Registry
from pipelines.settings import load
from pipelines.store.published.fleet_file import FleetFile
from pipelines.sync import Confirm, Rollbook, within_hold
from pipelines.sync.adopting import adopt

NOT_GIVEN = "it has published nothing that could be compared"
OTHER_DAYS = "its published file is of other days than its lake: its next sync brings it up to date"

# Called with an institution's name, and the error that prevented its rebuild, or None.
Done = Callable[[str, RollbookError | None], None]


@dataclass(frozen=True)
class Verified:
    """The result of a comparison: the institutions compared, their differences, and why others were not compared."""

    compared: tuple[str, ...]
    differences: tuple[Difference, ...]
    left_out: dict[str, str]


class FleetRebuild:
    """One rebuild of the institutions of a registry, or of those named by `only`.

    `fleet` is the fleet's folder, `engine` a name as in `engines.of`. Raises SettingError for an unknown name.
    """

    def __init__(self, fleet: Path, registry: Registry, engine: str, only: tuple[str, ...] = ()) -> None:
        self.fleet = fleet
        self.registry = registry
        self.engine = engine
        self.institutions = {name: registry[name] for name in only or registry.institutions}
        self.file = FleetFile(fleet)

    def verify(self) -> Verified:
        """Compare the histories with what each institution has published; nothing is changed.

        Raises NothingLandedError when there is nothing to compare, BusyError while a build runs, and EngineError.
        """
        with self._computing() as (found, histories):
            given = gather(self.fleet, self.file.sources, self.registry)
            left_out = dict(found.left_out)
            for name, days in found.days.items():
                if name not in given.given:
                    left_out[name] = given.left_out.get(name, NOT_GIVEN)
                elif _published_days(given, name) != days:
                    left_out[name] = OTHER_DAYS
            compared = tuple(name for name in found.days if name not in left_out)
            return Verified(compared, tuple(histories.compare(self.file.sources, compared)), left_out)

    def rebuild(self, done: Done, confirm: Confirm = within_hold) -> None:
        """Compute the histories, and publish each institution's; `done` is called for each as it ends.

        Raises NothingLandedError without any lake, BusyError while a build runs, and EngineError; then no
        institution has changed.
        """
        with self._computing() as (found, histories):
            for name, why in found.left_out.items():
                done(name, RollbookError(f"It was left out: {why}"))
            for name, days in found.days.items():
                try:
                    adopt(Rollbook(load(institution=name, fetches=False)), histories.computed(name, days), confirm)
                    done(name, None)
                except RollbookError as error:
                    done(name, error)

    @contextmanager
    def _computing(self) -> Iterator[tuple[lakes.Lakes, Histories]]:
        file = self.file
        with machine.translate_errors(self.fleet), file.building():
            file.sweep()
            try:
                found = lakes.link(self.institutions, file.lakes)
                if not found.days:
                    reasons = "".join(f"; {name}: {why}" for name, why in found.left_out.items())
                    raise NothingLandedError(
                        f"No institution has a lake to compute from{reasons}: run `rollbook fleet sync` first"
                    )
                with engines.of(self.engine, file.scratch) as engine:
                    histories = Histories(engine, found, file.histories)
                    histories.compute()
                    yield found, histories
            finally:
                file.sweep()


def _published_days(given: Gathered, name: str) -> dict[date, str]:
    """The days in an institution's published file, each with the checksum of its content."""
    if "spans.days" not in given.given[name].tables:
        return {}
    rows = pq.read_table(given.path("spans.days", name), columns=["snapshot_date", "digest"]).to_pylist()
    return {row["snapshot_date"]: row["digest"] for row in rows}
