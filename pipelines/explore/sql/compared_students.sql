-- Explore: the students whose completion or score differs between two days, the largest fall first.
SELECT
    student_id, s.name AS student,
    CASE WHEN b.total_assignments > 0 THEN b.completion_rate END AS "completion before, %",
    CASE WHEN m.total_assignments > 0 THEN m.completion_rate END AS "after, %",
    b.average_score AS "score before",
    m.average_score AS after,
    COUNT(*) OVER () AS total
FROM student_summaries_as_of($day) AS m
INNER JOIN student_summaries_as_of($before) AS b USING (student_id)
INNER JOIN students_as_of($day) AS s USING (student_id)
WHERE ("after, %" IS DISTINCT FROM "completion before, %" OR after IS DISTINCT FROM "score before")
    AND ($text = '' OR CONTAINS(LOWER(s.name), LOWER($text)))
ORDER BY LEAST("after, %" - "completion before, %", after - "score before") NULLS LAST, s.name, student_id
