"""The made-up school: the records have the contract's shape and agree, and from day to day the school lives."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import pytest

from rollbook.sandbox import Day, MadeUpInstitution
from rollbook.sandbox.institution import TURNS, Turn, is_holiday, terms
from tests.support.nights import SET_OF, class_rows, student_rows
from tests.support.tiers import daily, slow, weekly

pytestmark = pytest.mark.nights

Record = dict[str, Any]
FRIDAY = date(2026, 11, 20)
ENTRY = {"class_id": int, "class_title": str, "course_name": str}
STUDENT = {
    "id": int,
    "email": str,
    "name": str,
    "first_name": str,
    "last_name": str,
    "reference_id": str,
    "profile_image": str,
    "registration_date": date,
    "is_registered": int,
    "classes": [ENTRY],
    "summary": {
        "total_assignments": int,
        "completed_assignments": int,
        "completion_rate": float,
        "average_score": float,
        "total_assessments": int,
        "completed_assessments": int,
        "total_time_minutes": float,
        "last_activity_date": date,
    },
    "activity_tracking": {
        "first_login_date": date,
        "last_activity_date": date,
        "days_since_last_activity": int,
        "assignment_submission_count": int,
        "assignment_missing_count": int,
        "has_ever_logged_in": bool,
    },
}
CLASS = {
    "class_id": int,
    "class_title": str,
    "class_code": str,
    "class_status": int,
    "class_room": str,
    "class_dateadded": date,
    "course": {"course_id": int, "course_name": str},
    "teacher": {"teacher_id": int, "name": str, "email": str},
    "student_count": int,
    "summary": {"average_completion_rate": float, "average_score": float, "total_engagement_minutes": float},
    "assignment_activity": {
        "has_assignments": bool,
        "assignment_count": int,
        "first_assignment_date": date,
        "last_assignment_date": date,
        "students_enrolled": int,
        "students_with_submissions": int,
        "students_without_submissions": int,
    },
}
OPTIONAL = {
    *("first_name", "last_name", "profile_image", "classes", "activity_tracking", "summary.total_assessments"),
    *("summary.completed_assessments", "summary.last_activity_date"),
}
NULL = {
    *("summary.average_score", "activity_tracking.first_login_date", "activity_tracking.last_activity_date"),
    "activity_tracking.days_since_last_activity",
}
NULL_OF_CLASS = {"assignment_activity.first_assignment_date", "assignment_activity.last_assignment_date"}


def played(institution: MadeUpInstitution, end: date, count: int) -> list[Day]:
    """The `count` days that end with `end`, oldest first."""
    return [institution.on(end - timedelta(days=back)) for back in reversed(range(count))]


@pytest.fixture(scope="module")
def fortnight() -> list[Day]:
    return played(MadeUpInstitution(500), FRIDAY, 14)


def departures(value: Any, shape: Any, path: str = "") -> set[str]:
    """Where a value is null or absent. Fails where the shape is wrong."""
    if value is None:
        return {path}
    if isinstance(shape, dict):
        assert value.keys() <= shape.keys(), path
        inner = [departures(value.get(name), kind, f"{path}.{name}".strip(".")) for name, kind in shape.items()]
        return set().union(*inner)
    if isinstance(shape, list):
        return set().union(*(departures(each, shape[0], path) for each in value))
    if shape is date:
        assert date.fromisoformat(value).isoformat() == value, path
    else:
        assert type(value) is shape, (path, value)
    return set()


def test_records_have_the_contracts_shape_and_every_absence_occurs(fortnight: list[Day]) -> None:
    of_students = set().union(*(departures(each, STUDENT) for day in fortnight for each in day.students))
    assert of_students == OPTIONAL | NULL
    assert set().union(*(departures(each, CLASS) for day in fortnight for each in day.classes)) == NULL_OF_CLASS
    assert any(each.get("classes") == [] for day in fortnight for each in day.students)


def test_the_lists_are_in_order_and_nobody_takes_over_anothers_address(fortnight: list[Day]) -> None:
    owner: dict[str, str] = {}
    for day in fortnight:
        ids = [each["id"] for each in day.students]
        classes = {each["class_id"]: each for each in day.classes}
        assert ids == sorted(set(ids))
        assert list(classes) == sorted(classes)
        for student in day.students:  # nobody takes over another's, on another day either
            assert owner.setdefault(student["email"], student["reference_id"]) == student["reference_id"]
            assert all(classes[each["class_id"]]["class_status"] for each in student.get("classes", []))


def test_a_seed_and_a_day_make_the_same_school_always() -> None:
    days = [FRIDAY, date(2025, 2, 1), FRIDAY - timedelta(days=1)]
    forwards, backwards = MadeUpInstitution(60, seed=7), MadeUpInstitution(60, seed=7)
    assert [forwards.on(day) for day in days] == [backwards.on(day) for day in reversed(days)][::-1]
    assert MadeUpInstitution(60, seed=8).on(FRIDAY) != forwards.on(FRIDAY)


def happenings(before: Day, after: Day) -> set[str]:
    """The events of a night."""
    events = set()
    old, new = ({each["id"]: each for each in day.students} for day in (before, after))
    events |= {"a student joins" for own in new.keys() - old if new[own]["registration_date"] == str(after.date)}
    events |= {"a student leaves" for _ in old.keys() - new}
    for was, now in ((old[own], new[own]) for own in old.keys() & new):
        then, summary = was["summary"], now["summary"]
        facts = {
            "a student works": summary["total_time_minutes"] > then["total_time_minutes"],
            "a student changes name": was["name"] != now["name"],
            "a student is put into classes": was.get("classes") == [] != now.get("classes", []),
            "a student's completion falls": then["completion_rate"] > summary["completion_rate"],
            "a score appears": then["average_score"] is None is not summary["average_score"],
            "a field goes": bool(was.keys() - now),
            "a field comes": bool(now.keys() - was),
        }
        events |= {name for name, is_so in facts.items() if is_so}
    classes = [{each["class_id"]: each for each in day.classes} for day in (before, after)]
    events |= {"a class opens" for _ in classes[1].keys() - classes[0]}
    events |= {"a class disappears" for _ in classes[0].keys() - classes[1]}
    for was, now in ((classes[0][own], classes[1][own]) for own in classes[0].keys() & classes[1]):
        counts = [each["assignment_activity"]["assignment_count"] for each in (was, now)]
        facts = {
            "a class closes": was["class_status"] > now["class_status"],
            "a roster changes": was["student_count"] != now["student_count"],
            "an assignment is set": counts[1] > counts[0],
        }
        events |= {name for name, is_so in facts.items() if is_so}
    return events


MUST_HAPPEN = {
    *("a student joins", "a student leaves", "a student changes name", "a field goes"),
    *("a student is put into classes", "a field comes", "a class opens", "a class closes", "a class disappears"),
    *("a roster changes", "an assignment is set"),
}
IN_TERM = {"a student works", "a student's completion falls", "a score appears"}
# The last in a term, over the autumn's week off, in the middle of a term, in the summer holidays.
ENDS = [date(2026, 10, 25), date(2027, 6, 20), date(2029, 2, 11), date(2026, 8, 23)]


@pytest.mark.parametrize("end", daily(ENDS, ENDS[0]))
def test_everything_happens_in_every_fortnight_of_500_students(end: date) -> None:
    """The demo plays the fortnight that ends today, on any today."""
    days = played(MadeUpInstitution(500), end, 13 + 21)
    every_night = [happenings(*night) for night in pairwise(days)]
    listed = [{each["id"] for each in day.students} for day in days]
    must_happen = MUST_HAPPEN | (set() if is_holiday(end) else IN_TERM)
    for first in range(21):
        assert set().union(*every_night[first : first + 13]) >= must_happen, days[first].date
        window = listed[first : first + 14]
        left = [(at, leaver) for at in range(1, 14) for leaver in window[at - 1] - window[at]]
        assert any(leaver in later for at, leaver in left for later in window[at:]), "nobody returns"


def test_completed_work_falls_only_when_a_school_year_begins() -> None:
    year = played(MadeUpInstitution(120), date(2027, 8, 22), 53 * 7)[::7]
    counted = [
        {
            each["id"]: (each["summary"], each["activity_tracking"])
            for each in day.students
            if "activity_tracking" in each
        }
        for day in year
    ]
    done = 0
    for then, now in pairwise(counted[1:]):
        for own in then.keys() & now.keys():
            (was, had), (is_, has) = then[own], now[own]
            assert was["total_assignments"] <= is_["total_assignments"]
            assert was["completed_assignments"] <= is_["completed_assignments"]
            assert had["assignment_submission_count"] <= has["assignment_submission_count"]
            assert has["assignment_submission_count"] + has["assignment_missing_count"] <= is_["total_assignments"]
            done += is_["completed_assignments"] - was["completed_assignments"]
    assert done > 120 * 40
    restarts = [own for own in counted[0].keys() & counted[1] if counted[0][own][0]["total_assignments"] > 100]
    assert restarts
    assert all(counted[1][own][0]["total_assignments"] < 10 for own in restarts)


def test_a_tenth_of_the_seats_turns_in_a_year_in_every_way() -> None:
    institution, seen = MadeUpInstitution(600), dict[int, Turn]()
    for first in range(0, 196, 7):
        seen |= institution.turned(date(2026, 10, 1) + timedelta(days=first))
    kinds = Counter(turn.kind for turn in seen.values())
    assert kinds.keys() == {*TURNS, "always"}
    assert 50 <= sum(kinds[kind] for kind in TURNS) <= 62, "a few had left before, or came later"
    assert all(kinds[kind] >= 10 for kind in TURNS)
    assert all(turn.until is None or turn.since < turn.until for turn in seen.values())
    ill = institution.ill(FRIDAY)
    assert len(ill) > 600 / 3
    assert all(since <= until for since, until in ill.values())


def handed_in(institution: MadeUpInstitution, day: date) -> dict[int, tuple[int, int, int]]:
    """Of each student who visits: the assignments given, completed and missing."""
    return {
        each["id"]: (
            each["summary"]["total_assignments"],
            each["summary"]["completed_assignments"],
            each["activity_tracking"]["assignment_missing_count"],
        )
        for each in institution.on(day).students
        if each.get("activity_tracking", {}).get("has_ever_logged_in")
    }


def test_who_turns_hands_in_less_from_that_day_on() -> None:
    institution, last = MadeUpInstitution(600), date(2027, 5, 14)
    every_week = {day: handed_in(institution, day) for day in (last - timedelta(days=7 * n) for n in range(30, -1, -1))}
    turned = institution.turned(last)
    for kind, share in (("stops", 0.1), ("slips", 0.4), ("one subject", 0.85), ("recovers", 0.5), ("always", 0.45)):
        done = given = 0
        for own, turn in turned.items():
            # From a week later on, when earlier work has been handed in, for three weeks.
            since = max(turn.since, min(every_week))
            days = [day for day in every_week if 7 <= (day - since).days < 35]
            if turn.kind == kind and len(days) == 4 and all(own in every_week[day] for day in days):
                given += every_week[days[-1]][own][0] - every_week[days[0]][own][0]
                done += every_week[days[-1]][own][1] - every_week[days[0]][own][1]
        assert given > 20
        assert done <= share * given, kind


@pytest.mark.parametrize("what", ["lull", "late marking"])
def test_a_twin_without_it_differs_in_nothing_else(what: str) -> None:
    school, twin = MadeUpInstitution(300), MadeUpInstitution(300, without=[what])
    day = date(2027, 3, 12)
    ours, theirs = handed_in(school, day), handed_in(twin, day)
    assert ours.keys() == theirs.keys()
    assert all(ours[own][0] == theirs[own][0] for own in ours)
    assert all(ours[own][1] <= theirs[own][1] for own in ours), "more is handed in without"
    affected = sum(ours[own] != theirs[own] for own in ours)
    assert 20 < affected < len(ours)
    assert school.turned(day) == twin.turned(day)
    assert school.ill(day) == twin.ill(day)


def test_a_twin_without_the_holiday_does_the_same_work_two_weeks_earlier() -> None:
    school, twin = MadeUpInstitution(300), MadeUpInstitution(300, without=["holiday"])
    spring, summer = date(2027, 4, 9), date(2027, 5, 21)
    assert handed_in(school, spring) == handed_in(twin, spring)
    ours, theirs = handed_in(school, summer), handed_in(twin, summer - timedelta(days=14))
    here = [own for own in ours.keys() & theirs.keys() if ours[own][0] >= theirs[own][0] > 60]
    assert len(here) > 200
    assert sum(ours[own] == theirs[own] for own in here) > 0.95 * len(here), "but for who changed classes since"


def tables_of(day: Day) -> dict[str, dict[Any, Any]]:
    """The tracked columns of every table, by key."""
    tables: dict[str, dict[Any, Any]] = {name: {} for name in SET_OF}
    for rows in (*map(student_rows, day.students), *map(class_rows, day.classes)):
        for table, own in rows.items():
            tables[table] |= own or {}
    return tables


# People and structure; the other tables move with every school day.
STRUCTURE = ("students", "classes", "student_classes")
# Those who have finished leave; everybody is promoted; last year's classes are listed no more.
MASS_CHANGES = [date(2026, 7, 13), date(2026, 8, 24), date(2026, 9, 14)]


@pytest.mark.parametrize(("students", "nights"), [weekly(50, 200), (120, 200), weekly(500, 180), slow(5000, 6)])
@pytest.mark.parametrize("seed", daily([1, 2], 1))
def test_only_a_summers_nights_look_like_a_mass_change(students: int, nights: int, seed: int) -> None:
    """With a margin within what Rollbook holds."""
    institution, mass_days = MadeUpInstitution(students, seed=seed), []
    days = played(institution, date(2026, 12, 31), nights + 1)
    for before, after in pairwise(days):
        old, new = tables_of(before), tables_of(after)
        is_mass = False
        for name, rows in old.items():
            removed = len(rows.keys() - new[name].keys())
            changed = sum(rows[key] != new[name][key] for key in rows.keys() & new[name].keys())
            is_mass |= removed > max(5, 0.10 * len(rows)) or (name in STRUCTURE and changed > 0.60 * len(rows))
        mass_days += [after.date] * is_mass
    assert mass_days == [day for day in MASS_CHANGES if day > days[0].date]


def test_nearly_everybody_works_on_school_days_few_at_weekends() -> None:
    institution = MadeUpInstitution(500)

    def share(day: date) -> float:
        """How many of the students who are listed on both days have another summary."""
        before, after = (
            {each["id"]: each["summary"] for each in institution.on(at).students} for at in (day - timedelta(1), day)
        )
        both = before.keys() & after.keys()
        return float(sum(before[own] != after[own] for own in both) / len(both))

    assert share(FRIDAY) > 0.75
    assert 0.02 < share(FRIDAY + timedelta(days=2)) < 0.2
    for day in (date(2026, 8, 5), date(2026, 10, 21), date(2026, 12, 30)):
        assert is_holiday(day)
        assert share(day) == 0.0
    assert share(date(2026, 8, 24)) > 0.5, "a year begins, and its counts"


def test_a_fifth_leaves_in_july_and_all_classes_change_in_august() -> None:
    july, august, september = (MadeUpInstitution(500).on(day) for day in (date(2026, 7, 12), *MASS_CHANGES[1:]))
    left = {each["id"] for each in july.students} - {each["id"] for each in august.students}
    assert 95 <= len(left) <= 125
    assert 480 <= len(august.students) <= 520
    active = [{each["class_id"] for each in day.classes if each["class_status"]} for day in (july, august)]
    closed = active[0] & {each["class_id"] for each in august.classes if not each["class_status"]}
    assert len(closed) > 0.7 * len(active[0]), "all but electives"
    assert not closed & {each["class_id"] for each in september.classes}
    was, now = (
        {each["id"]: {c["class_id"] for c in each["classes"]} for each in day.students if each.get("classes")}
        for day in (july, august)
    )
    assert all(len(was[own] & now[own]) <= 1 for own in was.keys() & now.keys()), "all but an elective"


def test_over_a_year_some_ids_change_and_some_are_reused() -> None:
    ids: dict[str, set[int]] = {}
    people: dict[int, set[str]] = {}
    names: dict[str, set[str]] = {}
    for day in played(MadeUpInstitution(500), FRIDAY, 364)[::3]:
        for each in day.students:
            ids.setdefault(each["reference_id"], set()).add(each["id"])
            people.setdefault(each["id"], set()).add(each["reference_id"])
            names.setdefault(each["reference_id"], set()).add(each["email"].split("@")[0].split(".")[-1])
    assert sum(len(group) == 2 for group in ids.values()) >= 2
    assert sum(len(group) == 2 for group in people.values()) >= 2
    assert max(len(group) for group in ids.values()) == 2
    assert max(len(group) for group in people.values()) == 2
    assert all(len(group) == 1 for group in names.values())


def test_the_best_have_extra_credit_and_picture_signatures_change_daily() -> None:
    scores = [each["summary"]["average_score"] or 0 for each in MadeUpInstitution(500).on(FRIDAY).students]
    assert 100 < max(scores) < 115
    assert sum(score > 100 for score in scores) < 20
    today, before = (MadeUpInstitution(60).on(day).students for day in (FRIDAY, FRIDAY - timedelta(days=1)))
    pictures = {each["id"]: each.get("profile_image") for each in before}
    assert all(each["profile_image"] != pictures.get(each["id"]) for each in today if "profile_image" in each)


def test_terms_and_holidays_take_turns() -> None:
    first, last = date(2026, 1, 1), date(2028, 12, 31)
    calendar = terms(first, last)
    assert [name for name, _, _ in calendar[:3]] == ["Spring 2026", "Summer 2026", "Autumn 2026"]
    for day in (first + timedelta(days=n) for n in range((last - first).days)):
        if not is_holiday(day) and day.weekday() < 5:
            assert sum(begins <= day <= ends for _, begins, ends in calendar) == 1, day
