"""Recovery: before anything is decided, the warehouse is brought to the state that the counted landings imply (G4).

A killed writer, a full disk, a lost or damaged file, a restored one, or rows that somebody changed in the published
file leave the lake or the published file behind `raw/`. This finds out what is behind and what to begin from; merging
and publishing it is for those who called.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pipelines.errors import DamagedError, ExpiredError
from pipelines.landing.manifest import TableCounts
from pipelines.store.warehouse import Warehouse
from pipelines.sync.composer import Composer
from pipelines.sync.landings import Landings
from pipelines.text import count_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Base:
    """What the next file begins from: a sound file that Rollbook wrote, or nothing (full refresh)."""

    file: Path | None


class Recovery:
    """Finds what is behind; its caller is the writer."""

    def __init__(self, landings: Landings, warehouse: Warehouse, composer: Composer) -> None:
        self.landings = landings
        self.raw = landings.raw
        self.warehouse = warehouse
        self.lake = warehouse.lake
        self.composer = composer

    def recover_lake(self) -> None:
        """Compose again the days whose snapshot is not what their counted landings imply. Raises DamagedError."""
        for day in self._days_behind():
            log.warning("%s: its snapshot is not what was landed; composing it again", day)
            self.composer.recompose(self.landings.counted(day))
        self.lake.drop(self.landings.discarded_days() & self.lake.days().keys())

    def sweep(self) -> None:
        """Remove what killed writers left half-done."""
        self.warehouse.sweep()
        self.raw.sweep()
        self.lake.sweep(self.landings.expired_days())

    def is_current(self) -> bool:
        """Whether the lake and the published file are what the counted landings imply. Writes nothing."""
        if self._days_behind() or self.raw.memory.read().pending is not None:
            return False
        if not self.lake.days() and not self.landings.expired_days():
            return True
        if not self.warehouse.own.recognises(self.warehouse.published, noting=False):
            return False
        return not self.landings.discarded_days() & self.lake.days().keys() and self._holds_the_lake(
            self.warehouse.merged_days()
        )

    def _days_behind(self) -> list[date]:
        """The days whose snapshot is missing, or not made from the landings that count."""
        there = self.lake.days()
        landed = self.landings.numbers()
        return [day for day, numbers in landed.items() if day not in there or there[day].landings != numbers]

    def _holds_the_lake(self, merged: Mapping[date, str]) -> bool:
        """Whether a file that holds these days, with their digests, is up to date with the lake."""
        lake = {day: record.digest for day, record in self.lake.days().items()}
        return lake.items() <= merged.items() and not self.landings.discarded_days() & merged.keys()

    def published(self) -> Base:
        """The published file as it is, if there is one, to build the next one on."""
        published = self.warehouse.published
        return Base(published if published.is_file() else None)

    def base(self) -> Base | None:
        """What to begin from to bring the published file up to the lake; None when it is up to date.

        Raises ExpiredError when expired days would be lost that no file here holds any more; readers then have the
        newest kept file.
        """
        expired, published = self.landings.expired_days(), self.warehouse.published
        merged = self._merged(published)
        if merged is None and not self.lake.days() and not expired:
            if published.is_file():
                raise DamagedError(
                    f"raw/ holds nothing that counts, and {published} is not a file that Rollbook is known to have"
                    " written here. Restore raw/ from a backup and run `rollbook rebuild`, or move that file away to"
                    " begin with an empty warehouse"
                )
            return None
        if merged is not None and expired <= merged.keys():
            return None if self._holds_the_lake(merged) else Base(published)
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
        raise ExpiredError(_would_be_lost(sorted(expired - held.keys())))

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

    def recover_damaged(self) -> str | None:
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
        if days := [d for d in self.lake.damaged() if self.landings.counted(d) or d in merged]:
            self.lake.drop(days)
            return (
                f"The snapshots of {', '.join(map(str, days))} were damaged and have been taken out. Run"
                " `rollbook sync` (or wait for the night): it makes them again from what was landed, where that is"
                " still there"
            )
        return None

    def clear(self) -> None:
        """Remove all that was landed and made of it. For made-up institutions: a real one's raw/ has no other copy."""
        for made in (self.raw.root, self.lake.root, self.warehouse.versions.folder, self.warehouse.build / "stage"):
            shutil.rmtree(made, ignore_errors=True)
        for file in (self.warehouse.published, self.warehouse.next):
            file.unlink(missing_ok=True)
        self.warehouse.pseudonymous.clear()
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
        if own.is_there or not self.landings.expired_days() or not path.is_file():
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
    lost = f"{count_of(len(days), 'day')} ({days[0]} to {days[-1]})"
    return (
        f"The history of {lost} was only in a published file that is gone or damaged: their raw bodies have expired"
        " (ROLLBOOK_KEEP_DAYS). Put rollbook.duckdb and published/ back from a backup, or go on without these days with"
        " `rollbook rebuild --accept-loss`. What is fetched until then stays in raw/ and is merged afterwards"
    )
