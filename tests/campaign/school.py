"""The made-up school of the campaign, which lives from night to night, and the service that a sync reads."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from random import Random
from typing import Any

from rollbook.sandbox import Odd
from tests.campaign.ledger import CLOCK, Record, Showing
from tests.support.records import entry, school_class, student
from tests.support.wire import faults
from tests.support.wire.service import Bend, Service

CAP = 15  # records a page, so that a walk of the students has several
MIN_PUPILS, MAX_PUPILS = 30, 55

ODD_NUMBERS = (0, -1, 2**31, 10**11, -(10**11))
ODD_AMOUNTS = (0.0, -1.0, 5e-324, 1e11, -1e11)
BEYOND = (10**11 + 1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64)
AMOUNTS_BEYOND = (1.764e12, 1e308, -1e308)
ODD_DATES = ("0001-01-01", "1582-10-10", "2000-02-29", "9999-12-31")
ODD_TEXTS = (
    *("", " ", "NULL", "O'Neil\"; DROP TABLE students; --", "=1+1", "<b>bold</b>", "two\nlines\tand a tab", "x" * 5000),
    *("\u202eright to left", "e\u0301 and \u00e9", "\U0001f469\u200d\U0001f52c", "\ufeffmarked", "{{ name }} %s $1 \\"),
)

# Each goes by itself when asked again.
PASSING: dict[str, Callable[[], Bend]] = {
    "reset": faults.reset,
    "cut short": faults.cut_short,
    "a 500": lambda: faults.status(500),
    "a 429 with Retry-After": lambda: faults.unavailable(429, 1),
    "a page for people": faults.html,
    "half a JSON": faults.not_json,
    "another envelope": faults.wrong_envelope,
}
LASTING: dict[str, Callable[[], Bend]] = {
    "gone": lambda: faults.status(503),
    "reset for good": faults.reset,
    "401": lambda: faults.refused(401, "AUTH_REQUIRED"),
    "403": faults.refused,
    "success false": faults.unsuccessful,
    "redirect": lambda: faults.redirect("https://elsewhere.example/"),
    "a page for people for good": faults.html,
}


class School:
    """Some students and a few classes. Ids are equally long, so that no name is part of another's."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.pupils = {i: _pupil(i, random) for i in range(1001, 1001 + random.randint(36, 44))}
        self.rooms = {i: school_class(i) for i in range(501, 501 + random.randint(7, 10))}
        self.left: dict[int, Record] = {}
        self.next_id = 2001

    def live(self, day: date) -> None:
        """A day passes: everybody works on a school day, a few records change, somebody may come, leave or come back."""
        chance = self.random
        if day.weekday() < 5:
            self.work(day)
        for pupil in chance.sample(sorted(self.pupils), 4):
            self.change(pupil)
        room = self.rooms[chance.choice(sorted(self.rooms))]
        room["student_count"] = chance.randint(1, 40)
        room["summary"] = room["summary"] | {"average_score": chance.choice([None, chance.randint(0, 100)])}
        if chance.random() < 0.5 and len(self.pupils) < MAX_PUPILS:
            self.join()
        if chance.random() < 0.5 and len(self.pupils) > MIN_PUPILS:
            self.leave(1)

    def work(self, day: date) -> None:
        """A school day, on which everybody's measures move."""
        for pupil in self.pupils.values():
            own = pupil["summary"]
            own |= {"total_time_minutes": round(own["total_time_minutes"] + 30, 1), "last_activity_date": str(day)}
            pupil["activity_tracking"] |= {"last_activity_date": str(day), "has_ever_logged_in": True}
        for room in self.rooms.values():
            minutes = room["summary"]["total_engagement_minutes"]
            room["summary"] = room["summary"] | {"total_engagement_minutes": round((minutes or 0) + 900, 1)}

    def change(self, pupil: int) -> None:
        """Something about a student is another."""
        record, chance = self.pupils[pupil], self.random
        match chance.randrange(5):
            case 0:
                record["name"] = f"Renamed {chance.randrange(10**6)}"
            case 1:
                record["summary"] = record["summary"] | {"average_score": chance.choice([None, chance.randint(0, 100)])}
            case 2:
                record["classes"] = record["classes"][1:] if len(record["classes"]) > 1 else _enrolled(chance, 2)
            case 3:
                record["activity_tracking"] |= {"assignment_submission_count": chance.randrange(99)}
            case _:
                record["profile_image"] = chance.choice([None, f"https://img.school.example/{chance.random()}.png"])

    def join(self) -> int:
        """Somebody comes, or comes back; returns the id."""
        if self.left and self.random.random() < 0.3:
            pupil = self.random.choice(sorted(self.left))
            self.pupils[pupil] = self.left.pop(pupil)
            return pupil
        self.next_id += 1
        self.pupils[self.next_id] = _pupil(self.next_id, self.random)
        return self.next_id

    def leave(self, count: int) -> list[int]:
        """So many leave; returns their ids."""
        leavers = self.random.sample(sorted(self.pupils), count)
        self.left |= {i: self.pupils.pop(i) for i in leavers}
        return leavers

    def be_odd(self) -> None:
        """Some records get values that the contract allows, and nobody expects."""
        chance = self.random
        for pupil in chance.sample(sorted(self.pupils), 3):
            record = self.pupils[pupil]
            names = {name: chance.choice(ODD_TEXTS) for name in ("name", "first_name", "last_name", "profile_image")}
            record |= names | {"registration_date": chance.choice(ODD_DATES)}
            _become_odd(record["summary"], chance)
            _become_odd(record["activity_tracking"], chance)
        beyond = self.pupils[chance.choice(sorted(self.pupils))]["summary"]
        beyond |= {"total_assignments": chance.choice(BEYOND), "total_time_minutes": chance.choice(AMOUNTS_BEYOND)}
        room = self.rooms[chance.choice(sorted(self.rooms))]
        room |= {"class_room": chance.choice(ODD_TEXTS), "student_count": chance.choice(ODD_NUMBERS)}
        _become_odd(room["summary"], chance)
        _become_odd(room["assignment_activity"], chance)

    def showing(self, night: int, *, unstated: frozenset[int] = frozenset(), **over: Any) -> Showing:
        """The records of a night: clocks move, and some records leave some of their parts `unstated`."""
        pupils = copy.deepcopy(self.pupils)
        for pupil, record in pupils.items():
            record["activity_tracking"][CLOCK] = night
            match (pupil * 31 + night * 17) % 23:
                case 0:
                    record["activity_tracking"] = None
                case 1:
                    del record["activity_tracking"]
                case 2:
                    del record["classes"]
            if pupil in unstated:
                record |= {"activity_tracking": None, "classes": None}
        return Showing(**({"students": pupils, "classes": copy.deepcopy(self.rooms)} | over))


