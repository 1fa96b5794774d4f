-- Explore: the versions of one student's summary, the newest first.
SELECT
    valid_from, valid_to, total_assignments, completed_assignments,
    CASE WHEN total_assignments > 0 THEN completion_rate END AS completion_rate,
    average_score, total_time_minutes,
    COUNT(*) OVER () AS total
FROM history.student_summaries WHERE student_id = $student_id
ORDER BY valid_from DESC LIMIT $most OFFSET $skip
