"""A set that stays unproven night after night: status, the morning page and an alert say so, and name the repeated ids."""

from __future__ import annotations

import pytest

from tests.support.nights import House, new_house, night, status_of
from tests.support.records import classes, student, students
from tests.support.warehouses.erasures import erase
from tests.support.wire import faults
from tests.support.wire.listeners import Webhook

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]

TWICE = student(7, name="Ada Listed-Twice")


def told(house: House) -> str:
    """The status's sentence; the page must say the same."""
    says = "".join(status_of(house.rollbook()).unproven)
    page = (house.warehouse / "report.html").read_text()
    assert ("not complete" in page) == bool(says)
    return says


def test_three_unproven_nights_are_told_once_with_ids_and_at_the_end(hook: Webhook) -> None:
    with new_house(notify=hook.url) as house:

        def play(number: int, records: list[dict[str, object]]) -> str:
            house.night(number, records, classes(2))
            return told(house)

        assert play(1, [*students(120), student(130)]) == ""
        assert play(2, [*students(120), TWICE]) == ""  # on two pages, in every walk
        assert play(3, [*students(120), TWICE, TWICE]) == ""
        assert hook.texts == []
        wanted = (
            f"students could not be proven complete on 3 nights in a row, since {night(2)}, so what has left since is"
            " still listed. The service lists ids more than once, such as 7: ask the service's representative to"
            " correct that"
        )
        assert play(4, [*students(120), TWICE]) == wanted
        assert [text.splitlines()[:2] for text in hook.texts] == [
            [f"Rollbook, Made-up School: the sync of {night(4)} is unproven", f"{wanted}."]
        ]
        assert "on 4 nights" in play(5, [*students(120), TWICE])
        assert len(hook.texts) == 1
        erase(house, 7)
        assert "more than once" not in told(house)
        assert play(6, students(120)) == ""
        assert [text.splitlines()[0] for text in hook.texts[1:]] == [
            f"Rollbook, Made-up School: the sync of {night(6)} is good again"
        ]
        assert "Ada" not in "".join(hook.texts)
        assert house.query("SELECT COUNT(*) FROM students") == [(119,)]


def test_a_total_that_is_never_stated_is_named() -> None:
    with new_house(students(250), classes(2)) as house:
        house.service.on(faults.stated(total_count=None, total_pages=None), path="students", times=None)
        for number in (1, 2):
            house.night(number)
        assert house.night(3).manifest.reason.startswith(
            "students could not be proven complete (walk 1, page 1: total_count and total_pages not stated; walk 2, "
        )
        assert house.query("SELECT COUNT(*) FROM students") == [(250,)]
        assert "(walk 3, page 1: total_count and total_pages not stated): ask the service's" in told(house)
