"""Operators' commands, and trouble in the middle of the work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

import stamina

from rollbook.errors import DamagedError, ExpiredError, HeldError, NothingLandedError
from rollbook.features.mirror.mirror import Mirror
from rollbook.night import discard as discards
from rollbook.night import past
from rollbook.night.diff import diff
from rollbook.night.past import always, within_hold
from rollbook.night.prune import prune
from rollbook.rights.erasure import erase
from tests.campaign import damage
from tests.campaign.campaign import DONE, KEEP_DAYS, REFUSED, Campaign, event, forked, killed
from tests.campaign.disk import ANOTHER_BYTE, BROKEN, FULL, POWER_FAILS, STOPPED, Trouble
from tests.campaign.ledger import Key
from tests.campaign.school import shown
from tests.support.nights import TRIES, approve_held, night

MIN_COUNTED = 4  # landings that are always left
MAX_STEPS = 160  # a night takes about 130; one that has to recover first, more
MAX_MOVES = 25  # of those, the renames and links
BY_NUMBER = -1


@event()
def a_range_is_backfilled(c: Campaign) -> None:
    first = c.random.randint(1, c.number)
    last = c.random.randint(first, c.number)
    c.note(f"{night(first)} to {night(last)}")
    there = [x for x in c.ledger.counted() if night(first) <= x.day <= night(last) and not x.expired]
    c.operate(
        lambda: past.backfill(c.rollbook.writer(), night(first), night(last)),
        fails=None if there else NothingLandedError,
    )


@event()
def everything_is_rebuilt(c: Campaign) -> None:
    c.operate(lambda: past.rebuild(c.rollbook.writer()), fails=ExpiredError if c.ledger.expired() else None)


@event(lambda c: "keep_days" in c.house.over)
def old_days_are_pruned(c: Campaign) -> None:
    c.operate(lambda: prune(c.rollbook.writer()))


@event(lambda c: c.fresh)
def somebody_looks_at_what_a_sync_would_do(c: Campaign) -> None:
    before = (damage.digest(c.published), damage.landings(c.warehouse / "raw"))
    quickly = stamina.set_testing(True, attempts=TRIES, cap=True)
    with shown(c.service, c.showing()), quickly:
        diff(c.rollbook.place, c.rollbook.settings, clock=c.rollbook.clock)
    assert (damage.digest(c.published), damage.landings(c.warehouse / "raw")) == before


@event(lambda c: bool(discardable(c)))
def a_landing_is_discarded(c: Campaign) -> None:
    key = c.random.choice(discardable(c))
    last = max(k for k, x in c.ledger.landings.items() if x.day == key[0] and x.counts)
    number = None if key == last and c.random.random() < 0.5 else key[1]
    change(c, key, discarded=True, number=number)


@event(lambda c: bool(discarded(c)), weight=3)
def a_discarded_landing_is_put_back(c: Campaign) -> None:
    key = c.random.choice(discarded(c))
    alone = sum(k[0] == key[0] for k in discarded(c)) == 1
    number = None if alone and c.random.random() < 0.5 else key[1]
    change(c, key, discarded=False, number=number)


@event(lambda c: c.fresh and bool(erasable(c)))
def a_student_is_erased(c: Campaign) -> None:
    student = c.random.choice(erasable(c))
    c.note(f"{student} is erased")
    forget_backups(c)
    c.operate(lambda: erasing(c, student), done=lambda: c.ledger.erase(student))
    if c.random.random() < 0.5:
        c.school.pupils.pop(student, None)


@event(lambda c: c.fresh)
def the_warehouse_is_moved(c: Campaign) -> None:
    moved = c.warehouse.with_name("moved" if c.warehouse.name == "w" else "w")
    c.warehouse.rename(moved)
    c.house.warehouse = c.disk.root = moved
    forget_backups(c)  # whose views would read snapshots that are not there
    c.sync()


def can_prove(c: Campaign) -> bool:
    """Whether there is a copy and nothing is damaged. Where days have expired, the kept files are looked at, too."""
    is_whole = not c.ledger.expired() or all(map(c.is_own, c.kept()))
    return c.fresh and c.copy is not None and not c.worn and is_whole


@event(can_prove)
def the_copy_is_proven(c: Campaign) -> None:
    prove(c)


def prove(c: Campaign) -> None:
    """Restore the copy beside, and compare the result with what readers have: there is no difference."""
    mirror = c.rollbook.listener(Mirror)

    def prove() -> None:
        with c.rollbook.writer().writing():
            mirror.prove(c.house.now)

    c.operate(prove)
    assert mirror.status()[1].proven_at == c.house.now, mirror.status()


@event(weight=0.5)
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
    c.operate(lambda: past.backfill(c.rollbook.writer(), c.today, c.today))  # which copies what other places lack
    return True


@event(lambda c: not c.is_lost(), weight=0.7)
def a_sync_is_killed(c: Campaign) -> bool:
    fresh, showing = c.fresh, c.showing()
    with shown(c.service, showing):
        hit = killed(without_copy(c, c.house.sync), c.random.randint(1, MAX_MOVES))
    c.note("killed" if hit else "done before the blow")
    c.see_what_was_judged_later()
    c.adopt(showing, c.today)
    c.fresh = False
    if fresh and damage.digest(c.published) not in c.known:
        c.look_at_published("neither the old nor the new night:")
    return hit


# --- what happens to a writer on the way -----------------------------------------------------------------------------


@event(lambda c: not c.is_lost(), weight=4)
def a_writer_is_stopped(c: Campaign) -> None:
    interrupt(c, STOPPED)


@event(lambda c: not c.is_lost(), weight=4)
def the_power_fails(c: Campaign) -> None:
    interrupt(c, STOPPED if c.in_second_process else POWER_FAILS)  # whose files this process does not see written


@event(lambda c: not c.is_lost(), weight=2)
def the_disk_is_full(c: Campaign) -> None:
    interrupt(c, FULL, lasting=c.random.random() < 0.5)


@event(lambda c: not c.is_lost(), weight=2)
def the_disk_is_broken(c: Campaign) -> None:
    interrupt(c, BROKEN, lasting=c.random.random() < 0.5)


# The copy would keep the other byte when the disk is mended.
@event(lambda c: c.fresh and not c.is_lost() and c.copy is None, weight=2)
def the_disk_keeps_another_byte(c: Campaign) -> None:
    interrupt(c, ANOTHER_BYTE)


class Work(NamedTuple):
    """The work of a writer, and what tells the model whether the work was done: at one instant, or not at all."""

    play: Callable[[], object]
    done: Callable[[], None] = lambda: None


def interrupt(c: Campaign, what: str, *, lasting: bool = False) -> None:
    """Something happens to a writer, at whatever moment; sometimes a sync comes next."""
    works = {"sync": Work(c.house.sync), **other_works(c)}
    name = "sync" if c.random.random() < 0.5 else c.random.choice(sorted(works))
    c.note(f"at the {name}")
    if name == "erasure":
        forget_backups(c)
    c.interrupt(*works[name], Trouble(what, c.random.randint(1, MAX_STEPS), c.random, lasting), c.showing())
    if c.random.random() < 0.5:
        c.sync()


def other_works(c: Campaign) -> dict[str, Work]:
    """The works of a writer besides a sync."""
    works = {"backfill": Work(lambda: past.backfill(c.rollbook.writer(), night(1), c.today))}
    if not c.ledger.expired():
        works["rebuild"] = Work(lambda: past.rebuild(c.rollbook.writer(), confirm=always))
    if waiting := c.ledger.waiting():
        works["approval"] = approval(c, *c.random.choice(sorted(waiting.items())))
    if there := discardable(c):
        works["discard"] = move(c, c.random.choice(there), discarded=True)
    if aside := discarded(c):
        works["undoing of a discard"] = move(c, c.random.choice(aside), discarded=False)
    if c.fresh and (students := erasable(c)):
        works["erasure"] = erasure(c, c.random.choice(students))
    return works


def approval(c: Campaign, day: date, key: Key) -> Work:
    """Approve of a landing."""

    def done() -> None:
        if damage.manifests(c.warehouse / "raw")[key]["verdict"] == "approved":
            c.ledger.approve(key)

    return Work(lambda: approve_held(c.rollbook, day), done)


def move(c: Campaign, key: Key, *, discarded: bool) -> Work:
    """Discard a landing, or undo a discard."""

    def done() -> None:
        c.ledger.become(key, discarded=key not in damage.landings(c.warehouse / "raw"))

    return Work(lambda: call(c, *key, discarded=discarded, accept=True), done)


def erasure(c: Campaign, student: int) -> Work:
    """Erase a student."""

    def done() -> None:
        if c.rollbook.raw.erasure_register.count > len(c.ledger.erased):
            c.ledger.erase(student)

    return Work(lambda: erasing(c, student), done)


# --- what several have in common -------------------------------------------------------------------------------------


def call(c: Campaign, day: date, number: int | None, *, discarded: bool, accept: bool) -> None:
    """Take a landing back, or put it back; without a number, the day's only or last counted landing."""
    confirm = always if accept else within_hold
    if discarded:
        discards.discard(c.rollbook.writer(), day, number, reason="the campaign says so", confirm=confirm)
    else:
        discards.undo_discard(c.rollbook.writer(), day, number, confirm=confirm)