@contextmanager
def shown(service: Service, showing: Showing) -> Iterator[None]:
    """Let the service show a night, and nothing that was planned before, until the block ends."""
    service.students = [_as_served(i, r, showing) for i, r in showing.students.items()]
    service.classes = [_as_served(i, r, showing) for i, r in showing.classes.items()]
    if showing.hidden:
        service.hide(*showing.hidden)
    for set_name in showing.unproven:
        # Of several pages the later ones disagree; of a single page the total is not what came.
        service.on(faults.moved_total(1), path=set_name, page=1, times=None)
    if showing.unanswered:
        service.on(faults.status(500), search=True, times=None)
    try:
        yield
    finally:
        service.mend()


def passing_faults(service: Service, random: Random) -> None:
    """A few faults, anywhere."""
    for _ in range(random.randint(1, 3)):
        bend = PASSING[random.choice(sorted(PASSING))]()
        service.on(bend, path=random.choice(["students", "classes"]), page=random.choice([1, 1, 2]))


def odd_service(service: Service, random: Random) -> None:
    """All answers are odd."""
    odd = Odd(service.answer)
    service.on(lambda request, reply: odd.oddly(request, reply), search=None, times=None)


def lasting_fault(service: Service, random: Random) -> None:
    """A fault that does not pass, from some page on."""
    bend = LASTING[random.choice(sorted(LASTING))]()
    path = random.choice(["auth", "students", "classes"])
    service.on(bend, path=path, times=None, skip=random.randint(0, 1) if path == "students" else 0)


def _pupil(pupil: int, random: Random) -> Record:
    return student(pupil, classes=_enrolled(random, random.randint(0, 3)))


def _enrolled(random: Random, count: int) -> list[Record]:
    rooms = random.sample(range(501, 508), count)
    return [entry(class_id=c, class_title=f"Class {c}", course_name=random.choice([None, "Algebra"])) for c in rooms]


def _become_odd(part: Record, random: Random) -> None:
    """Each value of a part becomes an odd value of the same kind, but for percentages."""
    for name, value in part.items():
        if name.endswith("_date"):
            part[name] = random.choice(ODD_DATES)
        elif isinstance(value, bool) or name.endswith(("_rate", "_score")):
            continue
        elif isinstance(value, float):
            part[name] = random.choice(ODD_AMOUNTS)
        elif isinstance(value, int):
            part[name] = random.choice(ODD_NUMBERS)


def _as_served(ident: int, record: Record, showing: Showing) -> Record:
    if ident not in showing.broken:
        return record
    return record | ({"name": None} if "id" in record else {"class_title": None})
