"""How well a rule finds the pupils of a made-up school who turn: the judge of who is to watch.

The rule is a set of days and students. What really happened is the sandbox's own knowledge. A student is on the list on
the days that the rule names; a flag begins on a day after one without, among those on which the student is listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from statistics import median
from typing import NamedTuple

from rollbook.sandbox import MadeUpInstitution
from rollbook.sandbox.institution import TURNS, Turn

# In school days: within so many, one who stops and one who slips must be found; after an illness, and after recovering,
# a flag may still tell of it; a flag that comes back so soon had better stayed.
STOPS_WITHIN, OTHERS_WITHIN, AFTER, BACK_WITHIN = 6, 15, 10, 5
FIFTH = 5  # pieces missing since the onset


class Truth(NamedTuple):
    """What happened, each day by its place among the school days: who was listed, with how much missing; who turned,
    who always fails, and when somebody was ill, until ten school days after.
    """

    days: Sequence[date]
    listed: Sequence[Mapping[int, int | None]]
    turned: Mapping[int, tuple[str, int, int]]
    always: frozenset[int]
    ill: Mapping[int, tuple[int, int]]


@dataclass
class Verdict:
    """The figures of a rule. `found` has, for each kind, how many school days each one took, None if not found in time,
    and `before_fifth` whether each was found before the fifth piece since the onset was missing.
    """

    found: dict[str, list[int | None]] = field(default_factory=lambda: {kind: [] for kind in TURNS})
    before_fifth: dict[str, list[bool]] = field(default_factory=lambda: {kind: [] for kind in TURNS})
    wrong: int = 0
    wrong_ill: int = 0
    begun: int = 0
    back: int = 0
    on_list: int = 0
    eligible: int = 0
    listed: int = 0

    def __iadd__(self, other: Verdict) -> Verdict:
        """Add another school's figures."""
        for kind in TURNS:
            self.found[kind] += other.found[kind]
            self.before_fifth[kind] += other.before_fifth[kind]
        for name in ("wrong", "wrong_ill", "begun", "back", "on_list", "eligible", "listed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def share(self, kind: str, within: int, *, before_fifth: bool = False) -> float:
        """The share of a kind that was found within so many school days, and before the fifth missing piece."""
        pairs = zip(self.found[kind], self.before_fifth[kind], strict=True)
        hits = [days is not None and days <= within and (early or not before_fifth) for days, early in pairs]
        return sum(hits) / len(hits) if hits else 0.0

    @property
    def wrong_a_week(self) -> float:
        """Wrong flags for each 100 students who have not turned, in a school week."""
        return 500 * self.wrong / max(self.eligible, 1)

    def lines(self) -> dict[str, str]:
        """The figures, each under what it is of."""
        stops = [days for days in self.found["stops"] if days is not None]
        return {
            "stops: within 6 school days": f"{self.share('stops', STOPS_WITHIN):.0%} of {len(self.found['stops'])}",
            "stops: median school days": f"{median(stops):g}" if stops else "-",
            "slips: within 15": f"{self.share('slips', OTHERS_WITHIN):.0%} of {len(self.found['slips'])}",
            "slips: and before the fifth piece": f"{self.share('slips', OTHERS_WITHIN, before_fifth=True):.0%}",
            "one subject: before the fifth piece": f"{_mean(self.before_fifth['one subject']):.0%}",
            "recovers: within 15": f"{self.share('recovers', OTHERS_WITHIN):.0%}",
            "wrong flags per 100 a week": f"{self.wrong_a_week:.2f}",
            "in or after an illness": f"{500 * self.wrong_ill / max(self.eligible, 1):.2f}",
            "of the school on the list wrongly": f"{self.on_list / max(self.listed, 1):.1%}",
            "flags back within 5 school days": f"{self.back / max(self.begun, 1):.1%}",
        }


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / max(len(values), 1)


def truth(institution: MadeUpInstitution, days: Sequence[date]) -> Truth:
    """What happened in a school year, by the institution itself."""
    at = {day: place for place, day in enumerate(days)}
    turns: dict[int, Turn] = {}
    ill: dict[int, tuple[date, date]] = {}
    listed: list[dict[int, int | None]] = []
    for place, day in enumerate(days):
        missing = {}
        for record in institution.on(day).students:
            before = listed[-1].get(record["id"]) if listed else None
            missing[record["id"]] = record.get("activity_tracking", {}).get("assignment_missing_count", before)
        listed.append(missing)
        if place % 5 == 0 or day == days[-1]:
            turns = institution.turned(day) | turns
            ill = institution.ill(day) | ill
    last = len(days)
    return Truth(
        days,
        listed,
        {
            own: (turn.kind, at[turn.since], at.get(turn.until, last) if turn.until else last)
            for own, turn in turns.items()
            if turn.kind != "always" and turn.since in at
        },
        frozenset(own for own, turn in turns.items() if turn.kind == "always"),
        {own: (at[since], at.get(until, last) + AFTER) for own, (since, until) in ill.items() if since in at},
    )


def judge(of: Truth, flagged: Iterable[tuple[date, int]]) -> Verdict:
    """Compare a rule's days and students with what happened."""
    verdict, places = Verdict(), {day: place for place, day in enumerate(of.days)}
    on: dict[int, set[int]] = defaultdict(set)
    for day, student in flagged:
        on[student].add(places[day])
    for student, (kind, since, _) in of.turned.items():
        whole = range(since, since + OTHERS_WITHIN)
        if whole.stop <= len(of.days) and all(student in of.listed[place] for place in whole):
            _look_for(verdict, of, kind, student, since, on[student])
    places_of: dict[int, list[int]] = defaultdict(list)
    for place, listed in enumerate(of.listed):
        verdict.listed += len(listed)
        for student in listed:
            places_of[student].append(place)
    for student, at_school in places_of.items():
        flags = [place in on[student] for place in at_school]
        begun = [at for at, flag in enumerate(flags) if flag and not (at and flags[at - 1])]
        verdict.begun += len(begun)
        verdict.back += sum(any(flags[max(at - 1 - BACK_WITHIN, 0) : at]) for at in begun)
        if student not in of.always:
            _count_wrong(verdict, of, student, at_school, flags, {at_school[at] for at in begun})
    return verdict


def _count_wrong(
    verdict: Verdict, of: Truth, student: int, at_school: list[int], flags: list[bool], begun: set[int]
) -> None:
    """Add the days on which a student who has not turned is on the list, and the flags that began then."""
    _, since, until = of.turned.get(student, ("", len(of.days), len(of.days)))
    first, last = of.ill.get(student, (0, -1))
    for place, flag in zip(at_school, flags, strict=True):
        if not since <= place < until + AFTER:
            verdict.eligible += 1
            verdict.on_list += flag
            if place in begun:
                verdict.wrong_ill += first <= place <= last
                verdict.wrong += not first <= place <= last


def _look_for(verdict: Verdict, of: Truth, kind: str, student: int, since: int, on: set[int]) -> None:
    """Note when one who turned was found."""
    first = min((place for place in on if place >= since), default=None)
    counts = [listed.get(student) for listed in of.listed[since - 1 :]]
    known = [counts[0] or 0 if count is None else count for count in counts]
    fifth = next((since + n - 1 for n, count in enumerate(known) if count - known[0] >= FIFTH), len(of.days))
    verdict.found[kind].append(None if first is None else first - since + 1)
    verdict.before_fifth[kind].append(first is not None and first < fifth)
