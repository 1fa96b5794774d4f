"""From one day to the next the school lives: enough happens, and never a mass change."""

from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import pytest

from pipelines.sandbox import Day, Institution
from pipelines.sandbox.clock import is_holiday, terms
from tests.sandbox.rows import Tables, changed_keys, days_until, nights, tables_of, tracked_students
from tests.support.tiers import daily, slow

MUST_HAPPEN = {
    "a student works",
    "a student joins",
    "a student leaves",
    "a student changes name",
    "a student changes class",
    "a student is put into classes",
    "a student's completion falls",
    "a score appears",
    "a score goes",
    "a class opens",
    "a class closes",
    "a class disappears",
    "a roster changes",
    "an assignment is set",
}


def happenings(institution: Institution, days: list[date]) -> list[set[str]]:
    """What happened from each day to the next."""
    found = []
    for before, after in nights(institution, days):
        old, new = tracked_students(before), tracked_students(after)
        happened = {name for own in old.keys() & new.keys() for name in of_student(old[own], new[own])}
        happened |= of_classes(before, after)
        joined, left = new.keys() - old.keys(), old.keys() - new.keys()
        new_here = {student["id"] for student in after.students if student["registration_date"] == str(after.date)}
        happened |= {"a student joins"} if joined & new_here else set()
        happened |= {"a student leaves"} if left else set()
        if moved_class(before, after):
            happened.add("a student changes class")
        found.append(happened)
    return found


def of_student(old: dict[str, Any], new: dict[str, Any]) -> set[str]:
    before, after = old["summary"], new["summary"]
    facts = {
        "a student works": after["total_time_minutes"] > before["total_time_minutes"],
        "a student changes name": old["name"] != new["name"],
        "a student is put into classes": old.get("classes") == [] and bool(new.get("classes")),
        "a student's completion falls": before["completion_rate"] - after["completion_rate"] > 20,
        "a score appears": before["average_score"] is None and after["average_score"] is not None,
        "a score goes": before["average_score"] is not None and after["average_score"] is None,
    }
    return {name for name, is_so in facts.items() if is_so}


def of_classes(before: Day, after: Day) -> set[str]:
    old = {record["class_id"]: record for record in before.classes}
    new = {record["class_id"]: record for record in after.classes}
    both = old.keys() & new.keys()
    opened = new.keys() - old.keys()
    assert all(new[own]["class_status"] == 1 for own in opened)
    assert all(new[own]["class_dateadded"] == after.date.isoformat() for own in opened)
    assert all(old[own]["class_status"] == 0 for own in old.keys() - new.keys()), "a class closes before it disappears"
    assert not any(new[own]["class_status"] > old[own]["class_status"] for own in both), "none opens again"
    facts = {
        "a class opens": bool(opened),
        "a class closes": any(new[own]["class_status"] < old[own]["class_status"] for own in both),
        "a class disappears": bool(old.keys() - new.keys()),
        "a roster changes": any(new[own]["student_count"] != old[own]["student_count"] for own in both),
        "an assignment is set": any(
            new[own]["assignment_activity"]["assignment_count"] > old[own]["assignment_activity"]["assignment_count"]
            for own in both
        ),
    }
    return {name for name, is_so in facts.items() if is_so}


def moved_class(before: Day, after: Day) -> set[int]:
    """Who left a class that goes on for one that was there before."""
    old_rosters, new_rosters = before.rosters, after.rosters
    going_on = {own["class_id"] for own in before.classes if own["class_status"] == 1} & {
        own["class_id"] for own in after.classes if own["class_status"] == 1
    }
    left = {student for own in going_on for student in set(old_rosters[own]) - set(new_rosters[own])}
    entered = {student for own in going_on for student in set(new_rosters[own]) - set(old_rosters[own])}
    return left & entered


# The last in a term, over the autumn's week off, in the middle of a term, in the summer holidays.
LATEST_ENDS = [date(2026, 10, 25), date(2027, 6, 20), date(2029, 2, 11), date(2026, 8, 23)]


