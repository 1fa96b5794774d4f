"""Past days made again from what was landed: a backfill, a rebuild, a day whose landings change (G8).

Days are made again in a lake of their own until what would be removed is confirmed. Verdicts stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from rollbook.errors import ArgumentError, NotConfirmedError, NothingLandedError
from rollbook.landing.manifest import Hold, Manifest, TableCounts, Verdict
from rollbook.night.place import Place, quiet
from rollbook.night.policy import HoldLimits, change_guard, counted
from rollbook.night.stages import merge, merge_into
from rollbook.night.writing import Writer
from rollbook.source.pagination import Progress
from rollbook.store import ops
from rollbook.store.lake import DayRecord, StagedLake

# Asks whether a change may be published, given what it removes; the reason is empty if no more than on a normal night.
Confirm = Callable[[Hold], bool]


def within_hold(hold: Hold) -> bool:
    """Confirm a change that removes no more than a normal night may."""
    return not hold.reason


def always(hold: Hold) -> bool:  # noqa: ARG001 - the signature of Confirm
    """Confirm every change."""
    return True


# Reasons why a day cannot be rebuilt, and what to do.
_EXPIRED = "what was landed on {day} has expired (ROLLBOOK_KEEP_DAYS); the history keeps what it said"
_HELD = "what was landed on {day} is held; `rollbook sync --date {day} --approve` merges it"
_FAILED = "nothing that counts was landed on {day} (its syncs failed), and the service keeps no history"
_NEVER = "nothing was landed on {day}, and the service keeps no history"


def why_skipped(day: date, manifests: Sequence[Manifest], expired: Container[date] = ()) -> str:
    """The reason why a day without a landing that counts cannot be rebuilt, and what to do."""
    if not manifests:
        return (_EXPIRED if day in expired else _NEVER).format(day=day)
    return (_HELD if any(m.verdict is Verdict.HELD for m in manifests) else _FAILED).format(day=day)


@dataclass
class Backfilled:
    """The result for each day of a backfill: rebuilt, or the reason for skipping."""

    rebuilt: dict[date, DayRecord] = field(default_factory=dict)
    skipped: dict[date, str] = field(default_factory=dict)
    held: dict[date, list[int]] = field(default_factory=dict)
    counts: tuple[TableCounts, ...] = ()

    def add_day(self, day: date, manifests: Sequence[Manifest], expired: Container[date] = ()) -> list[Manifest]:
        """Record a day's held landings, or the reason for skipping the day. Returns the landings that count."""
        landings = counted(manifests)
        held = [m.landing for m in manifests if m.verdict is Verdict.HELD]
        if held:
            self.held[day] = held
        if not landings:
            self.skipped[day] = why_skipped(day, manifests, expired)
        return landings


def days_between(first: date, last: date) -> list[date]:
    """The days of a range, both ends included. Raises ArgumentError if the range ends before the beginning."""
    if last < first:
        raise ArgumentError(f"The range ends before it begins: write rollbook backfill {last} {first}")
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def backfill(writer: Writer, first: date, last: date, *, confirm: Confirm = within_hold) -> Backfilled:
    """Flatten the landed days of a range again from raw/, merge, publish once (G8).

    Raises NothingLandedError if no day of the range has a counted landing; ContractChangedError; NotConfirmedError if a
    table would lose more than the hold allows and that is not confirmed. Nothing changes then.
    """
    return backfill_days(writer, days_between(first, last), confirm=confirm)


def backfill_days(
    writer: Writer, days: Sequence[date], *, confirm: Confirm = within_hold, full_refresh: bool = False
) -> Backfilled:
    """As `backfill`, for these days; `full_refresh` merges the whole lake into an empty file."""
    place = writer.place
    with writer.writing():
        done, staged = resnapshot(place, days, writer.progress)
        if not done.rebuilt:
            raise NothingLandedError(". ".join(done.skipped.values()))
        merged = merge(place, lake=staged, full_refresh=full_refresh)
        confirm_loss(place, writer.settings, confirm)
        if merged.base is None:
            ops.check(place.raw)  # while nothing has changed
        staged.move_in()
        writer.publish(merged)
        done.counts = merged.counts
    return done


