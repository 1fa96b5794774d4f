"""The whole Rollbook: besides the nights, what operators do with days that are landed, and the erasures.

A backfill and a rebuild make days again, in a lake of their own until what would be removed is confirmed; an approval
merges what was held. No night does any of that, so `rollbook` does not import this module.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from rollbook.errors import ArgumentError, NotConfirmedError, NothingLandedError
from rollbook.landing.manifest import PARTS, Approval, Hold, Manifest, TableCounts, Verdict
from rollbook.store.lake import DayRecord, StagedLake
from rollbook.sync.listeners import Listener
from rollbook.sync.policy import change_guard, counted, spans
from rollbook.sync.rollbook import Rollbook, Synced
from rollbook.util import machine
from rollbook.views import catalog

L = TypeVar("L", bound=Listener)

# Asks whether a change may be published, given what it removes; the reason is empty if no more than on a normal night.
Confirm = Callable[[Hold], bool]


def within_hold(asked: Hold) -> bool:
    """Confirm a change that removes no more than a normal night may."""
    return not asked.reason


def always(asked: Hold) -> bool:  # noqa: ARG001 - the signature of Confirm
    """Confirm every change."""
    return True


class Skip(StrEnum):
    """Reasons for skipping a day in a backfill, short enough for a list."""

    EXPIRED = "expired"
    HELD = "held"
    FAILED = "its syncs failed"
    NEVER = "nothing was landed"


# Reasons why a day cannot be rebuilt, and what to do.
_SAID = {
    Skip.EXPIRED: "what was landed on {day} has expired (ROLLBOOK_KEEP_DAYS); the history keeps what it said",
    Skip.HELD: "what was landed on {day} is held; `rollbook sync --date {day} --approve` merges it",
    Skip.FAILED: "nothing that counts was landed on {day} (its syncs failed), and the service keeps no history",
    Skip.NEVER: "nothing was landed on {day}, and the service keeps no history",
}


def why_skipped(day: date, manifests: Sequence[Manifest], expired: Container[date] = ()) -> Skip:
    """The reason why a day without a landing that counts cannot be rebuilt."""
    if not manifests and day in expired:
        return Skip.EXPIRED
    if any(m.verdict is Verdict.HELD for m in manifests):
        return Skip.HELD
    return Skip.FAILED if manifests else Skip.NEVER


def skipped_days(days: Mapping[date, Skip], asked: int) -> str:
    """One line: how many of the `asked` days are skipped, which, and why."""
    told = [
        f"{spans([day for day, why in days.items() if why is reason])} ({reason})"
        for reason in dict.fromkeys(days.values())
    ]
    return f"{len(days)} of {asked} {'day' if asked == 1 else 'days'}" + (f": {'; '.join(told)}" if told else "")


@dataclass
class Backfilled:
    """The result for each day of a backfill: rebuilt, or why it was skipped, in a word and in a sentence."""

    rebuilt: dict[date, DayRecord] = field(default_factory=dict)
    why: dict[date, Skip] = field(default_factory=dict)
    skipped: dict[date, str] = field(default_factory=dict)
    held: dict[date, list[int]] = field(default_factory=dict)
    counts: tuple[TableCounts, ...] = ()

    def add_day(self, day: date, manifests: Sequence[Manifest], expired: Container[date] = ()) -> list[Manifest]:
        """Record a day's held landings, or why it is skipped. Returns its landings that count."""
        landings = counted(manifests)
        held = [m.landing for m in manifests if m.verdict is Verdict.HELD]
        if held:
            self.held[day] = held
        if not landings:
            self.why[day] = why_skipped(day, manifests, expired)
            self.skipped[day] = _SAID[self.why[day]].format(day=day)
        return landings


def days_between(first: date, last: date) -> list[date]:
    """The days of a range, both ends included. Raises ArgumentError if it ends before it begins."""
    if last < first:
        raise ArgumentError(f"The range ends before it begins: write rollbook backfill {last} {first}")
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