@pytest.mark.parametrize("latest_end", daily(LATEST_ENDS, LATEST_ENDS[0]))
def test_everything_happens_in_every_fortnight_of_500_students_on_any_day_it_ends_on(latest_end: date) -> None:
    """The demo plays the fortnight that ends today, on any today: three weeks of todays, in several years."""
    days = days_until(latest_end, 13 + 21)
    every_night = happenings(Institution(500), days)
    for last in range(13, len(every_night) + 1):
        assert set().union(*every_night[last - 13 : last]) >= MUST_HAPPEN, days[last]


@pytest.mark.parametrize("latest_end", daily(LATEST_ENDS, LATEST_ENDS[0]))
def test_students_return_within_every_fortnight_of_500_students(latest_end: date) -> None:
    """Only one who saw the student before sees a return: both days must be in the fortnight."""
    institution = Institution(500)
    days = days_until(latest_end, 13 + 21)
    listed = [set(institution.on(day).student_ids) for day in days]
    for first in range(21):
        window = listed[first : first + 14]
        came = [window[at] - window[at - 1] for at in range(1, 14)]
        returned = {own for at, new in enumerate(came) for own in new if any(own in earlier for earlier in window[:at])}
        assert len(returned) >= 2, days[first + 13]


def test_a_teacher_changes_now_and_then() -> None:
    changes = 0
    for before, after in nights(Institution(500), days_until(date(2026, 11, 20), 60)):
        taught = {record["class_id"]: record["teacher"] for record in before.classes}
        changes += sum(taught.get(own["class_id"], own["teacher"]) != own["teacher"] for own in after.classes)
    assert 2 <= changes <= 12


@pytest.fixture(scope="module")
def nights_of_5000() -> list[tuple[Day, Day]]:
    return nights(Institution(5000), days_until(date(2026, 11, 20), 15))


def changed_shares(played: list[tuple[Day, Day]]) -> dict[bool, list[float]]:
    """Percent of the students who changed overnight, of school days (True) and of days at the weekend."""
    shares: dict[bool, list[float]] = {True: [], False: []}
    for before, after in played:
        old, new = tracked_students(before), tracked_students(after)
        shares[after.date.weekday() < 5].append(100 * len(changed_keys(old, new)) / len(old))
    return shares


@pytest.mark.slow
def test_four_in_ten_of_5000_students_change_on_a_day_in_term_and_half_as_many_at_weekends(
    nights_of_5000: list[tuple[Day, Day]],
) -> None:
    shares = changed_shares(nights_of_5000)
    assert len(shares[True]) == 10
    assert all(30 < share < 45 for share in shares[True]), shares
    assert all(12 < share < 25 for share in shares[False]), shares


@pytest.mark.slow
def test_two_to_three_percent_of_5000_students_change_in_a_quiet_school_on_a_school_day_and_fewer_at_weekends() -> None:
    shares = changed_shares(nights(Institution(5000, quiet=True), days_until(date(2026, 11, 20), 15)))
    assert all(1 < share < 5 for share in shares[True]), shares
    assert 2 < sum(shares[True]) / 10 < 3.2, shares
    assert all(0.1 < share < 1.5 for share in shares[False]), shares


def last_seen(day: Day) -> list[int]:
    """How many days ago each student was last active, of those of whom it is known."""
    activity = [student.get("activity_tracking", {}) for student in day.students]
    return [own["days_since_last_activity"] for own in activity if own.get("has_ever_logged_in")]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_term_most_students_are_active_every_week_and_few_struggle(seed: int) -> None:
    day = Institution(500, seed=seed).on(date(2026, 11, 20))
    assert sum(age < 7 for age in last_seen(day)) > 0.8 * 500
    summaries = [student["summary"] for student in day.students]
    struggling = [
        own
        for own in summaries
        if (own["completion_rate"] < 30 and own["total_assignments"] >= 5) or (own["average_score"] or 100) < 50
    ]
    assert 0.03 * 500 < len(struggling) < 0.10 * 500
    assert 65 < sum(own["completion_rate"] for own in summaries) / len(summaries) < 85


@pytest.mark.parametrize("holiday", [date(2026, 1, 3), date(2026, 8, 15)])
def test_in_the_holidays_a_fifth_of_the_work_is_done(holiday: date) -> None:
    school = Institution(500)
    night = nights(school, [holiday - timedelta(days=1), holiday])[0]
    assert 0 < len(changed_keys(*map(tracked_students, night))) < 0.1 * 500
    assert sum(age < 7 for age in last_seen(school.on(holiday))) < 0.6 * 500


