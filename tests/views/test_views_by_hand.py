"""Cases that a fortnight of the sandbox lacks: views over a few rows written by hand, with the answers that are due."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import pytest

from rollbook.store import schema
from rollbook.views import catalog, editable
from rollbook.views.metrics import METRICS

pytestmark = pytest.mark.nights

D = [date(2026, 11, 1) + timedelta(days=n) for n in range(12)]
Row = tuple[Any, ...]


class Hand:
    """A database in memory as declared, filled by hand."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        schema.ensure(con)
        editable.fill(con, editable.DEFAULTS, ())
        catalog.create_views(con)

    def put(self, table: str, **values: Any) -> None:
        """One row; what is not named is NULL."""
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        self.con.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))

    def land(self, *days: date) -> None:
        """Days that the history is made of."""
        for day in days:
            self.put("spans.days", snapshot_date=day)

    def school(self, *days: date) -> None:
        """Days on which all were active, so that they are school days."""
        for day in days:
            self.put("main.active_days", day=day, active=1, listed=1)

    def student(self, number: int, name: str, **summary: Any) -> None:
        """A student since the first day, with the summary, current and in the history."""
        self.put("main.students", student_id=number, name=name, registration_date=D[0])
        self.put("history.students", student_id=number, name=name, valid_from=D[0])
        self.put("main.student_summaries", student_id=number, **summary)
        self.put("history.student_summaries", student_id=number, valid_from=D[-1], **summary)

    def ask(self, query: str) -> list[Row]:
        """The rows of a query."""
        return self.con.execute(query).fetchall()


@pytest.fixture
def hand() -> Iterator[Hand]:
    with duckdb.connect() as con:
        yield Hand(con)


def test_a_class_no_longer_listed_keeps_the_title_from_its_students(hand: Hand) -> None:
    hand.student(1, "Ada")
    for number, title in ((7, "as Ada has it"), (8, "another")):
        hand.put("main.student_classes", student_id=1, class_id=number, class_title=title, course_name="own course")
    hand.put("main.classes", class_id=7, class_title="as the class has it", class_status=1, course_name=None)
    query = "SELECT class_id, class_title, course_name, is_class_active, name FROM roster ORDER BY 1"
    assert hand.ask(query) == [
        (7, "as the class has it", "own course", True, "Ada"),
        (8, "another", "own course", None, "Ada"),
    ]


def test_joining_and_leaving_differ_from_a_new_title_or_a_return(hand: Hand) -> None:
    hand.land(*D[:8])
    hand.put("history.students", student_id=1, name="Ada Old", valid_from=D[0], valid_to=D[3])
    hand.put("history.students", student_id=1, name="Ada New", valid_from=D[3])
    hand.put("history.students", student_id=2, name="Bob", valid_from=D[0], valid_to=D[5])
    since = ((D[0], D[2], "a"), (D[2], D[3], "b"), (D[4], D[6], "b"), (D[6], None, "c"))
    for valid_from, valid_to, title in since:  # a title worded otherwise on D2 and D6; a gap of a day on D3
        span = {"valid_from": valid_from, "valid_to": valid_to}
        hand.put("history.student_classes", student_id=1, class_id=7, class_title=title, **span)
    hand.put("history.student_classes", student_id=2, class_id=7, class_title="x", valid_from=D[1], valid_to=D[5])
    columns = "snapshot_date, change, class_title, name, is_student_listed, is_class_listed"
    assert hand.ask(f"SELECT {columns} FROM enrollment_changes") == [
        (D[1], "joined", "x", "Bob", True, False),
        (D[3], "left", "b", "Ada New", True, False),
        (D[4], "joined", "b", "Ada New", True, False),
        (D[5], "left", "x", "Bob", False, False),
    ]


def test_enrollment_spans_state_why_they_ended(hand: Hand) -> None:
    hand.land(*D[:10])
    for number, until in ((1, None), (2, D[6]), (3, None), (4, None)):
        hand.put("history.students", student_id=number, name=f"S{number}", valid_from=D[0], valid_to=until)
    hand.put("history.classes", class_id=7, class_status=1, valid_from=D[0])
    hand.put("history.classes", class_id=8, class_status=1, valid_from=D[0], valid_to=D[4])
    hand.put("history.classes", class_id=8, class_status=2, valid_from=D[4])
    hand.put("history.classes", class_id=9, class_status=1, valid_from=D[0], valid_to=D[5])
    times = (
        (1, 7, D[0], D[2], "a"), (1, 7, D[2], D[4], "b"),  # one time, under two titles
        (1, 7, D[6], None, "b"),  # and back
        (2, 7, D[1], D[6], "a"), (3, 8, D[1], D[4], "c"), (3, 9, D[0], D[5], "d"),
        (4, 55, D[3], D[4], "a class that is not listed"),
    )  # fmt: skip
    for student, cls, valid_from, valid_to, title in times:
        span = {"valid_from": valid_from, "valid_to": valid_to}
        hand.put("history.student_classes", student_id=student, class_id=cls, class_title=title, **span)
    query = """SELECT student_id, class_id, class_title, joined_on, left_on, is_from_before, membership_days, end_reason
               FROM enrollment_spans ORDER BY student_id, class_id, joined_on"""
    assert hand.ask(query) == [
        (1, 7, "b", D[0], D[4], True, 4, "left the class"),
        (1, 7, "b", D[6], None, False, 4, None),
        (2, 7, "a", D[1], D[6], False, 5, "left the institution"),
        (3, 8, "c", D[1], D[4], False, 3, "class closed"),
        (3, 9, "d", D[0], D[5], True, 5, "class closed"),
        (4, 55, "a class that is not listed", D[3], D[4], False, 1, "left the class"),
    ]


