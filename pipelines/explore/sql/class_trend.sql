-- Explore: one class on each of the last landed days.
SELECT *
FROM (
    SELECT snapshot_date, student_count, average_completion_rate, average_score
    FROM main.class_daily WHERE class_id = $class_id ORDER BY snapshot_date DESC LIMIT $most
)
ORDER BY snapshot_date
