-- Explore: one student on each of the last landed days on which the student was listed.
SELECT *
FROM (
    SELECT
        d.snapshot_date,
        CASE WHEN m.total_assignments > 0 THEN m.completion_rate END AS completion_rate,
        m.average_score
    FROM spans.days AS d
    INNER JOIN history.student_summaries AS m
        ON m.valid_from <= d.snapshot_date AND (m.valid_to IS NULL OR m.valid_to > d.snapshot_date)
    WHERE m.student_id = $student_id
    ORDER BY d.snapshot_date DESC LIMIT $most
)
ORDER BY snapshot_date
