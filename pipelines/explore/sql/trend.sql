-- Explore: the institution on each of the last landed days.
SELECT *
FROM (
    SELECT
        snapshot_date, students, students_added, students_removed, average_completion_rate, average_score, active_percent
    FROM main.progress_daily ORDER BY snapshot_date DESC LIMIT $most
)
ORDER BY snapshot_date