def change(c: Campaign, key: Key, *, discarded: bool, number: int | None = BY_NUMBER) -> None:
    """Discard a landing, or put it back: what would take many rows away is held until somebody accepts the loss."""
    c.note(f"{key[0]} landing {key[1]} is {'discarded' if discarded else 'put back'}")
    day, number = key[0], key[1] if number == BY_NUMBER else number
    accept = False
    if c.ledger.would_lose(key, discarded=discarded):
        c.operate(lambda: call(c, day, number, discarded=discarded, accept=False), fails=HeldError)
        accept = True

    def once() -> None:
        try:
            call(c, day, number, discarded=discarded, accept=accept)
        except DamagedError:
            if (key in damage.landings(c.warehouse / "raw")) == discarded:
                raise  # the landing is in the old place
            c.note("a snapshot turned out to be damaged when the landing had been moved")

    c.operate(once, done=lambda: c.ledger.become(key, discarded=discarded), behind=c.worn)


def discardable(c: Campaign) -> list[Key]:
    """The landings that may be discarded: counted, on disk, and not the last that is left."""
    if len(c.ledger.counted()) <= MIN_COUNTED:
        return []
    since = night(1) if c.fresh else kept_from(c)
    return sorted(k for k, x in c.ledger.landings.items() if x.counts and not x.expired and x.day >= since)


def discarded(c: Campaign) -> list[Key]:
    """The discarded landings whose days are too young to expire."""
    return sorted(k for k, x in c.ledger.landings.items() if x.discarded and x.day >= kept_from(c))


def kept_from(c: Campaign) -> date:
    """The first day that stays, whatever a writer has to make good first."""
    return c.today - timedelta(days=KEEP_DAYS - 2) if "keep_days" in c.house.over else night(1)


def erasable(c: Campaign) -> list[int]:
    """The students whom Rollbook knows."""
    return sorted({key[0] for key in c.ledger.current()["students"]})


def erasing(c: Campaign, student: int) -> None:
    """Erase a student."""
    erase(c.rollbook.writer(), student, reason="case 12", confirm=lambda _: True)


def forget_backups(c: Campaign) -> None:
    """Somebody deletes the backups."""
    damage.remove(c.older)
    c.landed_then = {}


def without_copy(c: Campaign, work: Callable[[], object]) -> Callable[[], object]:
    """The same work for a forked process, in which the object store's own threads are not."""

    def alone() -> object:
        c.house.over.pop("lake", None)
        return work()

    return alone
