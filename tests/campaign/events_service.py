"""Events at the service, and on the way there."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from rollbook.errors import ArgumentError, DamagedError, OtherInstitutionError
from rollbook.night import approvals, sync
from rollbook.night.prune import prune
from tests.campaign.campaign import Campaign, event
from tests.campaign.events_operator import can_prove, change, prove
from tests.campaign.ledger import Showing
from tests.campaign.school import lasting_fault, odd_service, passing_faults, shown
from tests.support.nights import night


@event()
def a_second_sync_of_the_day(c: Campaign) -> None:
    c.sync()
    for pupil in c.random.sample(sorted(c.school.pupils), 3):
        c.school.change(pupil)
    c.sync()


@event()
def a_later_landing_leaves_most_unstated(c: Campaign) -> None:
    land_again(c, unstated=some(c, len(c.school.pupils) * 9 // 10))


@event()
def a_later_landing_refuses_some(c: Campaign) -> None:
    land_again(c, broken=some(c, len(c.school.pupils) // 6))


@event()
def a_later_landing_is_unproven(c: Campaign) -> None:
    land_again(c, unproven=frozenset({"students"}), unstated=some(c, 9), hidden=some(c, 9))


@event()
def later_landings_are_mixtures(c: Campaign) -> None:
    for _ in range(c.random.randint(1, 3)):
        land_a_mixture(c)


@event(lambda c: can_lose_many(c))
def a_later_landing_is_held_and_approved_after_others(c: Campaign) -> None:
    c.sync()
    held = lose_many(c)
    if c.random.random() < 0.5:
        c.approve()
    elif held:  # the later landing is taken back, then the held landing is approved, then the later is put back
        land_a_mixture(c)
        last = max(c.ledger.landings)
        if c.ledger.landings[last].counts:
            change(c, last, discarded=True)
            c.approve()
            change(c, last, discarded=False)


@event()
def a_later_landing_is_discarded(c: Campaign) -> None:
    land_a_mixture(c)
    last = max(c.ledger.landings)
    if c.ledger.landings[last].counts and len(c.ledger.counted()) > 1:
        change(c, last, discarded=True)
        if c.random.random() < 0.5:
            land_a_mixture(c)
        if c.random.random() < 0.5:
            change(c, last, discarded=False)


@event()
def the_school_has_odd_values(c: Campaign) -> None:
    c.school.be_odd()
    c.sync()


@event()
def the_service_is_odd(c: Campaign) -> None:
    """The service writes as PHP does and fails as proxies do, and the meaning is stored."""
    c.sync(trouble=odd_service)


@event(lambda c: can_lose_many(c), weight=2)
def a_measure_vanishes_and_is_held(c: Campaign) -> None:
    showing = c.showing()
    without = {i: r | {"summary": r["summary"] | {"total_time_minutes": 0}} for i, r in showing.students.items()}
    assert c.sync(replace(showing, students=without)) in ("held", "lost")


@event(weight=3)
def an_unproven_walk(c: Campaign) -> None:
    sets = c.random.choice([{"students"}, {"classes"}, {"students", "classes"}])
    c.sync(c.showing(unproven=frozenset(sets), hidden=some(c, 2)))


@event()
def a_record_slips_out_of_the_list(c: Campaign) -> None:
    c.sync(c.showing(hidden=some(c, c.random.randint(1, 8))))


@event(lambda c: bool(only_uncounted(c)), weight=4)
def those_whom_only_held_or_discarded_landings_state_slip_out_of_the_list(c: Campaign) -> None:
    """A search finds them: so no approval and no undone discard may end in their removal."""
    hidden = only_uncounted(c)
    c.sync(c.showing(hidden=frozenset(c.random.sample(hidden, c.random.randint(1, len(hidden))))))


@event()
def a_record_is_removed(c: Campaign) -> None:
    c.school.leave(c.random.randint(1, 3))
    c.sync()


@event(weight=3)
def a_search_is_not_answered(c: Campaign) -> None:
    c.school.leave(1)
    c.sync(c.showing(unanswered=True, hidden=some(c, 1)))


@event(weight=3)
def a_few_records_are_refused(c: Campaign) -> None:
    if is_fifth := c.random.random() < 0.5:  # which is not too many yet
        c.school.leave(len(c.school.pupils) % 5)
    count = len(c.school.pupils) // 5 if is_fifth else c.random.randint(1, 3)
    c.sync(c.showing(broken=some(c, count) | {c.random.choice(sorted(c.school.rooms))}))


@event(weight=3)
def too_many_records_are_refused(c: Campaign) -> None:
    assert c.sync(c.showing(broken=some(c, len(c.school.pupils) // 2))) in ("failed", "lost")


@event()
def faults_pass(c: Campaign) -> None:
    c.sync(trouble=passing_faults)


@event()
def a_fault_lasts(c: Campaign) -> None:
    assert c.sync(c.showing(failing=True), trouble=lasting_fault) in ("failed", "lost")


@event(lambda c: can_lose_many(c))
def a_mass_removal_is_held(c: Campaign) -> None:
    lose_many(c)


@event(lambda c: can_lose_many(c) and can_prove(c), weight=3)
def the_copy_is_proven_while_a_night_is_held_and_once_it_is_discarded(c: Campaign) -> None:
    if not lose_many(c) or c.is_lost():
        return
    prove(c)
    held = max(key for key, landing in c.ledger.landings.items() if key[0] == c.today and landing.verdict == "held")
    change(c, held, discarded=True)
    prove(c)


@event(lambda c: can_lose_many(c), weight=2)
def a_mass_change_is_held(c: Campaign) -> None:
    showing = c.showing()
    renamed = {i: r | {"name": f"{r['name']} {c.number}"} for i, r in showing.students.items()}
    assert c.sync(replace(showing, students=renamed)) in ("held", "lost")


@event(lambda c: can_lose_many(c))
def a_mass_removal_is_approved_the_same_night(c: Campaign) -> None:
    lose_many(c)
    c.approve()


@event(lambda c: can_lose_many(c), weight=2)
def another_sync_holds_more_before_an_approval(c: Campaign) -> bool:
    """Somebody approves of what they saw; by then, another landing is held, which nobody saw."""
    if not lose_many(c) or c.is_lost():
        return False
    writing = c.rollbook
    shown_to_somebody = approvals.to_approve(writing.place, c.today)
    for pupil in c.random.sample(sorted(c.school.pupils), 3):
        c.school.change(pupil)
    if not lose_many(c):
        return False
    requests_before = len(c.service.requests)
    c.operate(
        lambda: approvals.approve(writing.writer(), [held.hold_digest for held in shown_to_somebody]),
        fails=ArgumentError,
    )
    assert len(c.service.requests) == requests_before
    return True


@event(lambda c: any(day < c.today for day in c.ledger.waiting()), weight=5)
def what_an_earlier_night_held_is_approved(c: Campaign) -> None:
    c.approve()


@event(lambda c: not c.is_lost())
def an_approval_finds_nothing_held(c: Campaign) -> None:
    while c.ledger.waiting():
        c.approve()
    requests_before = len(c.service.requests)
    c.operate(c.house.approve, fails=ArgumentError)
    assert len(c.service.requests) == requests_before


@event(lambda c: c.today > night(1), weight=3)
def the_clock_is_days_ahead(c: Campaign) -> None:
    with c.clock_off_by(c.random.choice([2, 2, 3, 365])):
        c.note(f"it is {c.house.now.date()} here")
        assert c.is_lost() or c.run(c.house.sync) is not None, "what was fetched is filed under another day"
        if "keep_days" in c.house.over and not c.is_lost():
            c.operate(lambda: prune(c.rollbook.writer()))
    c.check()


@event(lambda c: not c.is_lost(), weight=2)
def a_day_to_come_is_asked_for(c: Campaign) -> None:
    c.operate(lambda: sync(c.rollbook.writer(), c.today + timedelta(days=1)), fails=ArgumentError)


@event(lambda c: c.fresh and bool(c.ledger.counted()))
def the_clock_is_a_day_behind(c: Campaign) -> None:
    """By the service's clock, a day more has passed since the last sync than by this machine's."""
    with c.clock_off_by(-1):
        assert c.run(c.house.sync) is not None, "what was fetched is filed under the day before"
    c.check()


@event(lambda c: not c.is_lost())
def the_zone_is_moved_west(c: Campaign) -> None:
    """Where it is still yesterday, what is fetched now is not filed below what was landed today."""
    c.sync()
    if not any(key[0] == c.today and landing.verdict != "failed" for key, landing in c.ledger.landings.items()):
        return
    requests_before, c.house.over["timezone"] = len(c.service.requests), "Pacific/Midway"
    try:
        c.operate(c.house.sync, fails=ArgumentError)
    finally:
        del c.house.over["timezone"]
    assert len(c.service.requests) == requests_before


@event(lambda c: bool(c.ledger.counted()) and not c.is_lost())
def another_institution_answers(c: Campaign) -> None:
    ours, c.service.school = c.service.school, {"id": 52, "name": "Another School", "key": "another-school"}
    showing = c.showing(failing=True)
    with shown(c.service, showing):
        error = c.run(c.house.sync)
    c.service.school = ours
    c.see_what_was_judged_later()
    c.adopt(showing, c.today)
    assert isinstance(error, (OtherInstitutionError, DamagedError) if c.worn else OtherInstitutionError), error
    assert c.service.requests[-1].path == "auth", "records of another institution were asked for"


# --- what several have in common -------------------------------------------------------------------------------------


def some(c: Campaign, count: int) -> frozenset[int]:
    """So many students of tonight."""
    return frozenset(c.random.sample(sorted(c.school.pupils), count))


def only_uncounted(c: Campaign) -> list[int]:
    """The service's students who are not current, and whom landings state that are held or discarded."""
    current = {key[0] for key in c.ledger.current()["students"]}
    return sorted((c.ledger.uncounted("students") & c.school.pupils.keys()) - current)


