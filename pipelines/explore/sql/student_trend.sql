-- Explore: one student on each of the last landed days on which the student was listed.
SELECT *
FROM (
    SELECT
        snapshot_date,
        CASE WHEN total_assignments > 0 THEN completion_rate END AS completion_rate,
        average_score
    FROM main.student_daily
    WHERE student_id = $student_id
    ORDER BY snapshot_date DESC LIMIT $most
)
ORDER BY snapshot_date
