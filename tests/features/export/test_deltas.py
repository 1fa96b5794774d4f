"""OneRoster's deltas: an old bulk file and what changed since make the new bulk file, whatever happens in a school."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random

import pytest

from rollbook.features.export.oneroster import FILES, write
from tests.support.nights import FIRST, House, new_house
from tests.support.records import Record, entry, school_class, student
from tests.support.tiers import weekly

pytestmark = pytest.mark.nights

TERMS = "name,first_day,last_day\nAutumn,2026-09-01,2026-12-18\nSpring,2027-01-11,2027-06-30\n"
BEGINS = date(2027, 6, 1)  # nights of some days or weeks, over the end of the year
NIGHTS = 20  # a life
STAMPS = ("status", "dateLastModified")

# The rows of each file by their sourcedId, without the columns that a bulk file leaves blank.
Roster = dict[str, dict[str, dict[str, str]]]


def read(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row, with the name of its file."""
    for name in FILES:
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            yield from ((name, row) for row in csv.DictReader(file))


def bulk(house: House, folder: Path) -> Roster:
    """All of the roster."""
    write(house.published, folder)
    roster: Roster = {name: {} for name in FILES}
    for name, row in read(folder):
        roster[name][row["sourcedId"]] = {key: value for key, value in row.items() if key not in STAMPS}
    return roster


def follow(roster: Roster, house: House, since: date, folder: Path) -> Roster:
    """The roster of a day as a system has it that then takes in what changed."""
    write(house.published, folder, since)
    taken = {name: dict(rows) for name, rows in roster.items()}
    for name, row in read(folder):
        if row["status"] == "tobedeleted":
            taken[name].pop(row["sourcedId"], None)
        else:
            taken[name][row["sourcedId"]] = {key: value for key, value in row.items() if key not in STAMPS}
    return taken


class Life:
    """A small school whose people and classes come, go and change by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.pupils = {n: student(n) for n in range(1, 7)}
        self.rooms = {n: school_class(n) for n in range(501, 505)}
        self.away: dict[int, Record] = {}

    def go_on(self) -> None:
        """Some things happen."""
        for _ in range(self.chance.randint(1, 4)):
            self.chance.choice((self.change_pupil, self.change_room, self.leave, self.come, self.meet))()

    def change_pupil(self) -> None:
        """A student is called otherwise, has another email, perhaps a sibling's, or is another person."""
        if not self.pupils:
            return
        key, n = self.chance.choice([*self.pupils]), self.chance.randrange(10**6)
        email = self.chance.choice([None, "parent@home.example", "Parent@home.example", f"{n}@school.example"])
        one = {"name": self.chance.choice([f"Ada {n}", f"Ada {n}, Jr."]), "first_name": None, "last_name": None}
        other = one | {"email": f"new{n}@school.example", "reference_id": f"N-{n}"}
        self.pupils[key] |= self.chance.choice((one, {"email": email}, {"reference_id": f"R{n}"}, other))

    def change_room(self) -> None:
        """A class closes or opens, or has another title, course or teacher."""
        if not self.rooms:
            return
        key, n = self.chance.choice([*self.rooms]), self.chance.randrange(3)
        self.rooms[key] |= self.chance.choice(
            (
                {"class_status": self.chance.choice([1, 2])},
                {"class_status": self.chance.choice([1, 2])},
                {"class_title": f"Title {n}"},
                {"course": {"course_id": 70 + n, "course_name": f"Course {self.chance.randrange(3)}"}},
                {"course": {}},
                {"teacher": {"teacher_id": n, "name": f"Terry {n}", "email": f"{n}@school.example"}},
                {"teacher": {"teacher_id": n, "name": "Terry Other", "email": "parent@home.example"}},
            )
        )

    def leave(self) -> None:
        """A student or a class is no longer listed."""
        here = self.chance.choice((self.pupils, self.rooms))
        if here:
            key = self.chance.choice([*here])
            self.away[key] = here.pop(key)

    def come(self) -> None:
        """One that was listed before is listed again, as it was."""
        if self.away:
            key = self.chance.choice([*self.away])
            (self.rooms if key > 500 else self.pupils)[key] = self.away.pop(key)

    def meet(self) -> None:
        """A student has other classes."""
        if self.pupils:
            key = self.chance.choice([*self.pupils])
            rooms = self.chance.sample(range(501, 505), self.chance.randint(0, 3))
            self.pupils[key] |= {"classes": [entry(class_id=each) for each in rooms]}


@pytest.mark.parametrize("seed", [1, *(weekly(seed) for seed in range(2, 11))])
def test_an_old_bulk_file_and_its_deltas_make_the_new_one(seed: int, tmp_path: Path) -> None:
    """Over all seeds, 200 nights; the other system asks after each night, or only now and then."""
    life, began = Life(seed), (BEGINS - FIRST).days + 1
    with new_house(hold_changed_percent=100, hold_removed_percent=100) as house:
        house.warehouse.mkdir()
        (house.warehouse / "terms.csv").write_text(TERMS)
        number, known = began, dict[date, Roster]()
        for n in range(NIGHTS):
            if n:
                life.go_on()
                number += life.chance.choice((1, 1, 2, 7, 40))
            house.night(number, [*life.pupils.values()], [*life.rooms.values()])
            day = FIRST + timedelta(days=number - 1)
            new = bulk(house, tmp_path / "bulk")
            for since in {*list(known)[-1:], *life.chance.sample([*known], min(len(known), 2))}:
                followed = follow(known[since], house, since, tmp_path / "delta")
                assert followed == new, f"night {n}, since {since}"
            known[day] = new