def rebuild(writer: Writer, *, confirm: Confirm = within_hold, accept_loss: bool = False) -> Backfilled:
    """Rebuild everything from `raw/` alone: the lake, the history by the definition, the record of the syncs.

    With `accept_loss`, it gives up the days that have expired and the landings that are missing from `raw/`; else
    it raises ExpiredError or LostError. Raises the errors of `backfill`, too. Nothing changes then.
    """
    place = writer.place
    with writer.unrecovered():
        expired, missing = place.landings.expired_days(), place.recovery.missing() if accept_loss else []
        if not accept_loss:
            place.recovery.refuse_to_lose()
            place.recovery.check_raw()
        undecided = place.landings.undecided()
        done, staged = resnapshot(place, place.raw.days(), writer.progress)
        if not (done.rebuilt or (accept_loss and undecided)):
            raise NothingLandedError(
                f"{place.raw.root} holds no landing that counts, so there is nothing to rebuild from: restore it"
                " from a backup. Everything else was left as it is"
            )
        staged.hide(d for d in place.lake.days() if d not in done.rebuilt)
        merged = merge_into(place, None, lake=staged, full_refresh=True)
        done.counts = merged.counts
        confirm_loss(place, writer.settings, confirm)
        ops.check(place.raw)  # while nothing has changed
        if expired:
            place.raw.forget_expired(expired)
        staged.move_in()
        writer.publish(merged)
        if missing:  # an older file would bring the loss up again
            place.warehouse.versions.retire(leaving=0)
        writer.decide(undecided)
        return done


def change_day(
    writer: Writer, day: date, manifests: Sequence[Manifest], change: Callable[[], None], confirm: Confirm
) -> None:
    """Make a day from these landings, if that is confirmed; `change` then applies it to `raw/`."""
    place, landings = writer.place, counted(manifests)
    staged = StagedLake(place.lake, place.warehouse.staged_lake)
    if landings:
        place.composer.recompose(landings, staged)
    else:
        staged.hide([day])
    without = frozenset[date]() if landings else frozenset({day})
    merge_into(place, place.recovery.published_file(), lake=staged, without=without)
    confirm_loss(place, writer.settings, confirm)
    place.warehouse.drop_next()
    change()
    writer.recover()  # as the next writer would after a kill at this point


def resnapshot(place: Place, days: Iterable[date], progress: Progress = quiet) -> tuple[Backfilled, StagedLake]:
    """Recompose days in a staged lake until the publish; verdicts stay (G8). Raises ContractChangedError."""
    done, expired_days, chosen = Backfilled(), place.raw.expired(), list(days)
    staged = StagedLake(place.lake, place.warehouse.staged_lake)
    for number, day in enumerate(chosen, start=1):
        counted = done.add_day(day, place.raw.manifests(day), expired_days)
        if counted:
            done.rebuilt[day] = place.composer.recompose(counted, staged)
        progress("days", number, len(chosen))
    return done, staged


def confirm_loss(place: Place, limits: HoldLimits, confirm: Confirm) -> None:
    """Ask whether the next file may be published. Raises NotConfirmedError if not."""
    counts, most = place.recovery.rows_lost(), limits.hold_removed_percent
    hold = Hold(reason=change_guard(counts, removed_percent=most, changed_percent=100, unverified={}), counts=counts)
    if not confirm(hold):
        place.warehouse.drop_next()
        raise NotConfirmedError(
            f"Held: {hold.reason or 'it was not confirmed'}. Nothing was changed. If it is right, run it again"
            " with --yes (in the UI: with `confirm: true` in the launchpad)",
            hold,
        )
