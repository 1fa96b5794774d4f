"""Inactivity over a school's breaks: days of term count, and a common silence is one sentence on the morning page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta

import pytest

from rollbook.views import editable
from rollbook.views.editable import Term
from tests.support.nights import House, line_of, new_house, night
from tests.support.reading import text
from tests.support.records import Records, classes, student, within

pytestmark = pytest.mark.nights

# Everybody's last day of school before the break, and the terms on either side: night 1 is in the second.
LAST_DAY, BREAK = night(1) - timedelta(days=47), 45
SUMMER = Term("Summer", LAST_DAY - timedelta(days=60), LAST_DAY)
AUTUMN = Term("Autumn", LAST_DAY + timedelta(days=BREAK + 1), night(1) + timedelta(days=90))
WATCHED = "SELECT student_id, reason, days_inactive, term_days_inactive FROM students_to_watch ORDER BY 1"


@pytest.fixture
def empty_school() -> Iterator[House]:
    with new_house() as house:
        yield house


def pupils(last: date, but: Mapping[int, date | None] | None = None, count: int = 40) -> Records:
    """Students whose last activity was on a day; of some, by id, on another day."""
    of = dict.fromkeys(range(1, count + 1), last) | dict(but or {})
    shown = {i: day and str(day) for i, day in of.items()}
    return [
        student(i, **within("summary", last_activity_date=d) | within("activity_tracking", last_activity_date=d))
        for i, d in shown.items()
    ]


def with_terms(house: House, *terms: Term) -> House:
    house.warehouse.mkdir(exist_ok=True)
    (house.warehouse / editable.TERMS).write_text(editable.render_terms(terms))
    return house


def page(house: House) -> str:
    return text((house.warehouse / "report.html").read_text())


def test_a_break_is_no_absence_where_terms_are_given(empty_school: House) -> None:
    absent = LAST_DAY - timedelta(days=20)
    with_terms(empty_school, SUMMER, AUTUMN).night(1, pupils(LAST_DAY, {7: absent, 8: None}), classes(1))
    # 47 days ago, of which two are in term; the student who was absent before the break, twenty more.
    assert empty_school.query(WATCHED) == [(7, "inactive for 22 days of term", 67, 22)]
    assert "inactive at once" not in page(empty_school)


def test_who_registers_in_a_break_has_days_of_term_to_log_in(empty_school: House) -> None:
    """Schools register next year's pupils in summer."""
    new = within("activity_tracking", has_ever_logged_in=False, first_login_date=None, last_activity_date=None)
    listed = [
        student(i, registration_date=str(day), **new, **within("summary", last_activity_date=None))
        for i, day in (
            (1, LAST_DAY - timedelta(days=13)),
            (2, LAST_DAY - timedelta(days=11)),
            (3, LAST_DAY + timedelta(9)),
        )
    ]
    with_terms(empty_school, SUMMER, AUTUMN).night(1, listed, classes(1))
    query = "SELECT student_id, severity, reason FROM students_to_watch"
    assert empty_school.query(query) == [(1, 1.07, f"never logged in, registered {LAST_DAY - timedelta(days=13)}")]


@pytest.mark.parametrize(
    ("terms", "counted"),
    [
        ((), 47),
        ((AUTUMN,), 2),
        ((SUMMER,), 0),
        ((Term("All year", SUMMER.first_day, AUTUMN.last_day),), 47),
        ((SUMMER, Term("A day", LAST_DAY + timedelta(days=9), LAST_DAY + timedelta(days=9)), AUTUMN), 3),
        ((Term("Until tonight", LAST_DAY, night(1)),), 47),
        ((Term("From tonight", night(1), night(9)),), 1),
        ((Term("From tomorrow", night(2), night(9)),), 0),
    ],
)
def test_the_days_that_count_are_those_of_terms(empty_school: House, terms: tuple[Term, ...], counted: int) -> None:
    with_terms(empty_school, *terms)
    (empty_school.warehouse / editable.THRESHOLDS).write_text(
        "name,value,meaning\ninactive_days,0,\ninactive_term_days,0,\n"
    )
    empty_school.night(1, pupils(LAST_DAY, count=3), classes(1))
    assert [row[2:] for row in empty_school.query(WATCHED)] == [(47, counted)] * 3


def test_a_common_silence_is_one_sentence_and_hides_no_other_reason(empty_school: House) -> None:
    idle = pupils(LAST_DAY)
    idle[4]["summary"]["completion_rate"] = 3.0
    empty_school.night(1, idle, classes(1))
    assert empty_school.query("SELECT COUNT(*) FROM students_to_watch") == [(40,)]
    assert "40 of 40 students are inactive at once. So long a common silence looks like a break" in page(empty_school)
    assert "below its heading a line each, such as Autumn,2026-09-01,2026-12-18" in page(empty_school)
    assert "1 to watch: 1 low completion" in page(empty_school)
    empty_school.night(2, pupils(night(1), {3: LAST_DAY}))  # school begins again, and a student does not come
    assert "inactive at once" not in page(empty_school)
    assert "39 no longer to watch" in page(empty_school)
    assert empty_school.query(WATCHED) == [(3, "inactive for 48 days", 48, 48)]


def test_a_few_who_are_inactive_are_listed_as_ever(empty_school: House) -> None:
    empty_school.night(1, pupils(night(1), dict.fromkeys(range(1, 20), LAST_DAY)), classes(1))
    assert "inactive at once" not in page(empty_school)
    assert "19 to watch: 19 inactive" in page(empty_school)


def test_without_terms_many_who_turn_inactive_ask_for_them(empty_school: House) -> None:
    """As holidays begin, some a night: the page and the status say what it may be, and how to write it."""
    lately = dict.fromkeys(range(1, 13), night(1) - timedelta(days=24))
    empty_school.night(1, pupils(night(1), lately), classes(1))
    told = "12 of 40 students turned inactive within a week"
    line = f"{told}, which looks like holidays. Write the school's terms into terms.csv in the warehouse's folder"
    line += ", below its heading a line each, such as Autumn,2026-09-01,2026-12-18: then only days of term count"
    assert f"{line}." in page(empty_school)
    assert line_of(empty_school.rollbook(), "terms") == line
    with_terms(empty_school, Term("All year", SUMMER.first_day, AUTUMN.last_day)).night(2)
    assert "turned inactive" not in page(empty_school)
    assert line_of(empty_school.rollbook(), "terms") is None


def test_a_silence_in_term_asks_for_no_terms(empty_school: House) -> None:
    with_terms(empty_school, Term("All year", SUMMER.first_day, night(1))).night(1, pupils(LAST_DAY), classes(1))
    assert "So common a silence in term time looks like" in page(empty_school)
    assert "terms.csv" not in page(empty_school)
    empty_school.night(2)
    assert f"The last term in terms.csv ended on Friday, {night(1).day} Nov 2026." in page(empty_school)
