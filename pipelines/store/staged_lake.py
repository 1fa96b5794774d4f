"""Staged days on top of the lake: a backfill before its publish."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from pipelines import files
from pipelines.store.lake import DayRecord, Lake


class StagedLake(Lake):
    """Staged days on top of another lake, which stays unchanged until `move_in`.

    A day that was made here replaces the same day below; a `hidden` day does not exist. So a backfill can be merged and
    shown to a person before any file of the lake changes.
    """

    def __init__(self, below: Lake, root: Path) -> None:
        super().__init__(files.empty(root), below.mode)
        self.below = below
        self.hidden: frozenset[date] = frozenset()

    def hide(self, days: Iterable[date]) -> None:
        """Hide these days."""
        self.hidden |= frozenset(days)

    def days(self) -> dict[date, DayRecord]:
        """Every complete day, made here or below, in order."""
        found = self.below.days() | super().days()
        return {day: found[day] for day in sorted(found) if day not in self.hidden}

    def move_in(self) -> None:
        """Move the days that were made here into the lake below, and remove the hidden ones from it."""
        for day, record in super().days().items():
            if day not in self.hidden:
                self.below.take(record, self.root)
        self.below.drop(self.hidden & self.below.days().keys())
        shutil.rmtree(self.root, ignore_errors=True)

    def _part(self, name: str, day: date) -> Path:
        mine = self.own(name, day)
        return mine if mine.exists() else self.below._part(name, day)