def land_again(c: Campaign, **over: Any) -> None:
    """One more landing of today, after a landing that counts."""
    if not any(x.day == c.today and x.counts for x in c.ledger.landings.values()):
        c.sync()
    for pupil in c.random.sample(sorted(c.school.pupils), 3):
        c.school.change(pupil)
    c.sync(c.showing(**over))


def land_a_mixture(c: Campaign) -> None:
    """One more landing of today, with any mixture of what may be wrong."""
    pupils, chance = len(c.school.pupils), c.random
    land_again(
        c,
        unstated=some(c, chance.choice([0, 5, pupils])),
        broken=some(c, chance.choice([0, 3, pupils // 6])),
        hidden=some(c, chance.choice([0, 0, 4])),
        unproven=frozenset(chance.choice([(), (), ("students",), ("classes",)])),
        unanswered=chance.random() < 0.2,
    )


def can_lose_many(c: Campaign) -> bool:
    """Whether enough of the school is known, and the service still has that part."""
    current = {key[0] for key in c.ledger.current()["students"]} & c.school.pupils.keys()
    return len(current) >= 24


def lose_many(c: Campaign) -> bool:
    """Two thirds of the known students are gone, or as few as are held, from the lists and from every search: nobody
    sees that without asking.

    Returns whether that is held, as always unless days are lost.
    """
    current = {key[0] for key in c.ledger.current()["students"]}
    listed = sorted(current & c.school.pupils.keys())
    few = max(6, len(current) // 10 + 1)
    leavers = set(c.random.sample(listed, c.random.choice([few, len(listed) * 2 // 3])))
    showing: Showing = c.showing()
    left = {i: r for i, r in showing.students.items() if i not in leavers}
    c.note(f"{len(leavers)} of {len(listed)} students are gone")
    outcome = c.sync(replace(showing, students=left))
    assert outcome in ("held", "lost")
    return outcome == "held"