def test_a_student_is_active_for_seven_days_after_the_later_date(hand: Hand) -> None:
    hand.land(*D)
    for number in (1, 2, 3):
        hand.put("history.students", student_id=number, valid_from=D[0])
        hand.put("history.student_activity", student_id=number, last_activity_date=None, valid_from=D[0], valid_to=D[1])
    hand.put("history.student_summaries", student_id=1, last_activity_date=D[0], valid_from=D[0], valid_to=D[2])
    hand.put("history.student_summaries", student_id=1, last_activity_date=D[2], valid_from=D[2])
    hand.put("history.student_activity", student_id=1, last_activity_date=D[0], valid_from=D[1])
    hand.put("history.student_activity", student_id=2, last_activity_date=D[1], valid_from=D[1])
    active = [r[0] for r in hand.ask("SELECT active_students FROM progress_daily")]
    # The first until seven days after D[2], the second from D[1] until seven days later.
    assert active == [1, *[2] * 8, 1, 0, 0]


def test_where_no_activity_is_stated_no_share_of_the_students_is_active(hand: Hand) -> None:
    """A service may leave out all dates of activity: that is not a school in which nobody works."""
    hand.land(*D[:4])
    hand.put("history.students", student_id=1, valid_from=D[0])
    hand.put("history.student_summaries", student_id=1, last_activity_date=None, valid_from=D[0], valid_to=D[2])
    hand.put("history.student_summaries", student_id=1, last_activity_date=date(2026, 1, 1), valid_from=D[2])
    hand.put("history.student_activity", student_id=1, has_ever_logged_in=False, valid_from=D[1], valid_to=D[2])
    shares = [(None,), (0.0,), (0.0,), (0.0,)]
    assert hand.ask("SELECT active_percent FROM progress_daily ORDER BY snapshot_date") == shares
    (measure,) = (m for m in METRICS if m.name == "active_percent")
    assert hand.ask(f"SELECT active_percent FROM ({measure.query}) ORDER BY snapshot_date") == shares


# Of each student, seven school days ago and now: assignments completed and missing; and in which class, of whose members
# the others (see below) miss a fifth, half, or all one piece.
FIFTH, HALF, ONE_EACH = 7, 8, 9
MISSING: dict[str, tuple[tuple[int, int | None], tuple[int, int | None], int | None, str | None]] = {
    "all of it": ((10, 0), (10, 4), None, "4 of 4 assignments due since {} are missing, 0 expected (none before)"),
    "two": ((10, 0), (14, 2), None, "2 of 6 assignments due since {} are missing, 0 expected (none before)"),
    "one": ((10, 0), (10, 1), None, None),
    "two of seven": ((10, 0), (15, 2), None, None),
    "as before": ((10, 10), (12, 14), None, None),
    "more than before": (
        (9, 3),
        (9, 9),
        None,
        "6 of 6 assignments due since {} are missing, 1.5 expected (3 of 12 before)",
    ),
    "of the class": (
        (10, 0),
        (10, 5),
        FIFTH,
        "5 of 5 assignments due since {} are missing, 1.3 expected (25 % in the class)",
    ),
    "as half of the class": ((10, 0), (11, 4), HALF, None),
    "marked late": ((10, 0), (10, 2), ONE_EACH, None),
    "handed in after all": ((10, 6), (16, 0), None, None),
    "counted again": ((10, 0), (3, 5), None, None),
    "nothing known of missing ones": ((10, None), (10, 4), None, None),
}


def test_work_is_missing_where_more_is_than_expected(hand: Hand) -> None:
    hand.land(*D)
    hand.school(*D)
    since = D[-8]
    others = {
        FIFTH: (*[(15, 0)] * 7, *[(12, 3)] * 3),
        HALF: [(12, 2), (13, 3)] * 5,
        ONE_EACH: [(19, 1)] * 10,
    }
    states = {f"mate {n} of {c}": ((10, 0), each, c, None) for c, of in others.items() for n, each in enumerate(of)}
    for number, (name, (before, now, class_id, _)) in enumerate((MISSING | states).items()):
        hand.student(number, name, total_assignments=40, completed_assignments=now[0])
        for (completed, missing), span in (
            (before, {"valid_from": D[0], "valid_to": D[-1]}),
            (now, {"valid_from": D[-1]}),
        ):
            hand.put("history.student_activity", student_id=number, assignment_missing_count=missing, **span)
            if "valid_to" in span:
                hand.put("history.student_summaries", student_id=number, completed_assignments=completed, **span)
        if class_id is not None:
            hand.put("history.student_classes", student_id=number, class_id=class_id, valid_from=D[0])
    query = "SELECT name, reason, reason_count, is_missing_work FROM students_to_watch ORDER BY student_id"
    assert hand.ask(query) == [
        (name, reason.format(since), 1, True) for name, (*_, reason) in MISSING.items() if reason
    ]


def test_classes_of_the_same_students_are_expected_to_lack_their_work_once(hand: Hand) -> None:
    hand.land(*D)
    hand.school(*D)
    for number in range(12):
        done, missing = (11, 5) if number == 0 else (15, 1)
        hand.student(number, f"S{number}", total_assignments=40, completed_assignments=done)
        hand.put(
            "history.student_summaries", student_id=number, completed_assignments=10, valid_from=D[0], valid_to=D[-1]
        )
        for count, span in ((0, {"valid_from": D[0], "valid_to": D[-1]}), (missing, {"valid_from": D[-1]})):
            hand.put("history.student_activity", student_id=number, assignment_missing_count=count, **span)
        for class_id in range(6):
            hand.put("history.student_classes", student_id=number, class_id=class_id, valid_from=D[0])
    assert hand.ask("SELECT student_id, expected_missing FROM students_to_watch") == [(0, 1.3)]


