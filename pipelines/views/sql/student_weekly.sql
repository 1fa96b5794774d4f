-- student_weekly: One row per ISO week and student listed on its last landed day: that state, and the change in a week.
-- key: week_begins, student_id
--
-- Changes are against the last landed day of the week before; NULL if nothing was landed in that week or the student
-- was not listed then. Filter by one week or some students; write weeks as dates.
--
--   week_begins                  The Monday of the week.
--   snapshot_date                The last landed day of the week, whose state this is.
--   landed_days                  How many days of the week were landed.
--   student_id                   Unique student user id.
--   name                         Full name on that day.
--   class_count                  Active classes the student's record listed; NULL when it had never stated them.
--   total_assignments            Assignments given to the student.
--   completed_assignments        Assignments the student had completed.
--   completion_rate              Assignment completion, percent, 0 to 100.
--   average_score                Average score, 0 to 100; NULL when nothing was scored.
--   total_time_minutes           Total learning time in minutes.
--   assignment_submission_count  Assignments submitted.
--   assignment_missing_count     Assignments missing.
--   has_ever_logged_in           Whether the student had ever logged in.
--   last_activity_date           Day of the last activity: the later of the days in summary and activity tracking.
--   days_inactive                Days from the last activity to that day.
--   is_active                    Whether the last activity was on that day or within the seven days before; NULL = unknown.
--   was_listed_before            Whether the student was listed on the last landed day of the week before.
--   completed_change             Assignments completed since then.
--   completion_change            Points of completion gained since (lost: negative); NULL without assignments then or now.
--   score_change                 Points of average score gained since (lost: negative).
--   minutes_change               Minutes of learning time since then.
{% import "_student_state.sql" as state with context %}
{% import "_weeks.sql" as week with context %}
WITH weeks AS NOT MATERIALIZED (
    {{ week.landed() }}
),
before AS NOT MATERIALIZED (
    SELECT {{ scope.id }}week_begins + 7 AS week_begins, snapshot_date FROM weeks
),
{{ state.class_counts("weeks", ["week_begins"]) }}
SELECT
    {{ scope.id }}week_begins,
    landed.snapshot_date,
    landed.landed_days,
{{ state.columns() }},
    earlier.student_id IS NOT NULL AS was_listed_before,
    summary.completed_assignments - earlier.completed_assignments AS completed_change,
    {{ m.difference("summary.completion - earlier.completion") }} AS completion_change,
    {{ m.difference("summary.average_score - earlier.average_score") }} AS score_change,
    summary.total_time_minutes - earlier.total_time_minutes AS minutes_change
FROM {{ state.joined("weeks", ["week_begins"]) }}
LEFT JOIN {{ state.summaries("before", ["week_begins"]) }} AS earlier USING ({{ scope.id }}week_begins, student_id)
