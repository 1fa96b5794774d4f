-- student_daily: One row per landed day and student listed on it: the student's state on that day, from history.
-- key: snapshot_date, student_id
-- tells: days
--
-- The service may begin to count assignments again, with a term or a year: then total_assignments, completed_assignments
-- and mostly the submitted and missing ones fall, and completion is of other work. student_weekly leaves that out.
--
-- What a night left unstated or unproven keeps its last known value. Filter by days or by students, and write days as
-- date literals: with a subquery, DuckDB computes every day before it filters.
--
--   snapshot_date                The day of the snapshot.
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
{% import "_student_state.sql" as state with context %}
WITH {{ state.class_counts("spans.days", ["snapshot_date"]) }}
SELECT
    landed.snapshot_date,
{{ state.columns() }}
FROM {{ state.joined("spans.days", ["snapshot_date"]) }}