def test_another_person_with_the_id_has_no_earlier_reason(hand: Hand) -> None:
    hand.land(*D)
    hand.school(*D)
    for name, span, score in (("Ada", (D[0], D[-2]), 40.0), ("Bob", (D[-2], None), 60.0)):
        dates = {"valid_from": span[0], "valid_to": span[1]}
        hand.put("history.students", student_id=1, name=name, registration_date=span[0], **dates)
        hand.put("history.student_summaries", student_id=1, average_score=score, **dates)
    assert hand.ask("SELECT name FROM students_to_watch") == []
    assert [row[0] for row in hand.ask("SELECT change FROM watch_daily ORDER BY snapshot_date DESC LIMIT 2")] == [
        "no longer to watch",
        "still to watch",
    ]


def test_a_reason_lasts_for_five_school_days(hand: Hand) -> None:
    """A student who is back at work is not off the list, and on it again, within a week."""
    days = [date(2026, 11, 2) + timedelta(days=n) for n in range(16)]
    school = [day for day in days if day.weekday() < 5]
    hand.land(*days)
    hand.school(*school)
    hand.put("history.students", student_id=1, name="Ada", valid_from=days[0], valid_to=days[14])
    low, fine = {"average_score": 40.0}, {"average_score": 60.0}
    for values, valid_from, valid_to in ((low, days[0], days[3]), (fine, days[3], days[11]), (low, days[11], None)):
        hand.put("history.student_summaries", student_id=1, valid_from=valid_from, valid_to=valid_to, **values)
    listed = "SELECT snapshot_date, change FROM watch_daily WHERE severity IS NOT NULL OR change = 'no longer to watch'"
    last = school.index(days[2])
    until = days.index(school[last + 6])  # the sixth school day after the last with a reason
    assert days[until].isoformat() == "2026-11-12", "a weekend is between"
    changes = [None, *["still to watch"] * (until - 1), "no longer to watch", "newly to watch", *["still to watch"] * 2]
    assert [change for _, change in hand.ask(listed)] == [*changes, "no longer to watch"]
    reasons = f"SELECT reason FROM watch_daily WHERE snapshot_date IN ('{days[2]}', '{days[3]}') ORDER BY snapshot_date"
    why = "low score (40, under 50)"
    assert hand.ask(reasons) == [(why,), (f"{why} (last on {days[2]})",)]
    hand.con.execute("UPDATE main.thresholds SET value = 0 WHERE name = 'stays_school_days'")
    assert [day for day, change in hand.ask(listed) if change == "no longer to watch"] == [days[3], days[14]]


def test_a_student_with_few_assignments_is_not_behind_with_them(hand: Hand) -> None:
    hand.land(*D)
    hand.student(1, "Ada", total_assignments=0, completion_rate=0.0)
    hand.student(2, "Bob", total_assignments=14, completion_rate=0.0)
    hand.student(3, "Cyd", total_assignments=15, completion_rate=0.0)
    query = "SELECT student_id, severity, reason FROM students_to_watch"
    assert hand.ask(query) == [(3, 2.0, "low completion (0 %, under 30)")]
    assert hand.ask("SELECT low_completion_students FROM progress_daily ORDER BY snapshot_date DESC LIMIT 1") == [(1,)]


def test_students_without_a_login_get_some_days_and_are_not_inactive(hand: Hand) -> None:
    hand.land(*D)
    hand.student(1, "Ada")
    hand.student(2, "Bob")
    # Before the first landed day, a Sunday, each weekday counts: 15 and 14 until then.
    registered_on = {1: date(2026, 10, 11), 2: date(2026, 10, 12)}
    for number, registered in registered_on.items():
        hand.con.execute("UPDATE history.students SET registration_date = ? WHERE student_id = ?", [registered, number])
        last = D[-1] - timedelta(days=60)  # an odd record: never there, and yet there
        activity = {"has_ever_logged_in": False, "last_activity_date": last}
        hand.put("history.student_activity", student_id=number, valid_from=D[0], **activity)
    query = "SELECT student_id, severity, reason FROM students_to_watch"
    assert hand.ask(query) == [(1, 1.0, "never logged in, registered 2026-10-11")]


def test_severity_grows_with_the_threshold_and_adds_up_over_reasons(hand: Hand) -> None:
    hand.land(*D)
    good = {"total_assignments": 20, "completion_rate": 80.0, "average_score": 80.0}
    cases: dict[int, tuple[dict[str, Any], float]] = {
        1: (good | {"completion_rate": 29.99}, 1.0),
        2: (good | {"completion_rate": 15.0}, 1.5),
        3: (good | {"average_score": 0.0}, 2.0),
        4: (good | {"last_activity_date": date(2026, 10, 25)}, 1.0),
        5: (good | {"last_activity_date": D[-1] - timedelta(days=400)}, 2.0),
        6: (good | {"completion_rate": 0.0, "average_score": 25.0}, 3.5),
        7: (good, 0.0),
    }
    for number, (now, _) in cases.items():
        hand.student(number, f"S{number}", **now)
    severities: dict[int, float] = dict(hand.ask("SELECT student_id, severity FROM students_to_watch"))
    assert severities == {number: severity for number, (_, severity) in cases.items() if severity}
    assert list(severities) == [6, 3, 5, 2, 1, 4]
    for name in (
        "inactive_school_days",
        "missing_assignments",
        "never_logged_in_school_days",
    ):  # nothing is twice over a limit of 0
        hand.con.execute("UPDATE main.thresholds SET value = 0 WHERE name = ?", [name])
    assert hand.ask("SELECT severity FROM students_to_watch WHERE student_id = 4") == [(2.0,)]


