-- Explore: the students of one class, those with the lowest completion first.
SELECT
    r.student_id, r.name AS student,
    CASE WHEN m.total_assignments > 0 THEN m.completion_rate END AS "completion, %",
    m.average_score AS score,
    GREATEST(m.last_activity_date, a.last_activity_date) AS "last active",
    COUNT(*) OVER () AS total
FROM main.roster AS r
LEFT JOIN main.student_summaries AS m USING (student_id)
LEFT JOIN main.student_activity AS a USING (student_id)
WHERE r.class_id = $class_id AND ($text = '' OR CONTAINS(LOWER(r.name), LOWER($text)))
ORDER BY "completion, %" NULLS LAST, r.name, r.student_id
