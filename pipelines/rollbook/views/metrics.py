"""The measures that views share, each defined once: its name, definition, SQL and grain.

The views use the SQL as `{{ metric.is_active }}`, the view `metrics` lists it, and the data dictionary shows the
definition. A measure of a single view is in that view's file.
"""

from __future__ import annotations

from dataclasses import dataclass

# Days after the last activity during which a student still counts as active.
ACTIVE_DAYS = 7
# A class with fewer students is small: a single student may move the averages a lot.
SMALL_CLASS = 5


@dataclass(frozen=True)
class Metric:
    """One measure.

    `sql` is an expression over `source`, the FROM clause. `grain` names the columns that each value belongs to.
    `shown_in` is the column, `view.column`, that shows the measure; empty if it is only a part of other measures.
    """

    name: str
    definition: str
    sql: str
    grain: tuple[str, ...]
    source: str
    shown_in: str = ""
    is_aggregate: bool = True

    @property
    def query(self) -> str:
        """The query of all values: the grain's columns, then the value."""
        keys = ", ".join(self.grain)
        groups = f" GROUP BY {keys}" if self.is_aggregate else ""
        return f"SELECT {keys}, {self.sql} AS {self.name} FROM {self.source}{groups}"


def _of_student(name: str, definition: str, sql: str, shown_in: str = "") -> Metric:
    """A measure of one student on the newest landed day, over `summary`, `activity` and `landed`."""
    source = (
        "students CROSS JOIN (SELECT MAX(snapshot_date) AS snapshot_date FROM spans.days) AS landed"
        " LEFT JOIN student_summaries AS summary USING (student_id)"
        " LEFT JOIN student_activity AS activity USING (student_id)"
    )
    return Metric(name, definition, sql, ("student_id",), source, shown_in, is_aggregate=False)


def _of_class(name: str, definition: str, column: str, nothing: str) -> Metric:
    """A measure of an active class, of which a 0 means nothing where there is nothing to measure."""
    source = (
        "classes LEFT JOIN class_summaries USING (class_id) LEFT JOIN class_assignment_activity USING (class_id)"
        " WHERE class_status = 1"
    )
    sql = f"CASE WHEN {column} <> 0 OR NOT COALESCE({nothing}, FALSE) THEN {column} END"
    return Metric(name, definition, sql, ("class_id",), source, f"class_comparison.{column}", is_aggregate=False)


def _of_day(name: str, definition: str, sql: str) -> Metric:
    """A measure of all students on one landed day."""
    return Metric(name, definition, sql, ("snapshot_date",), "student_daily", f"progress_daily.{name}")


def _of_course(name: str, definition: str, sql: str) -> Metric:
    """A measure of a course's classes, which also applies to a teacher's."""
    return Metric(
        name, definition, sql, ("course_id",), "classes WHERE course_id IS NOT NULL", f"course_overview.{name}"
    )


def _of_roster(name: str, definition: str, sql: str) -> Metric:
    """A measure of the students whose records list an active class."""
    source = (
        "classes LEFT JOIN student_classes USING (class_id) LEFT JOIN student_summaries USING (student_id)"
        " WHERE class_status = 1"
    )
    return Metric(name, definition, sql, ("class_id",), source, f"class_comparison.{name}")


_LAST_ACTIVITY = "GREATEST(summary.last_activity_date, activity.last_activity_date)"
_NEVER = "NOT has_ever_logged_in"
_COMPLETION = "CASE WHEN total_assignments > 0 THEN completion_rate END"
_EMPTY = "NOT has_assignments OR assignment_count = 0 OR student_count = 0"

METRICS: tuple[Metric, ...] = (
    _of_student(
        "last_activity_date",
        "The student's last day of activity: the later of the days in the summary and in activity tracking.",
        _LAST_ACTIVITY,
        "student_progress.last_activity_date",
    ),
    _of_student(
        "days_inactive",
        "Days from the student's last activity to the day in question.",
        f"landed.snapshot_date - {_LAST_ACTIVITY}",
        "student_progress.days_inactive",
    ),
    _of_student(
        "never_logged_in",
        "Activity tracking says that the student has never logged in; unknown without activity tracking.",
        _NEVER,
    ),
    _of_student(
        "is_active",
        f"The student's last activity was on the day in question or within the {ACTIVE_DAYS} days before. Without a"
        " known last activity, a student who never logged in is not active; for others it is unknown.",
        f"COALESCE(landed.snapshot_date - {_LAST_ACTIVITY} <= {ACTIVE_DAYS}, CASE WHEN {_NEVER} THEN FALSE END)",
        "student_progress.is_active",
    ),
    _of_student(
        "completion",
        "The student's completion in percent. A student without assignments has none, whatever completion_rate says: it"
        " counts in no average, and is not low.",
        _COMPLETION,
        "student_progress.completion",
    ),
    _of_day("students", "Students listed, each counted once.", "COUNT(*)"),
    _of_day(
        "average_completion_rate",
        "The average completion of the students who have assignments, each counted once.",
        f"ROUND(AVG({_COMPLETION}), 2)",
    ),
    _of_day(
        "average_score",
        "The average of the students' average scores, over those who have one, each counted once.",
        "ROUND(AVG(average_score), 2)",
    ),
    _of_day("scored_students", "Students who have a score.", "COUNT(average_score)"),
    _of_day("active_students", "Students who are active.", "COUNT(*) FILTER (is_active)"),
    _of_day(
        "active_percent",
        "Active students as a share of the students listed, percent; unknown where nobody's activity is known.",
        "CASE WHEN COUNT(is_active) > 0 THEN ROUND(100.0 * COUNT(*) FILTER (is_active) / COUNT(*), 2) END",
    ),
    _of_day("never_logged_in_students", "Students who have never logged in.", f"COUNT(*) FILTER ({_NEVER})"),
    _of_day(
        "total_time_minutes",
        "Learning time of all students listed, since they began, in minutes.",
        "COALESCE(SUM(total_time_minutes), 0)",
    ),
    _of_course("class_count", "Listed classes, active or not.", "COUNT(*)"),
    _of_course("active_class_count", "Active classes.", "COUNT(*) FILTER (class_status = 1)"),
    _of_course(
        "student_places",
        "The sum of the active classes' own student_count: a student in two of them counts twice.",
        "CAST(SUM(CASE WHEN class_status = 1 THEN student_count ELSE 0 END) AS BIGINT)",
    ),
    _of_class(
        "class_completion",
        "The class's own average completion, percent. A 0 of a class without assignments or students is none: it counts"
        " in no average, and in no rank.",
        "average_completion_rate",
        _EMPTY,
    ),
    _of_class(
        "class_score",
        "The class's own average score. A 0 of a class without assignments, students or submissions is none.",
        "average_score",
        f"{_EMPTY} OR students_with_submissions = 0",
    ),
    _of_roster("roster_students", "Students whose records list the class.", "COUNT(student_id)"),
    _of_roster(
        "roster_completion_rate",
        "The average completion of these students, each over all of their classes. The class's own completion, over its"
        " own assignments, is another number: average_completion_rate, as its record gives it.",
        f"ROUND(AVG({_COMPLETION}), 2)",
    ),
)

# The expressions by name, as the views' files use them.
SQL: dict[str, str] = {m.name: m.sql for m in METRICS}