def test_the_watch_list_separates_new_remaining_and_former_students(hand: Hand) -> None:
    hand.land(D[0], D[2], D[3])  # nothing was landed on D[1]
    low, fine = (
        {"total_assignments": 20, "completed_assignments": 8, "completion_rate": rate} for rate in (15.0, 80.0)
    )
    versions = {
        1: ((low, D[0], None),),
        2: ((fine, D[0], D[2]), (low, D[2], D[3]), (fine, D[3], None)),
        3: ((low, D[0], D[2]),),
        4: ((fine, D[0], None),),
    }
    for number, row in versions.items():
        hand.put("history.students", student_id=number, name=f"S{number}", valid_from=D[0], valid_to=row[-1][2])
        for values, valid_from, valid_to in row:
            span = {"valid_from": valid_from, "valid_to": valid_to}
            hand.put("history.student_summaries", student_id=number, **span, **values)
    hand.put("history.student_activity", student_id=2, assignment_missing_count=0, valid_from=D[0], valid_to=D[2])
    hand.put("history.student_activity", student_id=2, assignment_missing_count=9, valid_from=D[2])
    why = "low completion (15 %, under 30)"
    gone = f"9 of 9 assignments due since {D[0]} are missing, 0 expected (none before)"
    hand.school(D[0], D[2], D[3])
    for name, value in (("missing_school_days", 1), ("stays_school_days", 0)):
        hand.con.execute("UPDATE main.thresholds SET value = $1 WHERE name = $2", [value, name])
    query = """SELECT snapshot_date, student_id, name, change, severity, severity_before, reason, reason_before,
                   reason_count, is_low_completion, is_missing_work, is_listed
               FROM watch_daily ORDER BY snapshot_date, student_id"""
    assert hand.ask(query) == [
        (D[0], 1, "S1", None, 1.5, None, why, None, 1, True, False, True),
        (D[0], 3, "S3", None, 1.5, None, why, None, 1, True, False, True),
        (D[2], 1, "S1", "still to watch", 1.5, 1.5, why, why, 1, True, False, True),
        (D[2], 2, "S2", "newly to watch", 3.5, None, f"{gone}; {why}", None, 2, True, True, True),
        (D[2], 3, "S3", "no longer to watch", None, 1.5, None, why, 0, False, False, False),
        (D[3], 1, "S1", "still to watch", 1.5, 1.5, why, why, 1, True, False, True),
        (D[3], 2, "S2", "no longer to watch", None, 3.5, None, f"{gone}; {why}", 0, False, False, True),
    ]


def test_a_listed_student_not_registered_is_a_finding_and_not_watched(hand: Hand) -> None:
    """The contract promises that the service returns no such student; some list a pupil who withdrew."""
    hand.land(*D)
    for number, registered in ((1, 1), (2, 0), (3, None)):
        hand.student(number, f"S{number}", average_score=10.0)
        hand.con.execute(f"UPDATE history.students SET is_registered = $1 WHERE student_id = {number}", [registered])
    assert hand.ask("SELECT student_id FROM students_to_watch ORDER BY 1") == [(1,), (3,)]
    assert hand.ask(
        f"SELECT student_id FROM watch_daily WHERE snapshot_date = DATE '{D[-1]}' AND severity IS NOT NULL ORDER BY 1"
    ) == [(1,), (3,)]
    query = (
        "SELECT kind, about, how_many, since, last_seen, description FROM data_quality WHERE kind = 'not registered'"
    )
    told = "students are listed though the service says that they are not registered: 2"
    assert hand.ask(query) == [("not registered", "students", 1, D[0], D[-1], told)]


def test_changes_between_two_days_compare_the_same_work_of_listed_students(hand: Hand) -> None:
    """A term between the days begins the counts again; who has no summary is listed all the same."""
    hand.land(D[0], D[5])
    hand.put("spans.version", id="v")
    catalog.create_macros(hand.con, catalog.macros("v"))
    figures = ("total_assignments", "completed_assignments", "completion_rate", "average_score", "total_time_minutes")
    states: dict[int, tuple[tuple[float | None, ...] | None, tuple[float | None, ...] | None]] = {
        1: ((10, 8, 80.0, 70.0, 100.0), (20, 15, 75.0, 72.0, 150.0)),
        2: ((10, 8, 80.0, 70.0, 4500.0), (2, 1, 50.0, 40.0, 36.0)),
        3: ((0, 0, 0.0, None, 5.0), (4, 4, 100.0, 90.0, 9.0)),
        4: (None, (4, 4, 100.0, 90.0, 9.0)),
        5: (None, None),
    }
    for number, (then, now) in states.items():
        hand.put("history.students", student_id=number, name=f"S{number}", valid_from=D[0])
        for values, span in ((then, {"valid_from": D[0], "valid_to": D[5]}), (now, {"valid_from": D[5]})):
            if values is not None:
                row = dict(zip(figures, values, strict=True))
                hand.put("history.student_summaries", student_id=number, **row, **span)
    for number, before, after in ((1, 2, 5), (2, 7, 1)):
        for count, span in ((before, {"valid_from": D[0], "valid_to": D[5]}), (after, {"valid_from": D[5]})):
            hand.put("history.student_activity", student_id=number, assignment_missing_count=count, **span)
    hand.put("history.students", student_id=6, name="Gone", valid_from=D[0], valid_to=D[5])
    hand.put("history.students", student_id=7, name="New", valid_from=D[5])
    shown = hand.ask(
        f"""
        SELECT
            student_id, name, completion_then, completion_now, completion_difference, average_score_difference,
            completed_assignments_difference, total_assignments_difference, total_time_minutes_difference,
            assignment_missing_count_then, assignment_missing_count_now, assignment_missing_count_difference, is_new, is_gone
        FROM student_changes(DATE '{D[0]}', DATE '{D[5]}')
        """
    )
    assert shown == [
        (1, "S1", 80.0, 75.0, -5.0, 2.0, 7, 10, 50.0, 2, 5, 3, False, False),
        (2, "S2", 80.0, 50.0, None, None, None, -8, None, 7, 1, None, False, False),
        (3, "S3", None, 100.0, None, None, 4, 4, 4.0, None, None, None, False, False),
        (4, "S4", None, 100.0, *[None] * 8, False, False),
        (5, "S5", *[None] * 10, False, False),
        (6, "Gone", *[None] * 10, False, True),
        (7, "New", *[None] * 10, True, False),
    ]