def test_terms_and_holidays_take_turns() -> None:
    first, last = date(2026, 1, 1), date(2028, 12, 31)
    found = terms(first, last)
    assert [term.name for term in found[:3]] == ["Spring 2026", "Summer 2026", "Autumn 2026"]
    assert all(before.last_day < after.first_day for before, after in pairwise(found))
    assert terms(found[1].first_day, found[1].last_day) == [found[1]]
    for day in (first + timedelta(days=n) for n in range((last - first).days)):
        if not is_holiday(day) and day.weekday() < 5:
            assert sum(term.first_day <= day <= term.last_day for term in found) == 1, day


@pytest.mark.slow
def test_a_few_in_a_thousand_students_leave_and_as_many_come_on_a_school_day(
    nights_of_5000: list[tuple[Day, Day]],
) -> None:
    for before, after in nights_of_5000:
        old, new = set(before.student_ids), set(after.student_ids)
        if after.date.weekday() < 5:
            assert 0.001 < len(old - new) / 5000 < 0.004
            assert 0.001 < len(new - old) / 5000 < 0.006
        else:
            assert old == new


def test_days_since_last_activity_is_all_that_changes_for_most_in_a_quiet_school() -> None:
    before, after = nights(Institution(500, quiet=True), days_until(date(2026, 11, 20), 2))[0]
    old = {own["id"]: own for own in before.students}
    only_clock = 0
    for student in after.students:
        was = old.get(student["id"])
        if was and "activity_tracking" in was and "activity_tracking" in student and was != student:
            ages = [own["activity_tracking"]["days_since_last_activity"] for own in (was, student)]
            rest = was["activity_tracking"] | {"days_since_last_activity": ages[1]}
            only_clock += was | {"activity_tracking": rest} == student and ages[1] == ages[0] + 1
    assert only_clock > 400


def landslides(old: Tables, new: Tables) -> list[str]:
    """The tables that a careful reader would call a mass change: a margin within what Rollbook holds."""
    found = []
    for name, rows in old.items():
        removed = len(rows.keys() - new[name].keys())
        if removed > 5 and removed > 0.10 * len(rows):
            found.append(f"{name}: {removed} of {len(rows)} removed")
        if len(changed_keys(rows, new[name])) > 0.60 * len(rows):
            found.append(f"{name}: {len(changed_keys(rows, new[name]))} of {len(rows)} changed")
    return found


@pytest.mark.parametrize(("students", "nights_played"), [slow(50, 200), (120, 60), slow(500, 30)])
@pytest.mark.parametrize("seed", daily([1, 2], 1))
def test_no_night_looks_like_a_mass_change(students: int, nights_played: int, seed: int) -> None:
    institution = Institution(students, seed=seed)
    old: Tables | None = None
    for day in days_until(date(2026, 12, 31), nights_played + 1):
        new = tables_of(institution.on(day))
        if old is not None:
            assert landslides(old, new) == [], day
        old = new


@pytest.mark.slow
def test_no_night_of_5000_students_looks_like_a_mass_change(nights_of_5000: list[tuple[Day, Day]]) -> None:
    for before, after in nights_of_5000[-6:]:
        assert landslides(tables_of(before), tables_of(after)) == [], after.date


@pytest.mark.slow
def test_about_a_fifth_of_class_summaries_change_on_a_school_day_and_none_at_weekends(
    nights_of_5000: list[tuple[Day, Day]],
) -> None:
    """Each is worked out once a week. Were it every night, one in two would change, next to a mass change."""
    for before, after in nights_of_5000:
        old, new = (tables_of(day)["class_summaries"] for day in (before, after))
        share = len(changed_keys(old, new)) / len(old)
        assert (0.10 < share < 0.25) if after.date.weekday() < 5 else share == 0, (after.date, share)


def test_of_a_small_schools_classes_never_more_than_five_disappear_in_a_night() -> None:
    for students in (5, 50, 500):
        for before, after in nights(Institution(students), days_until(date(2026, 12, 31), 60)):
            old, new = ({own["class_id"] for own in day.classes} for day in (before, after))
            assert len(old - new) <= 5
