"""A school day moves everybody's measures, and a term begins their counts again: neither holds a night (G3)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.support.nights import House, night
from tests.support.records import Records, school_class, student, students, within
from tests.support.warehouses.holds import first_night, is_held

pytestmark = pytest.mark.nights


def everybody(**summary: Any) -> Records:
    """Forty students with another summary."""
    return [student(i, **within("summary", **summary)) for i in range(1, 41)]


def every_class(summary: dict[str, Any], activity: dict[str, Any]) -> Records:
    """Eight classes with another summary and assignment activity."""
    averages = school_class(1)["summary"] | summary
    return [school_class(i, summary=averages, **within("assignment_activity", **activity)) for i in range(501, 509)]


WORKED = [
    student(
        i,
        **within("summary", total_assignments=21, total_time_minutes=1250.0 + i, last_activity_date="2026-11-20"),
        **within("activity_tracking", last_activity_date="2026-11-20", assignment_submission_count=16),
    )
    for i in range(1, 41)
]


@pytest.mark.story
def test_a_day_on_which_everybody_worked_is_published(one_class: House) -> None:
    expected = first_night(one_class, students(40))
    one_class.service.classes = every_class({"total_engagement_minutes": 3700.0}, {"assignment_count": 21})
    one_class.night(2, WORKED)
    assert one_class.tables() == expected.night(2, WORKED, one_class.service.classes).tables()


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("average_score", None),
        ("completion_rate", 0),
        ("total_time_minutes", 0.0),
        ("last_activity_date", None),
        pytest.param("total_assignments", None, id="the total itself"),
    ],
)
def test_a_measure_that_vanishes_while_its_total_stays_is_held(one_class: House, measure: str, value: Any) -> None:
    first_night(one_class, students(40))
    hold = is_held(one_class, 2, everybody(**{measure: value})[:25] + students(40)[25:])
    assert hold.reason == (
        f"25 of 40 rows of student_summaries would lose {measure}, though total_assignments does not begin again"
    )


def test_a_measure_that_vanishes_for_half_of_the_rows_is_published(one_class: House) -> None:
    first_night(one_class, students(40))
    one_class.night(2, everybody(average_score=None)[:20] + students(40)[20:])
    assert one_class.query("SELECT COUNT(average_score) FROM student_summaries") == [(20,)]


def test_activity_is_judged_by_the_totals_of_the_summary(one_class: House) -> None:
    first_night(one_class, students(40))
    lost = [student(i, **within("activity_tracking", has_ever_logged_in=False)) for i in range(1, 41)]
    hold = is_held(one_class, 2, lost)
    assert hold.reason == (
        "40 of 40 rows of student_activity would lose has_ever_logged_in, though total_assignments does not begin again"
    )


def test_nothing_missing_any_more_is_good_news(one_class: House) -> None:
    first_night(one_class, students(40))
    one_class.night(2, [student(i, **within("activity_tracking", assignment_missing_count=0)) for i in range(1, 41)])
    assert one_class.query("SELECT SUM(assignment_missing_count) FROM student_activity") == [(0,)]


def test_a_term_begins_all_counts_again_with_a_line_in_the_log(
    one_class: House, caplog: pytest.LogCaptureFixture
) -> None:
    one_class.service.classes = every_class({}, {})
    expected = first_night(one_class, students(40))
    none = dict.fromkeys(("completed_assignments", "completion_rate", "total_time_minutes"), 0)
    term = everybody(total_assignments=0, average_score=None, **none)
    one_class.service.classes = every_class(
        {"average_completion_rate": 0, "average_score": None, "total_engagement_minutes": 0},
        {"has_assignments": False, "assignment_count": 0, "students_with_submissions": 0},
    )
    caplog.set_level(logging.INFO)
    one_class.night(2, term)
    assert one_class.tables() == expected.night(2, term, one_class.service.classes).tables()
    assert (
        "Most totals begin again in student_summaries, class_summaries, class_assignment_activity, as at the start of a term:"
        " that holds nothing"
    ) in caplog.messages


@pytest.mark.story
@pytest.mark.parametrize("total", [9, 6, None])
def test_counts_that_vanish_without_a_fall_of_the_total_are_held(one_class: House, total: int | None) -> None:
    """A term begins with a large fall, not with any."""
    first_night(one_class, everybody(total_assignments=10))
    none = dict.fromkeys(("completed_assignments", "completion_rate", "total_time_minutes", "average_score"))
    hold = is_held(one_class, 2, everybody(total_assignments=total, **none))
    assert "completed_assignments, completion_rate" in hold.reason


@pytest.mark.parametrize("measure", ["first_login_date", "last_activity_date", "has_ever_logged_in"])
def test_a_term_takes_no_date_and_no_login_flag_away(one_class: House, measure: str) -> None:
    first_night(one_class, everybody(total_assignments=10))
    lost = [record | {"activity_tracking": record["activity_tracking"] | {measure: None}} for record in students(40)]
    term = [r | {"summary": r["summary"] | {"total_assignments": 1, "completed_assignments": 0}} for r in lost]
    assert f"would lose {measure}" in is_held(one_class, 2, term).reason


def test_measures_are_judged_by_themselves_where_no_total_was_ever_stated(one_class: House) -> None:
    one_class.service.classes = [record | {"assignment_activity": None} for record in every_class({}, {})]
    first_night(one_class, everybody(total_assignments=None))
    one_class.service.classes = [record | {"summary": {}} for record in one_class.service.classes]
    hold = is_held(one_class, 2, everybody(total_assignments=None, total_time_minutes=None))
    assert "40 of 40 rows of student_summaries would lose total_time_minutes" in hold.reason
    assert "8 of 8 rows of class_summaries would lose" in hold.reason


@pytest.mark.story
def test_a_loss_in_slices_is_held_by_what_the_whole_day_removes(one_class: House) -> None:
    """Four syncs of a day, each of which removes a tenth."""
    first_night(one_class, students(100))
    one_class.night(2, students(90))
    hold = is_held(one_class, 2, students(81))
    assert hold.reason.startswith("with the day's earlier syncs, 19 of 100 students (19 %) would be removed")
    assert [(c.before, c.removed) for c in hold.counts if c.table == "students"] == [(90, 9)]
    one_class.approve()
    assert one_class.query("SELECT rows_removed > 0, verdict FROM ops.syncs WHERE landing = 2") == [(True, "approved")]
    one_class.night(2, students(76))  # what was approved has been seen
    hold = is_held(one_class, 2, students(70))
    assert "11 of 81 students (13.6 %) would be removed" in hold.reason


def test_what_a_later_sync_brings_back_is_no_loss(one_class: House) -> None:
    first_night(one_class, students(100))
    one_class.night(2, students(90))
    one_class.night(2, students(100))
    one_class.night(2, students(91))
    assert one_class.query("SELECT COUNT(*) FROM students") == [(91,)]


def test_class_averages_that_vanish_while_the_assignments_stay_are_held(one_class: House) -> None:
    one_class.service.classes = every_class({}, {})
    first_night(one_class, students(4))
    one_class.service.classes = every_class({"average_score": None, "total_engagement_minutes": 0}, {})
    assert is_held(one_class, 2, students(4)).reason == (
        "8 of 8 rows of class_summaries would lose average_score, total_engagement_minutes, though"
        " assignment_count does not begin again"
    )


def test_students_without_assignments_have_nothing_to_lose(one_class: House) -> None:
    """A school that gives no assignments: the minutes begin again with a term, and the totals say nothing."""
    first_night(one_class, everybody(total_assignments=0))
    one_class.night(2, everybody(total_assignments=0, total_time_minutes=0))
    assert one_class.query("SELECT SUM(total_time_minutes) FROM student_summaries") == [(0.0,)]


def test_another_name_for_most_students_is_held_on_a_school_day(one_class: House) -> None:
    first_night(one_class, students(40))
    renamed = [record | {"name": "Renamed"} for record in WORKED[:31]] + WORKED[31:]
    assert is_held(one_class, 2, renamed).reason.startswith("31 of 40 students (77.5 %) would change")


def test_a_past_day_is_judged_without_its_measures(one_class: House) -> None:
    first_night(one_class, students(40))
    one_class.night(3, WORKED)
    one_class.night(2, everybody(total_time_minutes=1300.0))
    assert one_class.query(f"SELECT DISTINCT total_time_minutes FROM student_summaries_as_of(DATE '{night(2)}')") == [
        (1300.0,)
    ]