def test_minutes_that_begin_again_with_a_year_are_unknown(hand: Hand) -> None:
    hand.land(D[0], D[7])
    hand.put("history.classes", class_id=7, class_status=1, valid_from=D[0])
    minutes = {1: (4500.0, 36.0), 2: (100.0, 130.0)}
    for n, day in ((0, {"valid_from": D[0], "valid_to": D[7]}), (1, {"valid_from": D[7]})):
        for number, of in minutes.items():
            hand.put("history.students", student_id=number, **day)
            hand.put("history.student_summaries", student_id=number, total_time_minutes=of[n], **day)
        hand.put("history.class_summaries", class_id=7, total_engagement_minutes=minutes[1][n], **day)
    newest = f"WHERE snapshot_date = DATE '{D[7]}'"
    assert hand.ask(f"SELECT student_id, minutes_change FROM student_weekly {newest} ORDER BY 1") == [
        (1, None),
        (2, 30.0),
    ]
    assert hand.ask(f"SELECT minutes_change FROM class_weekly {newest}") == [(None,)]
    assert hand.ask(f"SELECT same_students, same_minutes_change FROM progress_weekly {newest}") == [(2, 30.0)]


def test_a_class_without_course_or_score_is_compared_by_the_rest(hand: Hand) -> None:
    for number, course, completion, score in ((1, 5, 80.0, None), (2, 5, 60.0, 50.0), (3, None, 40.0, 50.0)):
        size = 30 if number == 3 else 0
        hand.put("main.classes", class_id=number, class_title="c", class_status=1, course_id=course, student_count=size)
        hand.put("main.class_summaries", class_id=number, average_completion_rate=completion, average_score=score)
    query = """SELECT class_id, course_completion_rate, completion_vs_course, completion_rank_in_course,
                   completion_rank, score_vs_institution, score_rank_in_course, score_rank, minutes_per_student,
                   classes_in_course, others_in_course, others_in_institution, is_small
               FROM class_comparison ORDER BY 1"""
    assert hand.ask(query) == [
        (1, 60.0, 20.0, 1, 1, None, None, None, None, 2, 1, 2, True),
        (2, 80.0, -20.0, 2, 2, 0.0, 1, 1, None, 2, 1, 2, True),
        (3, None, None, None, 3, 0.0, None, 1, None, None, None, 2, False),
    ]


def test_a_class_with_few_assignments_is_compared_with_none(hand: Hand) -> None:
    """Of two assignments one is a half: such a class is in no rank and in nobody's average. Unknown is not few."""
    for number, (count, completion) in enumerate(((20, 80.0), (None, 60.0), (4, 0.0), (5, 40.0)), start=1):
        hand.put("main.classes", class_id=number, class_title="c", class_status=1, course_id=5, student_count=9)
        hand.put("main.class_summaries", class_id=number, average_completion_rate=completion, average_score=completion)
        hand.put("main.class_assignment_activity", class_id=number, assignment_count=count)
    query = """
        SELECT class_id, average_completion_rate, assignment_count, is_compared, completion_vs_course, completion_rank,
            score_rank_in_course, others_in_course, course_score, classes_in_course
        FROM class_comparison ORDER BY 1
    """
    assert hand.ask(query) == [
        (1, 80.0, 20, True, 30.0, 1, 1, 2, 50.0, 4),
        (2, 60.0, None, True, 0.0, 2, 2, 2, 60.0, 4),
        (3, 0.0, 4, False, None, None, None, 3, 60.0, 4),
        (4, 40.0, 5, True, -30.0, 3, 3, 2, 70.0, 4),
    ]


def test_a_zero_of_a_class_without_work_or_students_is_no_average(hand: Hand) -> None:
    """In September, half of the classes are empty or have no assignments yet: a service states 0 for them."""
    hand.land(D[0], D[7])
    own: list[tuple[dict[str, Any], dict[str, Any], float, float]] = [
        ({"student_count": 20}, {"assignment_count": 5, "students_with_submissions": 9}, 80.0, 70.0),
        ({"student_count": 20}, {"assignment_count": 0}, 0.0, 0.0),
        ({"student_count": 20}, {"has_assignments": False}, 0.0, 0.0),
        ({"student_count": 0}, {"assignment_count": 5}, 0.0, 0.0),
        ({"student_count": 20}, {"assignment_count": 5, "students_with_submissions": 0}, 0.0, 0.0),
        ({"student_count": 20}, {"assignment_count": 0}, 60.0, 50.0),  # of work that is not counted any more
        ({"student_count": 20}, {}, 0.0, 0.0),
    ]
    for number, (of_class, activity, completion, score) in enumerate(own, start=1):
        tables: dict[str, dict[str, Any]] = {
            "classes": {"class_title": f"c{number}", "class_status": 1, "course_id": 5} | of_class,
            "class_summaries": {"average_completion_rate": completion, "average_score": score},
            "class_assignment_activity": activity,
        }
        for table, values in tables.items():
            hand.put(f"main.{table}", class_id=number, **values)
            hand.put(f"history.{table}", class_id=number, valid_from=D[0], **values)
    shown = [(1, 80.0, 70.0), *((n, None, None) for n in (2, 3, 4)), (5, 0.0, None), (6, 60.0, 50.0), (7, 0.0, 0.0)]
    columns = "class_id, average_completion_rate, average_score"
    assert hand.ask(f"SELECT {columns} FROM class_comparison ORDER BY 1") == shown
    assert hand.ask("SELECT others_in_course, course_completion_rate FROM class_comparison WHERE class_id = 1") == [
        (2, 0.0)
    ]
    assert hand.ask(f"SELECT {columns} FROM class_daily WHERE snapshot_date = DATE '{D[7]}' ORDER BY 1") == shown
    weekly = f"SELECT {columns}, completion_change, score_change FROM class_weekly WHERE snapshot_date = DATE '{D[7]}'"
    of_week = hand.ask(f"{weekly} ORDER BY 1")
    assert of_week == [(*row, *(None if value is None else 0.0 for value in row[1:])) for row in shown]


