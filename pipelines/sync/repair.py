"""What a killed writer, a full disk or a worn one left behind: put right before anything else is done, or said."""

from __future__ import annotations

import logging
import shutil
from datetime import date

from pipelines.landing import counted
from pipelines.source.raw import RawStore
from pipelines.store.warehouse import Warehouse
from pipelines.sync.days import Composer

log = logging.getLogger(__name__)


class Repair:
    """Puts the warehouse right from what is landed; whoever calls it is the writer."""

    def __init__(self, raw: RawStore, warehouse: Warehouse, composer: Composer) -> None:
        self.raw = raw
        self.warehouse = warehouse
        self.lake = warehouse.lake
        self.composer = composer

    def heal(self) -> list[date]:
        """Recompose the days whose landings count and whose snapshot is missing, cut short or behind; returns them.

        This is what a killed writer, or a lost file, leaves to be done.
        """
        self.warehouse.sweep()
        self.raw.sweep()
        self.lake.sweep(self.raw.thinned() - set(self.raw.days()))
        if put_back := self.warehouse.mend():
            log.warning("%s was damaged; going on from %s", self.warehouse.published.name, put_back)
        have = self.lake.days()
        behind = []
        for day in self.raw.days():
            standing = counted(self.raw.manifests(day))
            if standing and (day not in have or have[day].landings != tuple(m.landing for m in standing)):
                log.warning("%s: its snapshot is not what was landed; composing it again", day)
                self.composer.again(standing)
                behind.append(day)
        return behind

    def put_right(self) -> str | None:
        """Look for what is damaged, now that something is, and do what can be done; says what, and what to run.

        This reads every file, so it is done only when one of them could not be read. None when nothing was found that
        could be put right here.
        """
        name = self.warehouse.published.name
        if put_back := self.warehouse.mend(thoroughly=True):
            return (
                f"{name} was damaged and has been replaced by {put_back}, which was published before it. Run `rollbook"
                " sync` (or wait for the night): it brings that up to date"
            )
        standing = self.warehouse.stands_on() if self.warehouse.is_sound() else {}
        if days := [d for d in self.lake.damaged() if counted(self.raw.manifests(d)) or d in standing]:
            self.lake.drop(days)
            return (
                f"The snapshots of {', '.join(map(str, days))} were damaged and have been taken out. Run"
                " `rollbook sync` (or wait for the night): it makes them again from what was landed, where that is"
                " still there"
            )
        return None

    def clear(self) -> None:
        """Remove all that was landed and made of it. For made-up institutions: a real one's raw/ has no other copy."""
        for made in (self.raw.root, self.lake.root, self.warehouse.previous, self.warehouse.build / "stage"):
            shutil.rmtree(made, ignore_errors=True)
        for file in (self.warehouse.published, self.warehouse.next):
            file.unlink(missing_ok=True)
        self.warehouse.prepare()
