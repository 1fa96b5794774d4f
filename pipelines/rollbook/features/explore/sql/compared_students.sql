-- Explore: the students whose work differs between two days: those first of whom most assignments became missing.
-- The number of assignments is beside each percentage, since of two assignments one is half.
{% import "_words.sql" as words %}
SELECT
    student_id, s.name AS student,
    was.assignment_missing_count AS "missing before",
    now.assignment_missing_count AS "missing after",
    b.completed_assignments || ' of ' || b.total_assignments AS "completed before",
    m.completed_assignments || ' of ' || m.total_assignments AS "completed after",
    b.average_score AS "score before",
    m.average_score AS "score after"
FROM student_summaries_as_of($day) AS m
INNER JOIN student_summaries_as_of($before) AS b USING (student_id)
INNER JOIN students_as_of($day) AS s USING (student_id)
LEFT JOIN student_activity_as_of($day) AS now USING (student_id)
LEFT JOIN student_activity_as_of($before) AS was USING (student_id)
WHERE ("missing after" IS DISTINCT FROM "missing before"
    OR "completed after" IS DISTINCT FROM "completed before" OR "score after" IS DISTINCT FROM "score before")
    AND {{ words.held("s.name") }}
