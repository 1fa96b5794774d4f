"""What operators do, and what is done to their work while it is under way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

import stamina

from pipelines.errors import DamagedError, ExpiredError, HeldError, NothingLandedError
from pipelines.operations import discard as discards
from pipelines.operations.diff import diff
from pipelines.operations.prune import prune
from pipelines.sync import always, within_hold
from tests.campaign import damage
from tests.campaign.campaign import KEEP_DAYS, Campaign, event
from tests.campaign.kills import DONE, REFUSED, forked, killed
from tests.campaign.ledger import Key
from tests.campaign.school import shown
from tests.support.nights import TRIES, night

COUNTED_LEAST = 4  # landings that are always left


@event()
def a_range_is_backfilled(c: Campaign) -> None:
    first = c.random.randint(1, c.number)
    last = c.random.randint(first, c.number)
    c.note(f"{night(first)} to {night(last)}")
    there = [x for x in c.ledger.counted() if night(first) <= x.day <= night(last) and not x.expired]
    c.operate(lambda: c.rollbook.backfill(night(first), night(last)), fails=None if there else NothingLandedError)


@event()
def everything_is_rebuilt(c: Campaign) -> None:
    c.operate(lambda: c.rollbook.rebuild(), fails=ExpiredError if c.ledger.expired() else None)


@event(lambda c: "keep_days" in c.house.over)
def old_days_are_pruned(c: Campaign) -> None:
    c.operate(lambda: prune(c.rollbook))


@event(lambda c: c.fresh)
def somebody_looks_at_what_a_sync_would_do(c: Campaign) -> None:
    before = (damage.digest(c.published), damage.landings(c.warehouse / "raw"))
    quickly = stamina.set_testing(True, attempts=TRIES, cap=True)
    with shown(c.service, c.showing()), quickly:
        diff(c.rollbook)
    assert (damage.digest(c.published), damage.landings(c.warehouse / "raw")) == before


@event(lambda c: bool(discardable(c)))
def a_landing_is_discarded(c: Campaign) -> None:
    key = c.random.choice(discardable(c))
    last = max(k for k, x in c.ledger.landings.items() if x.day == key[0] and x.counts)
    number = None if key == last and c.random.random() < 0.5 else key[1]
    change(c, key, discarded=True, call=lambda accept: discard(c, key[0], number, accept=accept))


@event(lambda c: bool(discarded(c)), rare=True)
def a_discarded_landing_is_put_back(c: Campaign) -> None:
    key = c.random.choice(discarded(c))
    alone = sum(k[0] == key[0] for k in discarded(c)) == 1
    number = None if alone and c.random.random() < 0.5 else key[1]
    change(c, key, discarded=False, call=lambda accept: undo_discard(c, key[0], number, accept=accept))


@event()
def two_sync_at_once(c: Campaign) -> bool:
    showing = c.showing()
    if c.is_lost() or not c.ledger.receive(showing, c.today).counts:
        return False
    with shown(c.service, showing):
        both = [forked(c.house.sync) for _ in range(2)]
        for process in both:
            process.join(60)
    came = c.adopt(showing, c.today)
    codes = sorted(p.exitcode or 0 for p in both)
    assert codes == [DONE, DONE] or (c.worn and codes == [DONE, REFUSED]), codes
    assert len(came) == 2 or c.worn
    c.settle()
    return True


@event(lambda c: not c.is_lost())
def a_sync_is_killed(c: Campaign) -> bool:
    return kill(c, c.house.sync)


@event(lambda c: not c.is_lost())
def a_backfill_is_killed(c: Campaign) -> bool:
    return kill(c, lambda: c.rollbook.backfill(night(1), c.today))


@event(lambda c: not c.is_lost() and not c.ledger.expired(), rare=True)
def a_rebuild_is_killed(c: Campaign) -> bool:
    return kill(c, lambda: c.rollbook.rebuild())


@event(lambda c: not c.is_lost() and bool(discardable(c)))
def a_discard_is_killed(c: Campaign) -> bool:
    key = c.random.choice(discardable(c))
    return kill(c, lambda: discard(c, *key, accept=True), key)


@event(lambda c: not c.is_lost() and bool(discarded(c) or discardable(c)), rare=True)
def the_undoing_of_a_discard_is_killed(c: Campaign) -> bool:
    if not discarded(c):
        a_landing_is_discarded(c)
    if c.is_lost() or not discarded(c):
        return False
    key = c.random.choice(discarded(c))
    return kill(c, lambda: undo_discard(c, *key, accept=True), key)


# --- what several have in common -------------------------------------------------------------------------------------


def discardable(c: Campaign) -> list[Key]:
    """The landings that may be discarded: they count and are on disk, and some others are left."""
    if len(c.ledger.counted()) <= COUNTED_LEAST:
        return []
    return sorted(k for k, x in c.ledger.landings.items() if x.counts and not x.expired)


def discarded(c: Campaign) -> list[Key]:
    """The discarded landings whose days are too young to expire."""
    kept_from = c.today - timedelta(days=KEEP_DAYS - 2) if "keep_days" in c.house.over else night(1)
    return sorted(k for k, x in c.ledger.landings.items() if x.discarded and x.day >= kept_from)


def discard(c: Campaign, day: date, number: int | None, *, accept: bool) -> None:
    """Take a landing back: the last counted one of its day, without a number."""
    confirm = always if accept else within_hold
    discards.discard(c.rollbook, day, number, reason="the campaign says so", confirm=confirm)


def undo_discard(c: Campaign, day: date, number: int | None, *, accept: bool) -> None:
    """Put a discarded landing back."""
    discards.undo_discard(c.rollbook, day, number, confirm=always if accept else within_hold)


def change(c: Campaign, key: Key, *, discarded: bool, call: Callable[[bool], None]) -> None:
    """Discard a landing, or put it back: what would take many rows away is held until somebody accepts it."""
    c.note(f"{key[0]} landing {key[1]}")
    accept = False
    if c.ledger.would_lose(key, discarded=discarded):
        c.operate(lambda: call(False), fails=HeldError)
        accept = True

    def once() -> None:
        try:
            call(accept)
        except DamagedError:
            if (key in damage.landings(c.warehouse / "raw")) == discarded:
                raise  # the landing is where it was
            c.note("a snapshot turned out to be damaged when the landing had been moved")

    c.operate(once, done=lambda: c.ledger.become(key, discarded=discarded), behind=c.worn)


def kill(c: Campaign, work: Callable[[], object], key: Key | None = None) -> bool:
    """Kill a writer; sometimes a sync comes next. Returns whether the blow came before its end."""
    fresh, showing = c.fresh, c.showing()
    with shown(c.service, showing):
        hit = killed(work, c.random)
    c.note("killed" if hit else "done before the blow")
    if key is not None:  # it is discarded, or put back, at one instant
        c.ledger.become(key, discarded=key not in damage.landings(c.warehouse / "raw"))
    c.adopt(showing, c.today)
    c.look_after_kill(fresh)
    if c.random.random() < 0.5:
        c.sync()
    return hit
