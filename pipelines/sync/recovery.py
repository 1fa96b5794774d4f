"""Before anything is judged: the warehouse is brought to the state that all counted landings imply (G4).

A killed writer, a full disk, a lost or damaged file, a restored one, or rows that somebody changed in the published
file leave the lake or the published file behind `raw/`. This finds out what is behind and what to begin from; merging
and publishing it is for those who called.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pipelines.errors import DamagedError, ThinnedError
from pipelines.landing import Manifest, TableCounts, counted
from pipelines.source.raw import RawStore
from pipelines.store.warehouse import Warehouse
from pipelines.sync.days import Composer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Base:
    """What the next file begins from: a sound file that Rollbook wrote, or nothing, so that the lake is folded anew."""

    file: Path | None


class Recovery:
    """Finds what is behind; its caller is the writer."""

    def __init__(self, raw: RawStore, warehouse: Warehouse, composer: Composer) -> None:
        self.raw = raw
        self.warehouse = warehouse
        self.lake = warehouse.lake
        self.composer = composer

    def recover_lake(self) -> list[date]:
        """Make the days whose snapshot is not what their counted landings imply; returns them.

        What killed writers left half-done is removed first. Raises DamagedError.
        """
        self.sweep()
        have = self.lake.days()
        behind = []
        for day in self.raw.days():
            landings = counted(self.raw.manifests(day))
            if landings and (day not in have or have[day].landings != tuple(m.landing for m in landings)):
                log.warning("%s: its snapshot is not what was landed; composing it again", day)
                self.composer.recompose(landings)
                behind.append(day)
        discarded = [d for d in self.discarded_days() if d in have]
        self.lake.drop(discarded)
        return behind + discarded

    def sweep(self) -> None:
        """Remove what killed writers left half-done."""
        self.warehouse.sweep()
        self.raw.sweep()
        self.lake.sweep(self.expired_days())

    def deferred(self) -> list[Manifest]:
        """The landings that could not be judged when they were fetched, unless the same day was fetched again since."""
        last = (self.raw.manifests(day)[-1] for day in self.raw.days())
        return [m for m in last if m.deferred and m.verdict is None]

    def discarded_days(self) -> frozenset[date]:
        """The days of which nothing counts any more, because what was landed was taken back."""
        return frozenset(d for d in self.raw.discarded_days() if not counted(self.raw.manifests(d)))

    def expired_days(self) -> frozenset[date]:
        """The days that the history alone still holds: their raw bodies and snapshots have expired."""
        return self.raw.thinned() - set(self.raw.days())

    def is_current(self) -> bool:
        """Whether the lake and the published file are what the counted landings imply. For who is no writer."""
        have, published = self.lake.days(), self.warehouse.published
        landed = {d: tuple(m.landing for m in counted(self.raw.manifests(d))) for d in self.raw.days()}
        if any(numbers and (d not in have or have[d].landings != numbers) for d, numbers in landed.items()):
            return False
        if not have and not self.expired_days():
            return True
        if not self.warehouse.own.recognises(published, noting=False):
            return False
        merged, discarded = self.warehouse.merged_days(), self.discarded_days()
        lake = {day: record.digest for day, record in have.items()}
        return lake.items() <= merged.items() and not discarded & (lake.keys() | merged.keys())

    def base(self) -> Base | None:
        """What to begin from to bring the published file up to the lake; None when it is up to date.

        Raises ThinnedError when expired days would be lost that no file here holds any more; readers then have the
        newest kept file.
        """
        lake = {day: record.digest for day, record in self.lake.days().items()}
        expired, published = self.expired_days(), self.warehouse.published
        merged = self._merged(published)
        if merged is None and not lake and not expired:
            if published.is_file():
                raise DamagedError(
                    f"raw/ holds nothing that counts, and {published} is not a file that Rollbook is known to have"
                    " written here. Restore raw/ from a backup and run `rollbook rebuild`, or move that file away to"
                    " begin with an empty warehouse"
                )
            return None
        if merged is not None and expired <= merged.keys():
            is_current = lake.items() <= merged.items() and not self.discarded_days() & merged.keys()
            return None if is_current else Base(published)
        if published.exists() and merged is None:
            log.warning("%s is not as it was published; it is made again", published.name)
        kept = [(path, days) for path in self.warehouse.kept() if (days := self._merged(path)) is not None]
        for path, days in kept:
            if expired <= days.keys() and self.warehouse.is_sound(path, thoroughly=True):
                return Base(path)
        if not expired:
            return Base(None)
        self._let_readers_see([path for path, _ in kept])
        held = merged or (kept[0][1] if kept else {})
        raise ThinnedError(_would_be_lost(sorted(expired - held.keys())))

    def lost(self) -> tuple[tuple[TableCounts, ...], list[date]]:
        """What the next file lacks of what is published: rows of the current tables, and landed days.

        Where the published file is lost, damaged or not ours, the newest kept one stands for it.
        """
        for path in (self.warehouse.published, *self.warehouse.kept()):
            if self._merged(path) is not None:
                try:
                    return self.warehouse.lost(path)
                except DamagedError:
                    self.warehouse.own.forget(path)
        return (), []

    def put_right(self) -> str | None:
        """Look for what is damaged, now that something is, and do what can be done; says what, and what to run.

        This reads every file, so it is done only when one of them could not be read. None when nothing was found that
        could be repaired here.
        """
        published = self.warehouse.published
        if published.is_file() and not self.warehouse.is_sound(thoroughly=True):
            self.warehouse.own.forget(published)
            self._let_readers_see(self.warehouse.kept())
            return (
                f"{published.name} was damaged. Run `rollbook sync` (or wait for the night): it first makes the file"
                " again from what was landed. Until then readers have the file that was published before, if one is"
                " kept"
            )
        merged = self._merged(published) or {}
        if days := [d for d in self.lake.damaged() if counted(self.raw.manifests(d)) or d in merged]:
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

    def _merged(self, path: Path) -> dict[date, str] | None:
        """The days that a file holds, if Rollbook wrote it and it can be read; else None."""
        if not self.warehouse.own.recognises(path) and not self._adopted(path):
            return None
        try:
            return self.warehouse.merged_days(path)
        except DamagedError:
            self.warehouse.own.forget(path)
            return None

    def _adopted(self, path: Path) -> bool:
        """Take a sound file of a warehouse without notes for ours, if it is all that holds the expired days."""
        own = self.warehouse.own
        if own.is_there or not self.expired_days() or not path.is_file():
            return False
        sound = [p for p in (self.warehouse.published, *self.warehouse.kept()) if p.is_file()]
        own.note(*(p for p in sound if self.warehouse.is_sound(p, thoroughly=True)))
        return own.recognises(path)

    def _let_readers_see(self, kept: list[Path]) -> None:
        """Put the newest sound kept file in the place of a published one that is lost or not ours."""
        own = self.warehouse.own
        if own.recognises(self.warehouse.published):
            return
        for path in kept:
            if own.recognises(path) and self.warehouse.is_sound(path, thoroughly=True):
                self.warehouse.restore(path)
                return


def _would_be_lost(days: list[date]) -> str:
    return (
        f"The history of {len(days)} days ({days[0]} to {days[-1]}) was only in a published file that is gone or"
        " damaged: their raw bodies have expired (ROLLBOOK_KEEP_DAYS). Put rollbook.duckdb back from a backup, or go on"
        " without these days with `rollbook rebuild --accept-loss`. What is fetched until then stays in raw/ and is"
        " merged afterwards"
    )