class WholeRollbook(Rollbook):
    """One institution's warehouse, with all its operations."""

    def approve(
        self, day: date | None = None, *, every_day: bool = False, only: Collection[str] = (), reason: str = ""
    ) -> Synced:
        """Merge and publish a day's held landing (default: the newest), or those of every held day in their order, or
        `only` parts of them, without a fetch (G3).

        The landings are those that are held when this is called, not those that a sync holds meanwhile. The `reason` is
        kept with them. Returns the newest day's result. Raises ArgumentError.
        """
        shown = self.to_approve(day, every_day=every_day)
        with self.writer():
            held = self.held_as_shown([each.hold_digest for each in shown])
            *_, (manifest, record) = [self.snapshot(each, self.approval(each, only, reason)) for each in held]
            merged = self.merge()
            self.publish(merged)
        self.check_listeners()
        return Synced(manifest, record, merged.counts)

    def approval(self, held: Manifest, only: Collection[str] = (), reason: str = "", by: str = "") -> Approval:
        """The approval of a held landing, or of `only` these parts, `by` somebody (default: the person who runs this).
        With the last part, all of it is approved.

        Raises ArgumentError for parts that there are not, and for a reason that holds a secret.
        """
        self.settings.check_words(reason)
        if not {*only} <= {*PARTS}:
            raise ArgumentError(f"Parts of what was held are {', '.join(PARTS)}: choose from them")
        is_whole = held.parts.union(only) == {*PARTS}
        return Approval(
            by=by or machine.person(),
            approved_at=self.clock(),
            reason=reason,
            parts=() if is_whole else tuple(sorted({*only})),
            held=held.reason,
            held_at=held.judged_at or held.finished_at,
            counts=held.counts,
        )

    def to_approve(self, day: date | None = None, *, every_day: bool = False) -> list[Manifest]:
        """The held landings that an approval merges, in the order of their days: a day's (default: the newest held
        day's), or those of every day.

        Raises ArgumentError if nothing is held.
        """
        days = self.raw.days() if day is None else [day]
        found = [held for each in days if (held := self.landings.held(each)) is not None]
        if not found:
            of = f"on {day}" if day else "on any day"
            raise ArgumentError(
                f"Nothing is held {of}, so there is nothing to approve. `rollbook status` lists what is held"
            )
        return found if every_day else found[-1:]

    def held_as_shown(self, digests: Collection[str], days: Collection[date] | None = None) -> list[Manifest]:
        """The held landings of these days (default: of any) with these digests, in the order of their days. Requires
        the writer lock: while an approval waits for it, another sync may hold or merge something else.

        Raises ArgumentError unless each of them is still held as a person was shown.
        """
        held = [each for day in self.raw.days() if (each := self.landings.held(day)) is not None]
        found = [m for m in held if m.hold_digest in digests and (days is None or m.snapshot_date in days)]
        if not digests or len(found) < len({*digests}):
            raise ArgumentError(
                "An approval names held landings by their digests, and what was named is not held now, or would change"
                " something else: look at `rollbook status`, then approve what it shows. Nothing was merged"
            )
        return found

    def backfill(self, first: date, last: date, *, confirm: Confirm = within_hold) -> Backfilled:
        """Flatten the landed days of a range again from raw/, merge them, publish once (G8).

        Raises NothingLandedError if no day of the range has a counted landing; ContractChangedError; HeldError if a
        table would lose more than the hold allows and that is not confirmed. Nothing changes then.
        """
        days = days_between(first, last)
        with self.writer():
            done, staged = self.resnapshot(days)
            if not done.rebuilt:
                raise NothingLandedError(". ".join(done.skipped.values()), list(done.skipped))
            done.counts = self.publish_staged(staged, confirm=confirm)
            return done

    def publish_staged(
        self, staged: StagedLake, *, confirm: Confirm, full_refresh: bool = False
    ) -> tuple[TableCounts, ...]:
        """Merge recomposed days, move them into the lake and publish them. Returns the changes per current table.

        Raises HeldError if they remove more than the hold allows and that is not confirmed; nothing changes then.
        """
        if full_refresh:
            self.recovery.refuse_to_lose()
        base = None if full_refresh else self.recovery.published()
        merged = self.merge_into(base, lake=staged, full_refresh=full_refresh)
        self.confirm_loss(confirm)
        staged.move_in()
        self.publish(merged)
        return merged.counts

    def rebuild(self, *, confirm: Confirm = within_hold, accept_loss: bool = False) -> Backfilled:
        """Rebuild everything from `raw/` alone: the lake, the history by its definition, the record of the syncs.

        With `accept_loss`, it gives up the days that have expired and the landings that are missing from `raw/`; else
        it raises ExpiredError or LostError. Raises the errors of `backfill`, too. Nothing changes then.
        """
        with self.writer(recover=False):
            expired, lost = self.landings.expired_days(), self.recovery.missing() if accept_loss else []
            if not accept_loss:
                self.recovery.refuse_to_lose()
                self.recovery.check_raw()
            undecided = self.landings.undecided()
            done, staged = self.resnapshot(self.raw.days())
            if not (done.rebuilt or (accept_loss and undecided)):
                raise NothingLandedError(
                    f"{self.raw.root} holds no landing that counts, so there is nothing to rebuild from: restore it"
                    " from a backup. Everything else was left as it is"
                )
            staged.hide(d for d in self.lake.days() if d not in done.rebuilt)
            merged = self.merge_into(None, lake=staged, full_refresh=True)
            done.counts = merged.counts
            self.confirm_loss(confirm)
            if expired:
                self.raw.forget_expired(expired)
            staged.move_in()
            self.publish(merged)
            if lost:  # an older file would bring the loss up again
                self.warehouse.versions.retire(leaving=0)
            self.decide(undecided)
            return done

    def change_day(
        self, day: date, manifests: Sequence[Manifest], change: Callable[[], None], confirm: Confirm
    ) -> None:
        """Make a day from these landings, if that is confirmed; `change` then applies it to `raw/`."""
        landings = counted(manifests)
        staged = StagedLake(self.lake, self.warehouse.staged_lake)
        if landings:
            self.composer.recompose(landings, staged)
        else:
            staged.hide([day])
        without = frozenset[date]() if landings else frozenset({day})
        self.merge_into(self.recovery.published(), lake=staged, without=without)
        self.confirm_loss(confirm)
        self.warehouse.drop_next()
        change()
        self.recover()  # as the next writer would after a kill at this point

    def resnapshot(self, days: Iterable[date]) -> tuple[Backfilled, StagedLake]:
        """Recompose days in a staged lake until the publish; verdicts stay (G8). Raises ContractChangedError."""
        done, expired_days, asked = Backfilled(), self.raw.expired(), list(days)
        staged = StagedLake(self.lake, self.warehouse.staged_lake)
        for number, day in enumerate(asked, start=1):
            counted = done.add_day(day, self.raw.manifests(day), expired_days)
            if counted:
                done.rebuilt[day] = self.composer.recompose(counted, staged)
            self.progress("days", number, len(asked))
        return done, staged

    def confirm_loss(self, confirm: Confirm) -> None:
        """Ask whether the next file may be published. Raises NotConfirmedError if not."""
        counts, most = self.recovery.lost(), self.settings.hold_removed_percent
        asked = Hold(
            reason=change_guard(counts, removed_percent=most, changed_percent=100, unverified={}), counts=counts
        )
        if not confirm(asked):
            self.warehouse.drop_next()
            raise NotConfirmedError(
                f"Held: {asked.reason or 'it was not confirmed'}. Nothing was changed. If it is right, run it again"
                " with --yes (in the UI: with `confirm: true` in the launchpad)",
                asked,
            )

    def backfilled(self, days: Iterable[date], lake: Mapping[date, DayRecord]) -> Backfilled:
        """The result of a backfill of these days: the new snapshots, and the skipped days with the reason."""
        done = Backfilled()
        for day in days:
            done.add_day(day, self.raw.manifests(day), self.raw.expired())
            if day not in done.skipped and day in lake:
                done.rebuilt[day] = lake[day]
        return done

    def restore(self, kept: Path) -> None:
        """Publish an earlier file again; the next writer brings it up to date first. Raises DamagedError."""
        with self.writer(recover=False):
            merged = self.warehouse.merged_days(kept)
            shown = [
                record for day, record in self.lake.days().items() if day in merged
            ]  # without days that have expired from the lake
            self.warehouse.restore(kept, lambda con: catalog.create_snapshots(con, self.lake, shown))
            self.tell(lambda listener: listener.began(self.clock()))
            self.tell(lambda listener: listener.published(self.clock()))

    def listener(self, kind: type[L]) -> L:
        """The listener of a class."""
        return next(each for each in self.listeners if isinstance(each, kind))

    def clear(self) -> None:
        """Remove everything landed and derived. For made-up institutions: a real one's raw/ has no other copy."""
        for made in (self.raw.root, self.lake.root, self.warehouse.versions.folder, self.warehouse.build / "stage"):
            shutil.rmtree(made, ignore_errors=True)
        for file in (self.warehouse.published, self.warehouse.next):
            file.unlink(missing_ok=True)
        self.warehouse.pseudonymous.clear()
        self.warehouse.prepare()
