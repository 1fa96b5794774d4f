"""A school of 90 with a word for each student and class that nobody else has, three nights, and readers of every kind.

Student 7 is known by `zq007` in each text about the student; class 507 by `kl507` in each text, and by its numbers.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rollbook.features.explore.login import Door, Proxy
from rollbook.features.explore.readers import Readers
from rollbook.features.explore.scope import Night
from rollbook.features.explore.server import app
from rollbook.util.address import Address
from tests.support.nights import House
from tests.support.processes.asgi import PROXY, TOKEN
from tests.support.records import Record, entry, school_class, student, within
from tests.support.warehouses.begun import made_once
from tests.support.wire.service import Service

STUDENTS, CLASSES = range(1, 91), range(501, 516)
NIGHTS = 3
HEADER = "Remote-User"
URL = "https://rollbook.school.example"

READERS = """login,sees
head@school.example,all
year10@school.example,year=10
tutor@school.example,tutor_group=10B
teacher2@school.example,teacher
both@school.example,teacher
both@school.example,tutor_group=8A
teacher4@school.example,year=8
nobody@school.example,year=14
"""
# Whom the readers see, by plain rules.
SCOPED = (
    "year10@school.example",
    "tutor@school.example",
    "teacher2@school.example",
    "both@school.example",
    "teacher4@school.example",
)


def year(number: int) -> str:
    """The year of a student."""
    return str(7 + number % 5)


def tutor_group(number: int) -> str:
    """The tutor group of a student."""
    return f"{year(number)}{'AB'[number % 2]}"


def classes_of(number: int, night: int = 1) -> set[int]:
    """The classes of a student: class 515 has few students; each night one in ten moves."""
    moved = night if number % 10 == 3 else 0
    of = {501 + (number + moved) % 14, 501 + (number * 5) % 14}
    return of | ({515} if number in (9, 13, 14) else set())


def word(number: int) -> str:
    """A word that only a student's texts hold."""
    return f"zq{number:03}"


def title(number: int) -> str:
    """A class's title, with the word that only the class's texts hold."""
    return f"Course {number % 4} kl{number}"


@dataclass(frozen=True)
class Staff:
    """The warehouse, and whom each reader sees, by plain rules."""

    warehouse: Path

    @property
    def published(self) -> Path:
        """The published file."""
        return self.warehouse / "rollbook.duckdb"

    def students(self, login: str) -> set[int]:
        """The ids of the students whom a reader sees."""
        classes = self.taught(login)
        return {n for n in listed(NIGHTS) if _is_of(login, n) or classes & classes_of(n, NIGHTS)}

    def classes(self, login: str) -> set[int]:
        """The ids of the classes that a reader sees."""
        return self.taught(login).union(*(classes_of(n, NIGHTS) for n in listed(NIGHTS) if _is_of(login, n)))

    def taught(self, login: str) -> set[int]:
        """The ids of a reader's own classes, if the reader sees these."""
        by = {"teacher2@school.example": 2, "both@school.example": 0}.get(login)
        return {c for c in CLASSES if c % 5 == by}

    def averaged(self, login: str) -> set[int]:
        """The ids of the classes whose figures a reader sees."""
        mine = self.students(login)
        others = {
            c: sum(c in classes_of(n, NIGHTS) for n in listed(NIGHTS) if n not in mine) for c in self.classes(login)
        }
        return {c for c, count in others.items() if count == 0 or count >= 10}

    def night(self) -> Night:
        """The night that is published, open for readers."""
        return Night(self.published.resolve(), self.warehouse / "build")


def _is_of(login: str, number: int) -> bool:
    return {
        "year10@school.example": year(number) == "10",
        "tutor@school.example": tutor_group(number) == "10B",
        "both@school.example": tutor_group(number) == "8A",
        "teacher4@school.example": year(number) == "8",
    }.get(login, False)


def listed(night: int) -> Iterable[int]:
    """The students on a night: from the third on, two are gone."""
    return [n for n in STUDENTS if night < NIGHTS or n not in (21, 22)]


def pupil(number: int, night: int) -> Record:
    """A student's record on a night."""
    own, done = word(number), 2 + number % 9 + (night if number % 3 else 0)
    texts = {"name": f"Anna{number} {own}", "first_name": f"Anna{number}", "last_name": own}
    return student(
        number,
        **texts,
        email=f"{own}@school.example",
        reference_id=f"R-{own}" if (night, number) != (2, 5) else f"RR-{own}",
        profile_image=f"https://img.school.example/{own}.png",
        classes=[
            entry(class_id=c, class_title=title(c), course_name=f"Course {c % 4}")
            for c in sorted(classes_of(number, night))
        ],
        **within(
            "summary", completed_assignments=done, completion_rate=done * 5.0, average_score=30.0 + number % 60 + night
        ),
        **within("activity_tracking", assignment_missing_count=18 - done),
    )


def taught_class(number: int, night: int) -> Record:
    """A class's record on a night."""
    by = number % 5
    return school_class(
        number,
        class_title=title(number),
        class_code=f"kl{number}-code",
        class_room=f"kl{number}-room",
        **within(
            "teacher",
            teacher_id=by + 1,
            name=f"Teacher {by}",
            email=f"Teacher{by}@School.example" if by else "both@school.example",
        ),
        **within("course", course_id=number % 4, course_name=f"Course {number % 4}"),
        student_count=6,
        summary={
            "average_completion_rate": 60 + number / 1000 + night / 100,
            "average_score": 50 + number / 1000 + night / 100,
            "total_engagement_minutes": 900_000.0 + 1000 * night + number,
        },
        **within("assignment_activity", assignment_count=700_000 + 1000 * night + number),
    )


def staff_room(target: Path) -> Staff:
    """A copy of the school, with its lists and readers.csv."""

    def play(warehouse: Path) -> None:
        with Service() as service:
            house = House(warehouse, service)
            (own := warehouse / "own").mkdir(parents=True)
            lines = (f"{n},{year(n)},{tutor_group(n)}\n" for n in STUDENTS)
            (own / "year_groups.csv").write_text("student_id,year,tutor_group\n" + "".join(lines))
            for night in range(1, NIGHTS + 1):
                house.night(night, [pupil(n, night) for n in listed(night)], [taught_class(c, night) for c in CLASSES])
        (warehouse / "readers.csv").write_text(READERS)

    shutil.copytree(made_once("staff", play), target, symlinks=True)
    return Staff(target)


def door(staff: Staff, *, teachers: bool = False, addresses: frozenset[str] | None = frozenset({PROXY})) -> Door:
    """The app over the school, behind its door."""
    address = Address("", TOKEN)
    return Door(app(Readers(staff.warehouse, teachers=teachers)), Proxy(addresses, HEADER, URL), lambda: address)


def as_reader(login: str, **headers: str) -> list[tuple[str, str]]:
    """The headers of a request that the proxy passes on for somebody who signed in."""
    own = {"Host": "rollbook.school.example", "Authorization": f"Bearer {TOKEN}", HEADER: login}
    return [*(own | headers).items()]
