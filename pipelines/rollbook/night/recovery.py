"""Recovery: before any decision, the warehouse is brought to the state that the counted landings imply (G4).

A killed writer, a full disk, a lost, damaged or restored file, or rows that somebody changed in the published file
leave the lake or the published file behind `raw/`. This module finds what is behind and what to start from; the caller
merges and publishes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path

from rollbook.errors import DamagedError, ExpiredError, LostError
from rollbook.landing.manifest import TableCounts
from rollbook.night import policy
from rollbook.night.landings import Composer, Landings
from rollbook.store import ops
from rollbook.store.warehouse import Warehouse
from rollbook.util.text import count_of, listed

log = logging.getLogger(__name__)


# A landing: the day, and the number within the day.
Key = tuple[date, int]


def _is_there(here: Mapping[Key, datetime | None], key: Key, began: datetime | None) -> bool:
    """Whether a landing is here: by the number and, where both are known, by the time when the sync began."""
    return key in here and (began is None or here[key] in (None, began))


class Recovery:
    """Finds what is behind `raw/`. Requires the writer lock."""

    def __init__(self, landings: Landings, warehouse: Warehouse, composer: Composer) -> None:
        self.landings = landings
        self.raw = landings.raw
        self.warehouse = warehouse
        self.lake = warehouse.lake
        self.composer = composer

    def recover_lake(self) -> None:
        """Recompose the days whose snapshot does not match their counted landings. Raises DamagedError."""
        for day in self._days_behind():
            log.warning("%s: its snapshot is not of the landings that count now; composing it again", day)
            self.composer.recompose(self.landings.counted(day))
        self.lake.drop(self.landings.discarded_days() & self.lake.days(sized=False).keys())

    def recorded(self) -> dict[Key, datetime | None]:
        """The landings that were there once, as the lake or the published file says: by day and number, when each
        began, if that is known.
        """
        recorded: dict[Key, datetime | None] = {
            (day, number): None for day, record in self.lake.days(sized=False).items() for number in record.landings
        }
        for path in (self.warehouse.published_file, *self.warehouse.kept()):
            if self.warehouse.own.is_unmodified(path):
                with suppress(DamagedError):  # `base` deals with it; an older file knows less, but may still know
                    recorded |= self.warehouse.recorded(path)
                    break
        return recorded

    def missing(self) -> list[Key]:
        """The landings that `raw/` has lost, as day and number: once landed, and neither discarded nor
        expired. A landing replaced by another with the same number counts as lost. Writes nothing.
        """
        here = self.raw.began()
        missing = [each for each, began in self.recorded().items() if not _is_there(here, each, began)]
        return sorted(each for each in missing if not self.raw.has_expired(each[0]))

    def check_raw(self) -> None:
        """Raise LostError if `raw/` has lost landings."""
        if missing := self.missing():
            days = policy.spans(sorted({day for day, _ in missing}))
            raise LostError(
                f"raw/ lacks {count_of(len(missing), 'landing')} that the snapshots and the history were made from:"
                f" {days}. Restore what is missing to raw/ from a backup or, with ROLLBOOK_LAKE, from the copy"
                " (`rollbook mirror restore --into FOLDER`); or give it up with `rollbook rebuild --accept-loss`."
                " Landings fetched until then stay in raw/ and are merged afterwards"
            )

    def sweep(self) -> None:
        """Remove what killed writers left half-done."""
        self.warehouse.sweep()
        self.raw.sweep()
        self.lake.sweep(self.landings.expired_days())

    def is_current(self) -> bool:
        """Whether the lake and the published file match the counted landings. Writes nothing."""
        if self.missing() or self._days_behind() or self.raw.erasure_register.read().pending is not None:
            return False
        return not self.warehouse.own.lacks_erasures(self.warehouse.published_file) and not self.is_behind()

    def is_behind(self) -> bool:
        """Whether the published file does not match the lake, or is not as Rollbook wrote it. Writes nothing."""
        expired, published = self.landings.expired_days(), self.warehouse.published_file
        merged = self._merged(published)
        if merged is None:
            return bool(self.lake.days() or expired or published.is_file())
        return not (expired <= merged.keys() and self._holds_the_lake(merged) and self._holds_the_outcomes(published))

    def _days_behind(self) -> list[date]:
        """The days whose snapshot is missing, or not made from their counted landings."""
        composed = {day: record.landings for day, record in self.lake.days().items()}
        landed = self.landings.counted_days().items()
        wanted = {day: tuple(m.landing for m in landings) for day, landings in landed}
        return [day for day, of in wanted.items() if composed.get(day) != of]

    def _holds_the_lake(self, merged: Mapping[date, str]) -> bool:
        """Whether a file with the `merged` days and digests is up to date with the lake."""
        lake = {day: record.digest for day, record in self.lake.days(sized=False).items()}
        return lake.items() <= merged.items() and not self.landings.discarded_days() & merged.keys()

    def _holds_the_outcomes(self, path: Path) -> bool:
        """Whether the outcomes that a file records are still true: a held landing may have been discarded."""
        outcomes = self.warehouse.outcomes(path)
        here = {(m.snapshot_date, m.landing): outcome for m, outcome, _ in ops.decided(self.raw)}
        return all(outcomes[each] == here[each] for each in outcomes.keys() & here.keys())

    def published_file(self) -> Path | None:
        """The published file, if any."""
        return self.warehouse.published_file if self.warehouse.published_file.is_file() else None

    def base(self) -> Path | None:
        """The file to bring up to the lake where the published file is behind: a sound file that Rollbook wrote, or
        None for an empty file.

        Raises ExpiredError if no file here holds all expired days any more; readers then get the newest kept file.
        """
        expired, published = self.landings.expired_days(), self.warehouse.published_file
        merged = self._merged(published)
        if merged is None and not self.lake.days() and not expired:
            raise DamagedError(
                f"raw/ holds no landing that counts, and {published} is not a file that Rollbook wrote here."
                " Restore raw/ from a backup and run `rollbook rebuild`, or move that file away to begin with an"
                " empty warehouse"
            )
        if merged is not None and expired <= merged.keys():
            return published
        if published.exists() and merged is None:
            log.warning("%s was changed or damaged since it was published; making it again", published.name)
        versions = [(path, days) for path in self.warehouse.kept() if (days := self._merged(path)) is not None]
        for path, days in versions:
            if expired <= days.keys() and self.warehouse.is_sound(path, thoroughly=True):
                return path
        if not expired:
            return None
        self._restore_newest([path for path, _ in versions])
        held = merged or (versions[0][1] if versions else {})
        lost_days = sorted(expired - held.keys())
        span = f"{count_of(len(lost_days), 'day')} ({lost_days[0]} to {lost_days[-1]})"
        raise ExpiredError(
            f"The history of {span} was only in a published file that is gone or damaged: their raw bodies have expired"
            " (ROLLBOOK_KEEP_DAYS). Restore rollbook.duckdb, published/ and private/ from the same backup (a file of"
            " any night is recognised, but only with private/erasures/), or give up these days with `rollbook"
            " rebuild --accept-loss`. Landings fetched until then stay in raw/ and are merged afterwards"
        )

    def rows_lost(self) -> tuple[TableCounts, ...]:
        """Rows of the published file that the next file lacks, as counts per current table.

        If the published file is lost, damaged or not ours, compares with the newest kept file.
        """
        for path in (self.warehouse.published_file, *self.warehouse.kept()):
            if self._merged(path) is not None:
                try:
                    return self.warehouse.rows_lost(path)
                except DamagedError:
                    continue
        return ()

    def recover_damaged(self) -> str | None:
        """Find damaged files and remove or replace them; returns a message with what was done and what to run.

        This reads every file, so call it only after a file could not be read. None if nothing could be repaired.
        """
        published = self.warehouse.published_file
        if published.is_file() and not self.warehouse.is_sound(thoroughly=True):
            self.warehouse.own.forget()
            self._restore_newest(self.warehouse.kept())
            return (
                f"{published.name} was damaged. Run `rollbook sync` (or wait for the night): it first makes the file"
                " again from raw/. Until then readers have the previously published file, if one is kept"
            )
        merged = self._merged(published) or {}
        if days := [d for d in self.lake.damaged() if self.landings.counted(d) or d in merged]:
            self.lake.drop(days)
            return (
                f"The snapshots of {', '.join(map(str, days))} were damaged and have been removed. Run"
                " `rollbook sync` (or wait for the night): it makes them again from what raw/ still holds"
            )
        return None

    def kept_from(self, keep_days: int) -> date:
        """The first kept day, counted back from the newest counted day, since this machine's clock may be wrong."""
        newest = max(self.lake.days(), default=None)
        return newest - timedelta(days=keep_days - 1) if newest else date.min

    def expirable(self, keep_days: int | None) -> list[date]:
        """The days whose raw bodies and snapshots may be deleted, in order; none without `keep_days`.

        The published file holds them, and each kept older file too, since it may be restored. A day stays on disk for
        one night after it has left the views, for readers that still have last night's file open. A held day stays.
        """
        if not keep_days or not (there := self.lake.days()):
            return []
        before = self.kept_from(keep_days) - timedelta(days=1)
        landed = {*there, *self.raw.days(), *self.raw.discarded_days()}
        old = sorted(d for d in landed if d < before and self.landings.held(d) is None)
        merged = self.warehouse.merged_everywhere() if old else {}
        return [d for d in old if d not in there or merged.get(d) == there[d].digest]

    def expire(self, days: list[date]) -> None:
        """Delete the raw bodies and snapshots of days; the history keeps the content (G7).

        The list of expired days is written first: from then on, `raw/` alone cannot rebuild the tables, and a rebuild
        is refused.
        """
        if days:
            self.raw.expire(days, noted=self.warehouse.merged_days())
            self.lake.drop(days)
            log.info("Deleted the raw bodies and snapshots of %d days, %s to %s", len(days), days[0], days[-1])

    def refuse_to_lose(self) -> None:
        """Raise ExpiredError if a rebuild would lose expired days, whether or not a file still holds them."""
        expired = sorted(self.landings.expired_days())
        if expired:
            raise ExpiredError(
                f"The history holds {count_of(len(expired), 'day')} ({expired[0]} to {expired[-1]}) whose raw bodies"
                " were deleted (ROLLBOOK_KEEP_DAYS), and a rebuild from raw/ would lose them. It was refused and"
                " nothing was changed. `rollbook backfill FROM TO` rebuilds the days that raw/ still holds; to rebuild"
                " all, restore the others to raw/ from a backup first, or accept the loss with `rollbook rebuild"
                " --accept-loss`"
            )

    def refuse_retracked(self, base: Path | None) -> None:
        """Raise ExpiredError if the history of expired days would need columns that were untracked, or hold columns
        that are untracked now.
        """
        columns = self.warehouse.retracked(base) if base else []
        if columns:
            expired = sorted(self.landings.expired_days())
            raise ExpiredError(
                f"ROLLBOOK_UNTRACKED was changed ({listed(columns)}), so all history must be computed again, but what"
                f" was landed on {count_of(len(expired), 'day')} ({expired[0]} to {expired[-1]}) has expired (see"
                " ROLLBOOK_KEEP_DAYS). Nothing was changed: set it as it was, or accept the loss with `rollbook"
                " rebuild --accept-loss`"
            )

    def _merged(self, path: Path) -> dict[date, str] | None:
        """The merged days of a readable file that Rollbook wrote; else None."""
        if not self.warehouse.own.is_unmodified(path):
            return None
        try:
            return self.warehouse.merged_days(path)
        except DamagedError:
            return None

    def _restore_newest(self, versions: list[Path]) -> None:
        """Restore the newest sound kept file if the published file is lost or not ours."""
        own = self.warehouse.own
        if own.is_unmodified(self.warehouse.published_file):
            return
        for path in versions:
            if own.is_unmodified(path) and self.warehouse.is_sound(path, thoroughly=True):
                self.warehouse.restore(path)
                return