def test_last_years_closed_classes_count_no_places_and_contradict_nothing(hand: Hand) -> None:
    """Services keep them for good, with the number of their students, and with the submissions of those who left."""
    hand.land(D[0])
    for number, status, count in ((1, 1, 20), (2, 0, 25)):
        listed = {"class_status": status, "student_count": count, "course_id": 5, "teacher_id": 9}
        submitted = {"students_enrolled": 0, "students_with_submissions": 18, "students_without_submissions": 0}
        for table, values in {"classes": listed, "class_assignment_activity": submitted}.items():
            hand.put(f"main.{table}", class_id=number, **values)
            hand.put(f"history.{table}", class_id=number, valid_from=D[0], **values)
    for view in ("course_overview", "teacher_overview"):
        assert hand.ask(f"SELECT class_count, active_class_count, student_places FROM {view}") == [(2, 1, 20)]
    assert hand.ask("SELECT class_id FROM data_quality_rows WHERE kind = 'submissions'") == [(1,)]


def test_who_left_a_class_and_joined_another_of_the_course_was_transferred(hand: Hand) -> None:
    hand.land(*D)
    hand.student(1, "Ada")
    for number, course in ((7, 5), (8, 5), (9, 6)):
        hand.put("history.classes", class_id=number, course_id=course, valid_from=D[0])
    spans = {7: (D[0], D[3]), 8: (D[5], D[7]), 9: (D[4], None), 10: (D[0], D[5]), 11: (D[4], None)}
    for number, (valid_from, valid_to) in spans.items():
        hand.put(
            "history.student_classes", student_id=1, class_id=number, class_title=f"c{number}",
            course_name="Art" if number > 9 else None, valid_from=valid_from, valid_to=valid_to,
        )  # fmt: skip
    query = "SELECT student_id, name, course_name, left_class_id, left_on, joined_class_id, joined_on FROM transfers"
    assert hand.ask(query) == [
        (1, "Ada", "Art", 10, D[5], 11, D[4]),
        (1, "Ada", None, 7, D[3], 8, D[5]),
    ]
    hand.put("history.student_classes", student_id=1, class_id=7, valid_from=D[11])  # four days after leaving 8
    assert len(hand.ask(query)) == 2


def test_who_shares_a_reference_a_name_or_an_email_may_be_one(hand: Hand) -> None:
    people: tuple[tuple[str | None, str | None, date | None, str | None], ...] = (
        ("Ada King", "R-1", D[0], "ada@x.example"),
        ("ADA KING", "r-1", D[0], None),
        ("Ada King", None, D[1], "parent@x.example"),
        ("Bob Ray", None, None, "Parent@x.example"),
        ("Bob Ray", "R-2", None, "bob@x.example"),
        ("Cyd Lee", "R-1", D[3], "bob@x.example"),
    )
    for number, (name, reference, day, email) in enumerate(people, start=1):
        values = {"name": name, "reference_id": reference, "registration_date": day, "email": email}
        hand.put("main.students", student_id=number, **values)
    query = "SELECT shares, group_number, students, student_id FROM possible_duplicates ORDER BY ALL"
    assert hand.ask(query) == [
        *(("email", 1, 2, number) for number in (3, 4)),
        *(("email", 2, 2, number) for number in (5, 6)),
        *(("name and registration", 1, 2, number) for number in (1, 2)),
        *(("reference id", 1, 3, number) for number in (1, 2, 6)),
    ]


def test_a_year_s_rollover_transfers_nobody(hand: Hand) -> None:
    """A class closes, or most of it goes on to another one; a single pupil who changes in the meantime is told."""
    hand.land(*D)
    hand.student(99, "Ada")
    for number, closes in ((7, False), (8, False), (17, True), (18, False)):
        until = D[5] if closes else None
        hand.put("history.classes", class_id=number, course_id=5, class_status=1, valid_from=D[0], valid_to=until)
        if closes:
            hand.put("history.classes", class_id=number, course_id=5, class_status=2, valid_from=until)
    promoted = [(n, 7, 8) for n in range(1, 7)]  # of eight in the class
    for student, left, joined in (*promoted, (20, 17, 18), (21, 17, 18)):
        hand.put("history.student_classes", student_id=student, class_id=left, valid_from=D[0], valid_to=D[5])
        hand.put("history.student_classes", student_id=student, class_id=joined, valid_from=D[5])
    for student in (30, 31):
        hand.put("history.student_classes", student_id=student, class_id=7, valid_from=D[0])
    hand.put("history.student_classes", student_id=99, class_id=7, valid_from=D[0], valid_to=D[3])
    hand.put("history.student_classes", student_id=99, class_id=8, valid_from=D[3])
    assert hand.ask("SELECT student_id, left_class_id, joined_class_id FROM transfers") == [(99, 7, 8)]


