"""A year of a school, night after night: everybody works each school day, there are breaks and terms, a fifth leaves in
July and everybody is promoted in August. The holds that a person would want are named here, and nothing else is held.
"""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from rollbook.errors import HeldError
from rollbook.sandbox import MadeUpInstitution
from tests.campaign.wire import in_process
from tests.support.nights import FIRST, Expected, House, folder
from tests.support.wire.service import Service

# The day after last year's classes have gone, and a year less a day.
BEGINS, ENDS = date(2025, 9, 16), date(2026, 9, 16)
# To save time, of most weeks only the Monday is played: its other nights resemble their neighbours. Whole are the first
# weeks of these months, in which something begins or ends.
MONDAY, WHOLE_WEEK = 0, 7
WHOLE_IN = (1, 7, 8, 9)
HELD = {
    date(2026, 7, 13): " students (",  # those who have finished school
    date(2026, 8, 24): "rows of student_classes (",  # all other classes, for everybody
    date(2026, 9, 14): " classes (",  # last year's, which were listed as inactive
}


@pytest.mark.weekly
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("students", [60])
def test_a_year_holds_the_nights_that_a_person_would_hold(students: int) -> None:
    school, service, expected = MadeUpInstitution(students), Service(), Expected()
    held: dict[date, str] = {}
    with folder() as root, in_process(service):
        house = House(root / "w", service, first_date=BEGINS)
        for number in range((BEGINS - FIRST).days + 1, (ENDS - FIRST).days + 1):
            day = FIRST + timedelta(days=number - 1)
            if day.weekday() != MONDAY and (day.day > WHOLE_WEEK or day.month not in WHOLE_IN):
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
