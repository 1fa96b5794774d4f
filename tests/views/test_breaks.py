"""Inactivity over a school's breaks: school days count, and a common silence is one sentence on the morning page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta

import pytest

from rollbook.features.morning import morning
from rollbook.views import editable
from rollbook.views.editable import Term
from tests.support.nights import House, new_house, night
from tests.support.reading import text
from tests.support.records import Records, classes, student, within

pytestmark = [pytest.mark.nights, pytest.mark.every_feature]

# Everybody's last day of school before the break, and the terms on either side: night 1 is in the second.
LAST_DAY, BREAK = night(1) - timedelta(days=47), 45
SUMMER = Term("Summer", LAST_DAY - timedelta(days=60), LAST_DAY)
AUTUMN = Term("Autumn", LAST_DAY + timedelta(days=BREAK + 1), night(1) + timedelta(days=90))
WATCHED = "SELECT student_id, reason, days_inactive FROM students_to_watch ORDER BY 1"


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


def weekdays(since: date, until: date, *of: Term) -> int:
    """The weekdays after a day and before another, of which those of terms count."""
    days = (since + timedelta(days=n) for n in range(1, (until - since).days))
    return sum(d.weekday() < 5 and (not of or any(t.first_day <= d <= t.last_day for t in of)) for d in days)


def test_a_break_is_no_absence_where_terms_are_given(empty_school: House) -> None:
    absent = LAST_DAY - timedelta(days=20)
    with_terms(empty_school, SUMMER, AUTUMN).night(1, pupils(LAST_DAY, {7: absent, 8: None}), classes(1))
    away = weekdays(absent, night(1), SUMMER, AUTUMN)
    assert (away, weekdays(absent, night(1))) == (15, 48), "the break is not counted"
    assert empty_school.query(WATCHED) == [(7, f"inactive for {away} school days", 67)]
    assert "inactive at once" not in page(empty_school)


def test_who_registers_in_a_break_has_school_days_to_log_in(empty_school: House) -> None:
    """Schools register next year's pupils in summer."""
    new = within("activity_tracking", has_ever_logged_in=False, first_login_date=None, last_activity_date=None)
    days = {1: LAST_DAY - timedelta(days=21), 2: LAST_DAY - timedelta(days=18), 3: LAST_DAY + timedelta(days=9)}
    listed = [
        student(i, registration_date=str(day), **new, **within("summary", last_activity_date=None))
        for i, day in days.items()
    ]
    assert [weekdays(day, night(1), SUMMER, AUTUMN) for day in days.values()] == [16, 13, 1]
    with_terms(empty_school, SUMMER, AUTUMN).night(1, listed, classes(1))
    query = "SELECT student_id, severity, reason FROM students_to_watch"
    assert empty_school.query(query) == [(1, 1.07, f"never logged in, registered {days[1]}")]


@pytest.mark.parametrize(
    "terms",
    [
        (),
        (AUTUMN,),
        (SUMMER,),
        (Term("All year", SUMMER.first_day, AUTUMN.last_day),),
        (SUMMER, Term("A week", LAST_DAY + timedelta(days=9), LAST_DAY + timedelta(days=16)), AUTUMN),
        (Term("Until tonight", LAST_DAY, night(1)),),
        (Term("From tomorrow", night(2), night(9)),),
    ],
)
def test_before_the_first_night_weekdays_of_terms_count(empty_school: House, terms: tuple[Term, ...]) -> None:
    with_terms(empty_school, *terms)
    counted = weekdays(LAST_DAY, night(1), *terms)
    (empty_school.warehouse / editable.THRESHOLDS).write_text(f"name,value,meaning\ninactive_school_days,{counted},\n")
    empty_school.night(1, pupils(LAST_DAY, count=3), classes(1))
    assert empty_school.query(WATCHED) == [(i, f"inactive for {counted} school days", 47) for i in (1, 2, 3)]
    (empty_school.warehouse / editable.THRESHOLDS).write_text(
        f"name,value,meaning\ninactive_school_days,{counted + 1},\n"
    )
    empty_school.night(2)
    assert empty_school.query(WATCHED) == []


