-- Explore: the students whose completion or score differs between two days, the largest fall first.
SELECT
    student_id, s.name,
    CASE WHEN b.total_assignments > 0 THEN b.completion_rate END AS completion_before,
    CASE WHEN m.total_assignments > 0 THEN m.completion_rate END AS completion,
    b.average_score AS score_before,
    m.average_score AS score,
    COUNT(*) OVER () AS total
FROM student_summaries_as_of($day) AS m
INNER JOIN student_summaries_as_of($before) AS b USING (student_id)
INNER JOIN students_as_of($day) AS s USING (student_id)
WHERE (completion IS DISTINCT FROM completion_before OR score IS DISTINCT FROM score_before)
    AND ($text = '' OR CONTAINS(LOWER(s.name), LOWER($text)))
ORDER BY LEAST(completion - completion_before, score - score_before) NULLS LAST, s.name, student_id
LIMIT $most OFFSET $skip
