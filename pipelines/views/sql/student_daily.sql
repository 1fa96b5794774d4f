-- student_daily: One row per landed day and student listed on it, as the student was that day, from history.
-- key: snapshot_date, student_id
--
-- It is the state: what a night left out or did not prove stands as it was known before. Ask for one day, some days or
-- some students. Write days as dates: a filter by a subquery makes all days before it chooses.
--
--   snapshot_date                The day of the snapshot.
--   student_id                   Unique student user id.
--   name                         Full name on that day.
--   class_count                  Active classes the student's record listed; NULL when it had never said.
--   total_assignments            Assignments given to the student.
--   completed_assignments        Assignments the student had completed.
--   completion_rate              Assignment completion, percent, 0 to 100.
--   average_score                Average score, 0 to 100; NULL when nothing was scored.
--   total_time_minutes           Total learning time in minutes.
--   assignment_submission_count  Assignments submitted.
--   assignment_missing_count     Assignments missing.
--   has_ever_logged_in           Whether the student had ever logged in.
--   last_activity_date           Day of the last activity: the later one, where summary and activity tracking differ.
--   days_inactive                Days from the last activity to that day.
--   is_active                    Whether the last activity was on that day or within the seven days before; NULL = unknown.
{% import "_student_state.sql" as state with context %}
WITH {{ state.class_counts("spans.days", ["snapshot_date"]) }}
SELECT
    {{ scope.of("landed") }}landed.snapshot_date,
{{ state.columns() }}
FROM {{ state.joined("spans.days", ["snapshot_date"]) }}
