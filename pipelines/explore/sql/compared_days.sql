-- Explore: the institution on two landed days.
SELECT
    snapshot_date, students, average_completion_rate, average_score, active_percent, low_completion_students,
    never_logged_in_students, total_time_minutes
FROM main.progress_daily WHERE snapshot_date IN (CAST($day AS DATE), CAST($before AS DATE)) ORDER BY snapshot_date