def test_a_transfer_is_judged_by_the_courses_of_its_days(hand: Hand) -> None:
    """Classes get other courses: in November, and on the very day of a move."""
    hand.land(*D)
    hand.student(1, "Ada")
    courses = {
        7: ((5, D[0], D[8]), (6, D[8], None)),  # changed later
        8: ((5, D[0], None),),
        10: ((5, D[0], D[3]), (6, D[3], None)),  # changed on the day on which Ada left
        11: ((6, D[0], D[2]), (5, D[2], None)),  # changed before Ada came
        12: ((6, D[0], None),),
    }
    for number, versions in courses.items():
        for course, valid_from, valid_to in versions:
            span = {"valid_from": valid_from, "valid_to": valid_to}
            hand.put("history.classes", class_id=number, course_id=course, **span)
    for number, valid_from, valid_to in (
        (7, D[0], D[2]),
        (8, D[2], D[9]),
        (10, D[0], D[3]),
        (11, D[4], D[9]),
        (12, D[5], D[6]),
    ):
        span = {"valid_from": valid_from, "valid_to": valid_to}
        hand.put("history.student_classes", student_id=1, class_id=number, **span)
    query = "SELECT left_class_id, left_on, joined_class_id, joined_on FROM transfers"
    assert hand.ask(query) == [
        (left, day, *joined) for joined in ((8, D[2]), (11, D[4])) for left, day in ((7, D[2]), (10, D[3]))
    ]


def test_who_has_no_summary_is_listed_and_among_the_same_students(hand: Hand) -> None:
    weeks = [date(2026, 11, 2) + timedelta(days=7 * n) for n in range(4)]
    hand.land(*weeks)
    # Since which week, until which (exclusive); 5 is away for a week, 6 changes, and 3 has a summary in the last week.
    listed: dict[int, list[tuple[int, int | None]]] = {
        1: [(0, None)],
        2: [(0, None)],
        3: [(0, None)],
        4: [(0, 2)],
        5: [(0, 1), (2, None)],
        6: [(0, 2), (2, None)],
    }
    for number, spans in listed.items():
        for first, last in spans:
            span = {"valid_from": weeks[first], "valid_to": None if last is None else weeks[last]}
            hand.put("history.students", student_id=number, name=f"{number} since {first}", **span)
            hand.put("history.student_classes", student_id=number, class_id=7, class_title=f"{first}", **span)
    hand.put("history.classes", class_id=7, valid_from=weeks[0])
    figures = {"total_assignments": 4, "average_score": 50.0}
    for rate, first, last in ((50.0, 0, 1), (60.0, 1, None)):
        span = {"valid_from": weeks[first], "valid_to": None if last is None else weeks[last]}
        hand.put("history.student_summaries", student_id=1, completion_rate=rate, **figures, **span)
    hand.put("history.student_summaries", student_id=3, completion_rate=20.0, **figures, valid_from=weeks[3])
    columns = "same_students, same_completion_change, same_score_change"
    same = [(None, None, None), (5, 10.0, 0.0), (4, 0.0, 0.0), (5, 0.0, 0.0)]
    assert hand.ask(f"SELECT {columns} FROM progress_weekly ORDER BY week_begins") == same
    assert hand.ask(f"SELECT {columns} FROM class_weekly ORDER BY week_begins") == same
    before = f"SELECT student_id, was_listed_before FROM student_weekly WHERE week_begins = DATE '{weeks[2]}'"
    assert hand.ask(f"{before} ORDER BY 1") == [(1, True), (2, True), (3, True), (5, False), (6, True)]


def test_a_summary_that_was_never_stated_was_stated_on_no_day(hand: Hand) -> None:
    hand.land(*D[:4])
    for number, last_day in ((1, None), (2, D[1]), (3, D[9])):  # 2 left the summary out since
        hand.student(number, f"S{number}")
        hand.put("spans.student_summaries", student_id=number, first_day=D[0], last_day=last_day, span_state="stated")
    hand.put("main.students", student_id=4, name="S4")
    hand.put("spans.student_summaries", student_id=4, first_day=D[0], span_state="not_stated")
    hand.put("main.students", student_id=5, name="S5")
    query = "SELECT student_id, stated_on FROM student_progress ORDER BY 1"
    assert hand.ask(query) == [(1, D[3]), (2, D[1]), (3, D[3]), (4, None), (5, None)]


