"""What operators do, and what is done to their work while it is under way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import stamina

from pipelines.errors import ExpiredError, NothingLandedError
from pipelines.operations.diff import diff
from pipelines.operations.status import prune
from tests.campaign import damage
from tests.campaign.campaign import KEEP_DAYS, Campaign, event
from tests.campaign.discards import call, change
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
    change(c, key, discarded=True, number=number)


@event(lambda c: bool(discarded(c)), rare=True)
def a_discarded_landing_is_put_back(c: Campaign) -> None:
    key = c.random.choice(discarded(c))
    alone = sum(k[0] == key[0] for k in discarded(c)) == 1
    number = None if alone and c.random.random() < 0.5 else key[1]
    change(c, key, discarded=False, number=number)


@event()
def two_sync_at_once(c: Campaign) -> bool:
    showing = c.showing()
    if c.is_lost() or not c.ledger.receive(showing, c.today).counts:
        return False
    with shown(c.service, showing):
        both = [forked(without_copy(c, c.house.sync)) for _ in range(2)]
        for process in both:
            process.join(60)
    c.see_what_was_judged_later()
    came = c.adopt(showing, c.today)
    codes = sorted(p.exitcode or 0 for p in both)
    assert codes == [DONE, DONE] or (c.worn and codes == [DONE, REFUSED]), codes
    assert len(came) == 2 or c.worn
    c.operate(lambda: c.rollbook.backfill(c.today, c.today))  # which copies what they have not
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
    return kill(c, lambda: call(c, *key, discarded=True, accept=True), key)


@event(lambda c: not c.is_lost() and bool(discarded(c) or discardable(c)), rare=True)
def the_undoing_of_a_discard_is_killed(c: Campaign) -> bool:
    if not discarded(c):
        a_landing_is_discarded(c)
    if c.is_lost() or not discarded(c):
        return False
    key = c.random.choice(discarded(c))
    return kill(c, lambda: call(c, *key, discarded=False, accept=True), key)


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


def kill(c: Campaign, work: Callable[[], object], key: Key | None = None) -> bool:
    """Kill a writer; sometimes a sync comes next. Returns whether the blow came before its end."""
    fresh, showing = c.fresh, c.showing()
    with shown(c.service, showing):
        hit = killed(without_copy(c, work), c.random)
    c.note("killed" if hit else "done before the blow")
    if key is not None:  # it is discarded, or put back, at one instant
        c.ledger.become(key, discarded=key not in damage.landings(c.warehouse / "raw"))
    c.see_what_was_judged_later()
    c.adopt(showing, c.today)
    c.look_after_kill(fresh)
    if c.random.random() < 0.5:
        c.sync()
    return hit


def without_copy(c: Campaign, work: Callable[[], object]) -> Callable[[], object]:
    """The same work for a forked process, in which the object store's own threads are not."""

    def alone() -> object:
        c.house.over.pop("lake", None)
        return work()

    return alone
