"""A year of a school, night after night: everybody works each school day, there are breaks and terms, a fifth leaves in
July and everybody is promoted in August. The holds that a person would want are named here, and nothing else is held.
"""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from rollbook.errors import HeldError
from rollbook.sandbox import MadeUpInstitution
from rollbook.sandbox.institution import is_holiday
from tests.campaign.wire import in_process
from tests.support.nights import FIRST, Expected, House, folder
from tests.support.wire.service import Service

# The day after last year's classes have gone, and a year less a day.
BEGINS, ENDS = date(2025, 9, 16), date(2026, 9, 16)
# Nights that are left out, to save time: such nights resemble their neighbours.
SATURDAY, MIDWEEK = 5, (1, 2, 3)
WHOLE_WEEK = 7  # the first week of each month is played whole
HELD = {
    date(2026, 7, 13): "students would be removed",  # those who have finished school
    date(2026, 8, 24): "student_classes would be removed",  # all other classes, for everybody
    date(2026, 9, 14): "classes would be removed",  # last year's, which were listed as inactive
}


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("students", [60])
def test_a_year_holds_the_nights_that_a_person_would_hold(students: int) -> None:
    school, service, expected = MadeUpInstitution(students), Service(), Expected()
    held: dict[date, str] = {}
    with folder() as root, in_process(service):
        house = House(root / "w", service, first_date=BEGINS)
        for number in range((BEGINS - FIRST).days + 1, (ENDS - FIRST).days + 1):
            day = FIRST + timedelta(days=number - 1)
            is_dull = is_holiday(day) or day.day > WHOLE_WEEK
            if day.weekday() == SATURDAY or (is_dull and day.weekday() in MIDWEEK):
                continue
            service.students, service.classes = school.on(day).students, school.on(day).classes
            try:
                house.night(number)
            except HeldError as error:
                held[day] = error.message
                house.approve()
            expected.night(number, service.students, service.classes)
        assert list(held) == list(HELD), held
        for day, what in HELD.items():
            assert what in held[day]
        assert house.tables() == expected.tables()
