"""What a night changes is found once, when it is compared: the merge makes of it what it would find itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import HeldError
from pipelines.store.history import Delta
from tests.support.nights import House
from tests.support.records import MISSING, classes, school_class, student, students
from tests.support.tiers import daily
from tests.support.wire import faults
from tests.support.wire.service import Service

Night = Callable[[Service], None]


def leave_and_join(service: Service) -> None:
    service.students = students(40, first=3)


def change_and_fall_silent(service: Service) -> None:
    service.students[0] = student(1, name="Another")
    service.students[1] = student(2, classes=MISSING, activity_tracking=None)
    service.students[2] = student(3, classes=[])
    service.students[3] = student(4, email=None)  # refused
    service.students[4]["activity_tracking"]["days_since_last_activity"] = 9  # untracked


def break_off(service: Service) -> None:
    service.students = [student(n, name="Other" if n == 7 else f"Pupil Number{n}") for n in range(2, 41)]
    service.on(faults.stated(total_count=999), path="students", page=1, times=None)  # unproven


def close_a_class(service: Service) -> None:
    service.classes = [school_class(501), school_class(504)]


def nothing(service: Service) -> None:
    service.mend()


STORIES: tuple[tuple[Night, ...], ...] = (
    (nothing, leave_and_join, nothing),
    (nothing, change_and_fall_silent, nothing, leave_and_join),
    (nothing, break_off, nothing, change_and_fall_silent),
    (nothing, change_and_fall_silent, break_off, close_a_class, nothing),
)


def played(folder: Path, story: tuple[Night, ...]) -> tuple[Any, list[Any]]:
    """The tables after some nights, and each night's counts."""
    with Service(students(40), classes(3)) as service:
        house, counted = House(folder, service, hold_changed_percent=100), []
        for number, happens in enumerate(story, 1):
            happens(service)
            with suppress(HeldError):
                done = house.at(number).sync()
                counted.append((done.manifest.verdict, done.manifest.counts, done.counts))
        return house.tables(), counted


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each delta that is handed over, whether it is used."""
    answers: list[bool] = []
    real = Delta.is_of

    def noted(*arguments: Any) -> bool:
        answers.append(real(*arguments))
        return answers[-1]

    monkeypatch.setattr(Delta, "is_of", noted)
    return answers


@pytest.mark.parametrize("story", daily(STORIES, STORIES[-1]), ids=lambda s: "-".join(n.__name__ for n in s))
def test_a_delta_that_is_handed_over_makes_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: list[bool], story: tuple[Night, ...]
) -> None:
    tables, counted = played(tmp_path / "handed over", story)
    assert used
    assert all(used)
    monkeypatch.setattr(Delta, "is_of", lambda *_: False)
    # And everything is compared with everything.
    monkeypatch.setattr("pipelines.store.compare._OLD", ("no such schema",))
    assert (tables, counted) == played(tmp_path / "found again", story)


def test_a_delta_of_another_day_is_not_used(tmp_path: Path, used: list[bool]) -> None:
    with Service(students(40), classes(1)) as service:
        house = House(tmp_path, service)
        for number in (1, 2):
            house.at(number).sync()
        rollbook = house.at(3).rollbook()
        with rollbook.writer():
            manifest, _ = rollbook.snapshot(rollbook.land())
            service.students[0] = student(1, name="Another")
            rollbook.snapshot(rollbook.land())  # a second landing of the day is compared, and composed again
            rollbook.merge()
            rollbook.publish()
    assert manifest.landing == 1
    assert house.query("SELECT name FROM students WHERE student_id = 1") == [("Another",)]
    assert used == [True, True]