def test_holidays_are_found_in_the_records(empty_school: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without terms: nobody is active for nights on end, and nobody is absent."""
    monkeypatch.setattr(morning, "DAYS_WITHOUT_SCHOOL", 7)
    at_school = [night(n) for n in range(1, 6)]
    for n in range(1, 6):
        empty_school.night(n, pupils(night(n), {3: min(night(2), night(n)), 4: night(1)}), classes(1))
    few = dict.fromkeys(range(30, 36), night(9))
    for n in range(6, 13):
        empty_school.night(n, pupils(night(5), {3: night(2), 4: night(1)} | (few if n > 8 else {})))
    days = empty_school.query("SELECT day, active, listed FROM active_days ORDER BY day")
    active = [*zip(at_school, (40, 39, 38, 38, 38), strict=True), (night(9), 6)]
    assert days == [(day, count, 40) for day, count in active]
    assert empty_school.query(WATCHED) == []
    assert "No school day was found" in page(empty_school), "holidays, or school_day_percent is too high"
    for n in (13, 14, 15):
        empty_school.night(n, pupils(night(n), {3: night(2), 4: night(1), 5: night(5)}))
    assert empty_school.query(WATCHED) == [
        (3, "inactive for 5 school days", 13),
        (4, "inactive for 6 school days", 14),
    ], "three or four days before the holidays, and two after, as far as is known"
    assert "No school day was found" not in page(empty_school)


def test_a_night_says_what_is_said_of_it_later(empty_school: House) -> None:
    """Nights are after midnight: the day before is the last one that is known."""
    said = {}
    for n in range(1, 11):
        back = night(2) if n < 8 else night(n - 1)  # after four days
        empty_school.night(
            n, pupils(night(n - 1), {3: min(night(2), night(n - 1)), 4: min(back, night(n - 1))}), classes(1)
        )
        said[night(n)] = empty_school.query("SELECT student_id, reason FROM students_to_watch ORDER BY 1")
    later = {day: f"SELECT student_id, reason FROM students_to_watch_as_of(DATE '{day}') ORDER BY 1" for day in said}
    assert {day: empty_school.query(asked) for day, asked in later.items()} == said
    changes = "SELECT snapshot_date, student_id, change, reason FROM watch_daily ORDER BY 1, 2"
    assert empty_school.query(changes) == [
        (night(n), 3, "newly to watch" if n == 8 else "still to watch", f"inactive for {n - 3} school days")
        for n in (8, 9, 10)
    ]


def test_weekly_syncs_with_terms_find_who_is_away_for_weeks(empty_school: House) -> None:
    with_terms(empty_school, SUMMER, AUTUMN)
    for n in (1, 8, 15, 22):
        empty_school.night(n, pupils(night(n - 1), {3: night(0)}), classes(1))
    ((days,),) = empty_school.query("SELECT COUNT(*) FROM active_days WHERE active >= 39")
    assert days >= 15, "the weekdays of three weeks"
    ((student, reason, _),) = empty_school.query(WATCHED)
    assert (student, reason) == (3, "inactive for 15 school days")


def test_a_common_silence_is_one_sentence_and_hides_no_other_reason(empty_school: House) -> None:
    idle = pupils(LAST_DAY)
    idle[4]["summary"] |= {"completion_rate": 3.0, "total_assignments": 20}
    empty_school.night(1, idle, classes(1))
    assert empty_school.query("SELECT COUNT(*) FROM students_to_watch") == [(40,)]
    assert "40 of 40 students are inactive at once. So long a common silence looks like a break" in page(empty_school)
    assert "below its heading a line each, such as Autumn,2026-09-01,2026-12-18" in page(empty_school)
    assert "1 to watch: 1 low completion" in page(empty_school)
    empty_school.night(2, pupils(night(1), {3: LAST_DAY}))  # school begins again, and a student does not come
    assert "inactive at once" not in page(empty_school)
    assert "38 no longer to watch" in page(empty_school)
    away = weekdays(LAST_DAY, night(1))
    low = f"inactive for {away} school days; low completion (3 %, under 30) (last on {night(1)})"
    assert empty_school.query(WATCHED) == [(3, f"inactive for {away + 1} school days", 48), (5, low, 47)]


def test_a_few_who_are_inactive_are_listed_as_ever(empty_school: House) -> None:
    empty_school.night(1, pupils(night(1), dict.fromkeys(range(1, 20), LAST_DAY)), classes(1))
    assert "inactive at once" not in page(empty_school)
    assert "19 to watch: 19 inactive" in page(empty_school)


def test_a_silence_in_term_asks_for_no_terms(empty_school: House) -> None:
    with_terms(empty_school, Term("All year", SUMMER.first_day, night(1))).night(1, pupils(LAST_DAY), classes(1))
    assert "So common a silence in term time looks like" in page(empty_school)
    assert "Write the school's terms" not in page(empty_school)
    empty_school.night(2)
    assert f"The last term in terms.csv ended on Friday, {night(1).day} Nov 2026." in page(empty_school)