def test_a_first_login_is_told_once_where_there_was_none_before(hand: Hand) -> None:
    hand.land(*D)
    flags: dict[int, list[bool | None]] = {
        1: [False, True],
        2: [False, None, True],
        3: [True, None, True],
        4: [None, True],
        5: [False, True, None, True],
        6: [True, False, True],
    }
    for number, values in flags.items():
        for n, value in enumerate(values):
            until = None if n == len(values) - 1 else D[n + 1]
            of = {"student_id": number, "has_ever_logged_in": value, "valid_from": D[n], "valid_to": until}
            hand.put("history.student_activity", **of)
            if n:
                old, new = (None if v is None else str(v).lower() for v in (values[n - 1], value))
                hand.put(
                    "main.changes", snapshot_date=D[n], table_name="student_activity", student_id=number,
                    change="changed", column_name="has_ever_logged_in", old_value=old, new_value=new,
                )  # fmt: skip
    first, again = "logged in for the first time", "ever logged in unknown to true"
    told = hand.ask("SELECT student_id, snapshot_date, description FROM student_timeline ORDER BY ALL")
    assert told == [
        (1, D[1], first),
        (2, D[1], "ever logged in false to unknown"),
        (2, D[2], first),
        (3, D[1], "ever logged in true to unknown"),
        (3, D[2], again),
        (4, D[1], again),
        (5, D[1], first),
        (5, D[2], "ever logged in true to unknown"),
        (5, D[3], again),
        (6, D[1], "ever logged in true to false"),
        (6, D[2], first),  # the service took back what it had said
    ]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("75.0", "66.6666667", "minutes of learning 75 to 66.6666667"),
        ("12345678900.0", "98765432100.0", "minutes of learning 12345678900 to 98765432100"),
        ("0.000123456789", None, "minutes of learning 0.000123456789 to unknown"),
        (None, "1.0", "minutes of learning unknown to 1"),
    ],
)
def test_a_number_is_told_as_the_file_has_it(hand: Hand, old: str | None, new: str | None, told: str) -> None:
    hand.land(*D[:2])
    hand.put(
        "main.changes", snapshot_date=D[1], table_name="student_summaries", student_id=1, change="changed",
        column_name="total_time_minutes", old_value=old, new_value=new,
    )  # fmt: skip
    assert hand.ask("SELECT description FROM student_timeline") == [(told,)]


def received(hand: Hand, day: date, landing: int) -> None:
    """The outcome of the two sets in one sync."""
    for set_name, count in (("students", 1500), ("classes", 40)):
        counts = {"received": 3 * count, "records": count}
        hand.put("ops.sync_sets", snapshot_date=day, landing=landing, set_name=set_name, **counts)


def test_a_night_is_told_by_its_last_sync_or_as_missed(hand: Hand) -> None:
    counts = {"rows_added": 1, "rows_changed": 1000, "rows_removed": 0}
    plain = counts | {"rejected": 0, "found_by_search": 0, "proven": True}
    nights: list[dict[str, Any]] = [
        {"landing": 1, "outcome": "synced", "verdict": "synced"},
        {"landing": 1, "outcome": "held", "verdict": "held", "reason": "12 % of students would go"},
        {"landing": 1, "outcome": "failed", "verdict": "failed", "reason": "nothing came"},
        {"landing": 2, "outcome": "synced", "verdict": "approved", "reason": "12 % of students would go"},
    ]
    for day, night in zip((D[0], D[1], D[3], D[3]), nights, strict=True):
        hand.put("ops.syncs", snapshot_date=day, **(plain | night))
        received(hand, day, night["landing"])
    unproven = {"verdict": "unproven", "reason": "students moved", "rejected": 3, "found_by_search": 2, "proven": False}
    calm = {"rows_added": 0, "rows_changed": 0}
    times = {"started_at": datetime(2026, 11, 5, 2, 15), "finished_at": datetime(2026, 11, 5, 2, 16, 1, 500000)}  # noqa: DTZ001
    hand.put("ops.syncs", snapshot_date=D[4], landing=1, outcome="synced", **(plain | unproven | calm | times))
    received(hand, D[4], 1)
    synced = "Synced 1,500 students and 40 classes: 1 rows added, 1,000 changed, 0 removed."
    assert hand.ask("SELECT snapshot_date, outcome, description, syncs, seconds FROM sync_log") == [
        (D[0], "synced", synced, 1, None),
        (D[1], "held", "Held: 12 % of students would go. Readers kept what was published before.", 1, None),
        (D[2], "missing", "No sync: nothing was landed, and the service keeps no history.", 0, None),
        (D[3], "synced", f"{synced} It was held, and approved by a person. It was sync 2 of that date.", 2, None),
        (
            *(D[4], "synced"),
            "Synced 1,500 students and 40 classes: nothing changed. Unproven: students moved. 3 refused; see"
            " ops.rejects. 2 seemed gone and were found.",
            *(1, 61.5),
        ),
    ]


def test_a_finding_counts_a_record_once_however_often_it_was_refused(hand: Hand) -> None:
    hand.land(*D[:3])
    for set_name in ("students", "classes"):
        for day in D[:3]:
            hand.put("spans.proven", day=day, set_name=set_name)
    for day, landing, page, position, number in (
        *((D[0], 1, 1, 1, 7), (D[0], 1, 2, 1, 7), (D[1], 2, 1, 1, 7), (D[1], 2, 1, 2, 8)),  # 7 again in a second walk
        *((D[1], 2, 3, 9, None), (D[2], 1, 3, 9, None)),
    ):
        place = {"page": page, "position": position, "id": number}
        hand.put("ops.rejects", snapshot_date=day, landing=landing, set_name="students", reason="email: null", **place)
    for day, count in ((D[0], 90), (D[2], 70)):
        drift = {"set_name": "classes", "field": "house", "type": "string", "count": count}
        hand.put("ops.drift", snapshot_date=day, landing=1, **drift)
    outcomes = (("synced", D[0]), ("held", D[1]), ("failed", D[1]), ("discarded", D[1]), ("held", D[2]))
    for landing, (outcome, day) in enumerate(outcomes, start=1):
        hand.put("ops.syncs", snapshot_date=day, landing=landing, outcome=outcome)
    assert hand.ask("FROM data_quality ORDER BY kind") == [
        ("discarded", None, 1, D[1], D[1], "syncs discarded: they count for nothing"),
        ("drift", "classes", 70, D[0], D[2], "unknown field house (string)"),
        ("failed", None, 1, D[1], D[1], "syncs failed: readers kept what was published before"),
        ("held", None, 2, D[1], D[2], "syncs held: they would change more than a normal night, and wait for a person"),
        ("reject", "students", 3, D[0], D[2], "email: null"),
    ]
