-- student_weekly: One row per ISO week and student listed on its last landed day: that state, and the change in a week.
-- key: week_begins, student_id
-- tells: days
--
-- Changes are against the last landed day of the week before; NULL if nothing was landed in that week or the student
-- was not listed then. Filter by one week or some students; write weeks as dates.
--
-- The contract does not say since when the service counts assignments. Some count by term or year, and begin again: then
-- total_assignments is lower than before, completion and score are of other work, and all changes but minutes_change are
-- NULL. Learning time is assumed to go on; if it is lower than before, it began again, and minutes_change is NULL.
--
--   week_begins                  The Monday of the week.
--   snapshot_date                The last landed day of the week, whose state this is.
--   landed_days                  How many days of the week were landed.
--   student_id                   Unique student user id.
--   name                         Full name on that day.
--   class_count                  Active classes the student's record listed; NULL when it had never stated them.
--   total_assignments            Assignments given to the student.
--   completed_assignments        Assignments the student had completed.
--   completion_rate              As the service states it, percent, 0 to 100; may be 0, not NULL, without assignments.
--   completion                   The same, but NULL without assignments: the one to average and compare.
--   average_score                Average score, 0 to 100; NULL when nothing was scored.
--   total_time_minutes           Total learning time in minutes.
--   assignment_submission_count  Assignments submitted.
--   assignment_missing_count     Assignments missing.
--   has_ever_logged_in           Whether the student had ever logged in.
--   last_activity_date           Day of the last activity: the later of the days in summary and activity tracking.
--   days_inactive                Days from the last activity to that day.
--   is_active                    Whether the last activity was on that day or within the seven days before; NULL = unknown.
--   was_listed_before            Whether the student was listed on the last landed day of the week before.
--   submitted_change             Assignments submitted since then.
--   missing_change               Assignments newly missing since then (fewer, as some came late: negative).
--   completion_change            Points of completion gained since (lost: negative); NULL without assignments then or now.
--   score_change                 Points of average score gained since (lost: negative).
--   minutes_change               Minutes of learning time since then; NULL where they began again.
{% import "_student_state.sql" as state with context %}
{% import "_weeks.sql" as week with context %}
WITH weeks AS NOT MATERIALIZED (
    {{ week.landed() }}
),
before AS NOT MATERIALIZED (
    SELECT week_begins + 7 AS week_begins, snapshot_date FROM weeks
),
{{ state.class_counts("weeks", ["week_begins"]) }}
SELECT
    week_begins,
    landed.snapshot_date,
    landed.landed_days,
{{ state.columns() }},
    known.student_id IS NOT NULL AS was_listed_before,
{% for column, change in (
    ("submitted_change", "activity.assignment_submission_count - tracked.submitted"),
    ("missing_change", "activity.assignment_missing_count - tracked.missing"),
    ("completion_change", m.difference("summary.completion - earlier.completion")),
    ("score_change", m.difference("summary.average_score - earlier.average_score")),
) %}
    {{ state.of_same_count("summary", "earlier", change) }} AS {{ column }},
{% endfor %}
    {{ state.of_same_count(
        "summary", "earlier", "summary.total_time_minutes - earlier.total_time_minutes", "total_time_minutes"
    ) }} AS minutes_change
FROM {{ state.joined("weeks", ["week_begins"]) }}
LEFT JOIN (
    SELECT week_begins, student_id FROM {{ state.on_days("before", ["week_begins"], "students") }}
) AS known USING (week_begins, student_id)
LEFT JOIN {{ state.summaries("before", ["week_begins"]) }} AS earlier USING (week_begins, student_id)
LEFT JOIN (
    SELECT week_begins, student_id, assignment_submission_count AS submitted, assignment_missing_count AS missing
    FROM {{ state.on_days("before", ["week_begins"], "student_activity") }}
) AS tracked USING (week_begins, student_id)
